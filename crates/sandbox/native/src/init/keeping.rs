//! Init between code that changes a file and the host that keeps what the file was.

use super::Session;
use crate::keep::Told;
use crate::named::Named;
use crate::notify::{Question, answer, respond};
use crate::sys::{self, Errno};

impl Session {
    /// In the first init of a family: a file is about to be changed, here or in a fork. The call waits if there is something to keep.
    pub(super) fn keep(&mut self, question: &Question) {
        let listener = self.init.listener;
        let processes = self.init.proc_directory;
        let relative = self.kin.responsible_for(processes, question.asker());
        let has_work = |session: &Session| {
            let keeper = session.init.keeper.as_ref();
            keeper.is_some_and(|keeper| keeper.has_work())
        };
        if relative.is_none() && !has_work(self) {
            return answer(listener, question, true);
        }
        let named = match Named::by(question, processes) {
            Ok(named) => named,
            // A process that closed itself to us.
            Err(Errno::PERM | Errno::ACCES) => Named::unknown(),
            // What cannot be read is no path for the kernel either.
            Err(_) => return answer(listener, question, true),
        };
        match relative {
            None => self.keep_named(question, &named),
            // Who cannot keep up must not hold up the whole family.
            Some(socket) => {
                if named.pass(question, socket).is_err() {
                    respond(listener, question.id(), Err(Errno::AGAIN));
                }
            }
        }
    }

    /// The same for a call of this session, whose file has been named.
    pub(super) fn keep_named(&mut self, question: &Question, named: &Named) {
        let told = match &mut self.init.keeper {
            Some(keeper) => keeper.tell(question, named),
            None => Told::Nothing,
        };
        match told {
            Told::Nothing => answer(self.init.listener, question, true),
            Told::Waits => {}
            Told::Cannot => respond(self.init.listener, question.id(), Err(Errno::IO)),
        }
    }

    pub(super) fn hear_keeper(&mut self) {
        let listener = self.init.listener;
        if let Some(keeper) = &mut self.init.keeper {
            keeper.hear(|id, outcome| respond(listener, id, outcome));
        }
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
        if let Some(keeper) = &mut self.init.keeper {
            let release = |id, outcome| respond(listener, id, outcome);
            keeper.waiting.release_overdue(now, release);
        }
    }
}
