//! Init and its relatives: forks of its session, and in a fork the inits that were there before.

use super::Session;
use crate::files::keep::{Keeper, Sharing};
use crate::files::named::{MAX_PASSED_BYTES, Named};
use crate::forks::entering;
use crate::forks::fork;
use crate::init::notify::{self, Question};
use crate::init::stillness;
use crate::init::sweep;
use crate::init::watchdog::user_objects::UserObjects;
use crate::sys::{self, Errno, Pid, Received, nr, receive, send, send_now};
use crate::walls::limits;
use crate::wire::message::{At, Failure, Message, Stage, from_init, kin};

impl Session {
    /// The kernel, or the first init of the family, asks about a call.
    pub(super) fn hear_question(&mut self) {
        if self.init.judge < 0 {
            let Ok(question) = notify::receive(self.init.listener) else {
                return;
            };
            if Keeper::is_about(question.number()) {
                return self.keep(question);
            }
            match self
                .kin
                .responsible_for(self.init.proc_directory, question.asker())
            {
                None => self.judge(&question),
                Some(socket) => {
                    // Who cannot keep up must not hold up the whole family.
                    let passed = self
                        .as_its_session_counts(question)
                        .and_then(|question| send_now(socket, question.as_bytes(), &[]));
                    if passed.is_err() {
                        notify::answer(self.init.listener, &question, false);
                    }
                }
            }
            return;
        }
        let mut bytes = [0; MAX_PASSED_BYTES];
        let received = receive(self.init.judge, &mut bytes).unwrap_or_default();
        let length = received.bytes;
        if length == 0 {
            // The first init is gone, and we with it.
            self.init.judge = -1;
            self.init.listener = -1;
        } else if let Some(question) = Question::from_bytes(&bytes[..length]) {
            self.judge(&question);
        } else if let Some((question, named)) = Named::passed(&bytes[..length], &received) {
            self.keep_named(&question, named);
        } else if let Ok((message, _)) = Message::from_bytes(&bytes[..length])
            && message.kind == kin::ROOM
        {
            self.make_room(message.a);
        }
    }

    /// A question for the init of a fork. If the call is about entering one of that session's own forks, its init must know the asker by the id
    /// that the asker has there.
    fn as_its_session_counts(&self, question: Question) -> sys::Result<Question> {
        match question.number() {
            nr::PTRACE | nr::SETNS => {
                entering::innermost_pid(self.init.proc_directory, question.asker())
                    .map(|pid| question.asked_by(pid))
            }
            _ => Ok(question),
        }
    }

    fn judge(&mut self, question: &Question) {
        if UserObjects::is_about(question.number()) {
            return self.judge_object(question);
        }
        let listener = self.init.listener;
        let (number, arguments) = (question.number(), question.arguments());
        let allowed = match number {
            nr::PTRACE => return self.hear_of_tracing(question),
            nr::SETNS => return self.hear_of_namespace(question),
            _ => {
                notify::is_harmless(number, arguments, &self.out_of_bounds())
                    && !self.may_hit_a_group_of_forks(number, arguments)
            }
        };
        notify::answer(listener, question, allowed);
    }

    /// The host asks us for a fork before it asks the head to enter it. On a busy machine both may have done so before we look.
    pub(super) fn hear_of_a_fork(&mut self) {
        while !self.forks.is_preparing() && sweep::wait_readable(self.init.control, 0) {
            self.obey();
        }
    }

    /// A process group can outlive the process that it is named after; then nobody can tell whose it is.
    fn may_hit_a_group_of_forks(&self, number: usize, arguments: &[u64; 6]) -> bool {
        let group = (arguments[0] as Pid).wrapping_neg();
        number == nr::KILL
            && group > 1
            && !self.forks.is_empty()
            && !sweep::is_there(self.init.proc_directory, group)
    }

    /// An init of the family, of which we are the first, tells of another one, or is gone.
    pub(super) fn hear_relative(&mut self, index: usize) {
        let Some((socket, pid)) = self.kin.at(index) else {
            return;
        };
        let mut bytes = [0; Message::SIZE];
        match receive(socket, &mut bytes) {
            Ok(received) if received.bytes > 0 => {
                if let Ok((message, _)) = Message::from_bytes(&bytes[..received.bytes])
                    && message.kind == kin::REGISTER
                    && let Some(socket) = received.descriptors[..received.count].first()
                {
                    let _ = self.kin.add(*socket, pid, message.a);
                }
            }
            _ => self.kin.remove(index),
        }
        self.share_room();
    }

    /// All sessions of a family have one user, and the kernel counts the processes of forks as their parents' too.
    fn share_room(&mut self) {
        if self.init.judge < 0 {
            self.make_room(self.kin.below(fork::FIRST));
            self.kin.tell_room();
        }
    }

    fn make_room(&mut self, room: u64) {
        if room == self.room {
            return;
        }
        self.room = room;
        let most = self.init.processes.saturating_add(room);
        let forks = &self.forks;
        let processes = self.init.proc_directory;
        sweep::each_process(self.init.reach, processes, |pid| {
            if !forks.has(processes, pid) {
                let _ = limits::allow_processes(pid, most);
            }
        });
    }

    /// Makes the init and the namespaces of a fork.
    pub(super) fn prepare_fork(&mut self, bytes: &[u8], received: &Received) {
        // The last one told that it lives before it told the host.
        self.hear_fork();
        // From now on: the host shares files with the fork when it hears that the fork is prepared.
        if let Some(keeper) = &mut self.init.keeper {
            keeper.sharing = Sharing::Begins;
        }
        let outcome = if self.forks.is_preparing() {
            Err(Errno::AGAIN).at(Stage::Request)
        } else if let Err(errno) = self.let_calls_end() {
            Err(errno).at(Stage::Calls)
        } else {
            let parent = fork::Parent {
                listener: self.init.listener,
                proc_directory: self.init.proc_directory,
            };
            let descriptors = &received.descriptors[..received.count];
            fork::prepare(&parent, &mut self.next_users, bytes, descriptors)
        };
        let outcome = outcome.and_then(|(prepared, introduction)| {
            let registered = if self.init.judge < 0 {
                self.kin
                    .add(introduction.socket, fork::FIRST, introduction.processes)
            } else {
                let message = Message {
                    kind: kin::REGISTER,
                    a: introduction.processes,
                    ..Message::default()
                };
                let sent = send(self.init.judge, &message.to_bytes(), &[introduction.socket]);
                sys::close(introduction.socket);
                sent
            };
            match registered {
                Ok(()) => self.forks.expect(prepared),
                Err(errno) => {
                    prepared.give_up();
                    Err(errno)
                }
            }
            .at(Stage::Namespaces)
        });
        match outcome {
            Ok(()) => {
                self.share_room();
                self.tell(from_init::PREPARED, 0, 0, 0);
            }
            Err(Failure { stage, errno }) => {
                self.tell(from_init::PREPARED, stage as u64, errno.0 as u64, 0);
            }
        }
    }

    /// Calls that went on when there was nothing to share may still be on their way to a file.
    fn let_calls_end(&self) -> sys::Result<()> {
        if self.init.keeper.is_none() {
            return Ok(());
        }
        let processes = self.init.proc_directory;
        stillness::let_calls_end(self.init.reach, processes, |pid| {
            self.forks.has(processes, pid)
        })
    }

    /// Whether the fork that was prepared lives, if it has told.
    pub(super) fn hear_fork(&mut self) {
        if self.forks.is_preparing() && sweep::wait_readable(self.forks.news(), 0) {
            self.forks.settle();
        }
    }
}
