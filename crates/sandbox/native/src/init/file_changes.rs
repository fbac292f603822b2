//! Init between code that changes a file and the host that keeps what the file was.

use super::Session;
use crate::files::change_handler::{ChangeHandler, HostMessage, Query, Sharing};
use crate::files::deferred_calls::Awaited;
use crate::files::file_argument::FileArgument;
use crate::files::own_file::Performed;
use crate::init::notify::{Notification, answer, is_waiting, respond};
use crate::sys::{self, Errno, Result};

impl Session {
    /// In the first init of a family: a file is about to be changed, here or in a fork. The call waits if the host has to keep a copy first.
    pub(super) fn receive_file_call(&mut self, mut notification: Notification) {
        let listener = self.init.listener;
        let processes = self.init.proc_directory;
        let member_socket = self
            .family
            .responsible_for(processes, notification.caller());
        let change_handler = self.init.change_handler.as_ref();
        if member_socket.is_none() && !change_handler.is_some_and(ChangeHandler::has_work) {
            return answer(listener, &notification, true);
        }
        let is_done_by_init = member_socket.is_some() || self.performs(&notification);
        let file_argument =
            FileArgument::by(&notification, processes).and_then(|mut file_argument| {
                if is_done_by_init {
                    file_argument.read_on(&mut notification, processes)?;
                }
                Ok(file_argument)
            });
        let file_argument = match file_argument {
            Ok(file_argument) => file_argument,
            // A process that closed itself to us.
            Err(Errno::PERM | Errno::ACCES) => FileArgument::unknown(),
            // What cannot be read is nothing for the kernel either.
            Err(_) if !is_done_by_init => return answer(listener, &notification, true),
            Err(errno) => return respond(listener, notification.id(), Err(errno)),
        };
        // The process is still there, so what was read under its number was its own.
        if !is_waiting(listener, notification.id()) {
            return;
        }
        match member_socket {
            None => self.handle_file_call(&notification, file_argument),
            // An init that cannot keep up must not hold up the whole family.
            Some(socket) => {
                if file_argument.pass(&notification, socket).is_err()
                    && self.postponed.add(listener, notification).is_err()
                {
                    respond(listener, notification.id(), Err(Errno::AGAIN));
                }
            }
        }
    }

    fn performs(&self, notification: &Notification) -> bool {
        let change_handler = self.init.change_handler.as_ref();
        change_handler.is_some_and(|change_handler| change_handler.performs(notification.number()))
    }

    /// The same for a call of this session, whose arguments were read.
    pub(super) fn handle_file_call(
        &mut self,
        notification: &Notification,
        file_argument: FileArgument,
    ) {
        if self.performs(notification) {
            return self.perform(notification, file_argument, None);
        }
        let told = match &mut self.init.change_handler {
            Some(change_handler) => change_handler.query_host(notification, &file_argument),
            None => Query::Nothing,
        };
        match told {
            Query::Nothing => answer(self.init.listener, notification, true),
            Query::Waits => {}
        }
    }

    /// Does what a call asks for, now or later.
    fn perform(
        &mut self,
        notification: &Notification,
        file_argument: FileArgument,
        own: Option<u64>,
    ) {
        let (listener, head) = (self.init.listener, self.init.head);
        let Some(change_handler) = &mut self.init.change_handler else {
            return respond(listener, notification.id(), Err(Errno::IO));
        };
        match change_handler.perform(notification, file_argument, own, head) {
            Performed::Waits => {}
            Performed::Done(Ok(done)) => done.report(listener, notification, &mut self.handover),
            Performed::Done(Err(errno)) => respond(listener, notification.id(), Err(errno)),
        }
    }

    pub(super) fn receive_host_answer(&mut self) {
        let listener = self.init.listener;
        let Some(change_handler) = &mut self.init.change_handler else {
            return;
        };
        match change_handler.receive_from_host() {
            HostMessage::Answer {
                asked,
                current,
                outcome,
            } => self.go_on(asked, current, outcome),
            HostMessage::Nothing => {}
            HostMessage::Gone => change_handler.end(|id, outcome| respond(listener, id, outcome)),
        }
    }

    /// The host has answered what it was asked under the number `asked`. The call may have been made again since, under the number `current`.
    fn go_on(&mut self, asked: u64, current: u64, outcome: Result<u64>) {
        let listener = self.init.listener;
        let change_handler = self.init.change_handler.as_mut();
        let call = change_handler
            .and_then(|change_handler| change_handler.deferred.take(Awaited::Host(asked)));
        match (call, outcome) {
            (None, outcome) => respond(listener, current, outcome.map(drop)),
            // A caller that does not wait must not be served: it will make the call again.
            (Some((notification, file_argument)), Ok(own))
                if is_waiting(listener, notification.id()) =>
            {
                let is_certain = !self.shares_this_moment();
                self.perform(&notification, file_argument, is_certain.then_some(own));
            }
            (Some(_), Ok(_)) => {}
            (Some((notification, _)), Err(errno)) => {
                respond(listener, notification.id(), Err(errno));
            }
        }
    }

    fn shares_this_moment(&self) -> bool {
        let change_handler = self.init.change_handler.as_ref();
        change_handler.is_some_and(|change_handler| change_handler.sharing == Sharing::Begins)
    }

    /// Once a fork is made, or has come to nothing, the calls that waited for that are done.
    pub(super) fn end_sharing(&mut self) {
        if !self.shares_this_moment() || self.forks.is_preparing() {
            return;
        }
        if let Some(change_handler) = &mut self.init.change_handler {
            change_handler.sharing = Sharing::WithForks;
        }
        while let Some((notification, file_argument)) = self
            .init
            .change_handler
            .as_mut()
            .and_then(|change_handler| change_handler.deferred.take(Awaited::Fork))
        {
            if is_waiting(self.init.listener, notification.id()) {
                self.perform(&notification, file_argument, None);
            }
        }
    }

    pub(super) fn has_calls_to_try(&self) -> bool {
        let change_handler = self.init.change_handler.as_ref();
        change_handler.is_some_and(|change_handler| change_handler.deferred.has(Awaited::NextTry))
    }

    /// Tries the calls again that could not be done before: pipes may have a reader now.
    pub(super) fn try_calls_again(&mut self) {
        let mut start = 0;
        while let Some((next, (notification, file_argument))) = self
            .init
            .change_handler
            .as_mut()
            .and_then(|change_handler| change_handler.deferred.take_from(start, Awaited::NextTry))
        {
            start = next;
            if is_waiting(self.init.listener, notification.id()) {
                self.perform(&notification, file_argument, None);
            }
        }
    }

    /// Whether the host hears of files before they are changed.
    pub(super) fn asks_host(&self) -> bool {
        let change_handler = self.init.change_handler.as_ref();
        change_handler.is_some_and(|change_handler| change_handler.socket >= 0)
    }

    pub(super) fn keeps_someone_waiting(&self) -> bool {
        let change_handler = self.init.change_handler.as_ref();
        change_handler.is_some_and(|change_handler| !change_handler.waiting.is_empty())
    }

    /// A host that is slow must not hold up the session for ever.
    pub(super) fn release_overdue(&mut self) {
        if !self.keeps_someone_waiting() {
            return;
        }
        let (listener, now) = (self.init.listener, sys::monotonic_milliseconds());
        if let Some(ChangeHandler {
            waiting, deferred, ..
        }) = &mut self.init.change_handler
        {
            waiting.release_overdue(now, |call| {
                drop(deferred.take(Awaited::Host(call.asked)));
                respond(listener, call.current, call.outcome);
            });
        }
    }
}
