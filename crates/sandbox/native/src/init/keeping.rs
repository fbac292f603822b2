//! Init between code that changes a file and the host that keeps what the file was.

use super::Session;
use crate::files::keep::{Heard, Keeper, Sharing, Told};
use crate::files::named::Named;
use crate::files::own_file::Acted;
use crate::files::pending::Awaited;
use crate::init::notify::{Question, answer, is_waiting, respond};
use crate::sys::{self, Errno, Result};

impl Session {
    /// In the first init of a family: a file is about to be changed, here or in a fork. The call waits if there is something to keep.
    pub(super) fn keep(&mut self, mut question: Question) {
        let listener = self.init.listener;
        let processes = self.init.proc_directory;
        let relative = self.kin.responsible_for(processes, question.asker());
        let keeper = self.init.keeper.as_ref();
        if relative.is_none() && !keeper.is_some_and(Keeper::has_work) {
            return answer(listener, &question, true);
        }
        let is_done_by_init = relative.is_some() || self.acts(&question);
        let named = Named::by(&question, processes).and_then(|mut named| {
            if is_done_by_init {
                named.read_on(&mut question, processes)?;
            }
            Ok(named)
        });
        let named = match named {
            Ok(named) => named,
            // A process that closed itself to us.
            Err(Errno::PERM | Errno::ACCES) => Named::unknown(),
            // What cannot be read is nothing for the kernel either.
            Err(_) if !is_done_by_init => return answer(listener, &question, true),
            Err(errno) => return respond(listener, question.id(), Err(errno)),
        };
        // What was read under the number of whoever asked was not another's: it is still there.
        if !is_waiting(listener, question.id()) {
            return;
        }
        match relative {
            None => self.keep_named(&question, named),
            // Who cannot keep up must not hold up the whole family.
            Some(socket) => {
                if named.pass(&question, socket).is_err() {
                    respond(listener, question.id(), Err(Errno::AGAIN));
                }
            }
        }
    }

    fn acts(&self, question: &Question) -> bool {
        let keeper = self.init.keeper.as_ref();
        keeper.is_some_and(|keeper| keeper.acts(question.number()))
    }

    /// The same for a call of this session, whose file has been named.
    pub(super) fn keep_named(&mut self, question: &Question, named: Named) {
        if self.acts(question) {
            return self.act(question, named, None);
        }
        let told = match &mut self.init.keeper {
            Some(keeper) => keeper.tell(question, &named),
            None => Told::Nothing,
        };
        match told {
            Told::Nothing => answer(self.init.listener, question, true),
            Told::Waits => {}
        }
    }

    /// Does what a call asks for, now or later.
    fn act(&mut self, question: &Question, named: Named, own: Option<u64>) {
        let (listener, head) = (self.init.listener, self.init.head);
        let Some(keeper) = &mut self.init.keeper else {
            return respond(listener, question.id(), Err(Errno::IO));
        };
        match keeper.act(question, named, own, head) {
            Acted::Waits => {}
            Acted::Done(Ok(done)) => done.report(listener, question, &mut self.handover),
            Acted::Done(Err(errno)) => respond(listener, question.id(), Err(errno)),
        }
    }

    pub(super) fn hear_keeper(&mut self) {
        let listener = self.init.listener;
        let Some(keeper) = &mut self.init.keeper else {
            return;
        };
        match keeper.hear() {
            Heard::Answer(id, outcome) => self.go_on(id, outcome),
            Heard::Nothing => {}
            Heard::Gone => keeper.end(|id, outcome| respond(listener, id, outcome)),
        }
    }

    /// The host has answered.
    fn go_on(&mut self, id: u64, outcome: Result<u64>) {
        let listener = self.init.listener;
        let keeper = self.init.keeper.as_mut();
        let call = keeper.and_then(|keeper| keeper.pending.take(Awaited::Host(id)));
        match (call, outcome) {
            (None, outcome) => respond(listener, id, outcome.map(drop)),
            // Who asks no more must not be served: it may have asked again.
            (Some((question, named)), Ok(own)) if is_waiting(listener, id) => {
                let is_certain = !self.shares_this_moment();
                self.act(&question, named, is_certain.then_some(own));
            }
            (Some(_), Ok(_)) => {}
            (Some(_), Err(errno)) => respond(listener, id, Err(errno)),
        }
    }

    fn shares_this_moment(&self) -> bool {
        let keeper = self.init.keeper.as_ref();
        keeper.is_some_and(|keeper| keeper.sharing == Sharing::Begins)
    }

    /// Once a fork is made, or has come to nothing, the calls that waited for that are done.
    pub(super) fn end_sharing(&mut self) {
        if !self.shares_this_moment() || self.forks.is_preparing() {
            return;
        }
        if let Some(keeper) = &mut self.init.keeper {
            keeper.sharing = Sharing::WithForks;
        }
        while let Some((question, named)) = self
            .init
            .keeper
            .as_mut()
            .and_then(|keeper| keeper.pending.take(Awaited::Fork))
        {
            if is_waiting(self.init.listener, question.id()) {
                self.act(&question, named, None);
            }
        }
    }

    pub(super) fn has_pipes_to_open(&self) -> bool {
        let keeper = self.init.keeper.as_ref();
        keeper.is_some_and(|keeper| keeper.pending.has(Awaited::Reader))
    }

    /// Opens pipes that somebody reads from now.
    pub(super) fn open_pipes(&mut self) {
        let mut start = 0;
        while let Some((next, (question, named))) = self
            .init
            .keeper
            .as_mut()
            .and_then(|keeper| keeper.pending.take_from(start, Awaited::Reader))
        {
            start = next;
            if is_waiting(self.init.listener, question.id()) {
                self.act(&question, named, None);
            }
        }
    }

    /// Whether the host hears of files before they are changed.
    pub(super) fn asks_host(&self) -> bool {
        let keeper = self.init.keeper.as_ref();
        keeper.is_some_and(|keeper| keeper.socket >= 0)
    }

    pub(super) fn keeps_someone_waiting(&self) -> bool {
        let keeper = self.init.keeper.as_ref();
        keeper.is_some_and(|keeper| !keeper.waiting.is_empty())
    }

    /// A host that is slow must not hold up the session for ever.
    pub(super) fn release_overdue(&mut self) {
        if !self.keeps_someone_waiting() {
            return;
        }
        let (listener, now) = (self.init.listener, sys::monotonic_milliseconds());
        if let Some(Keeper {
            waiting, pending, ..
        }) = &mut self.init.keeper
        {
            waiting.release_overdue(now, |id, outcome| {
                drop(pending.take(Awaited::Host(id)));
                respond(listener, id, outcome);
            });
        }
    }
}
