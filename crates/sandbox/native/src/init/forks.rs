//! Init and its forks: notifications are passed to the init that they concern, and new forks are prepared.

use super::Session;
use crate::files::change_handler::{ChangeHandler, Sharing};
use crate::files::file_argument::{FileArgument, MAX_PASSED_BYTES};
use crate::forks::enter_namespaces;
use crate::forks::fork::{self, Begun};
use crate::forks::inherited::Finding;
use crate::init::notify::{self, Notification};
use crate::init::stopped;
use crate::init::sweep;
use crate::init::watchdog::user_objects::UserObjects;
use crate::sys::{self, Errno, Pid, Received, nr, receive, send, send_now};
use crate::walls::limits;
use crate::walls::seccomp::STARTS;
use crate::wire::message::{At, Failure, Message, Stage, between_inits, from_init};

impl Session {
    /// Tells the host whether this session, a fork that is about to be handed out, still holds something of its parent's.
    pub(super) fn check_fork(&mut self, channel: u64) {
        let expected = self.init.expected.as_ref();
        let finding = expected.map_or(Finding::Clean, |expected| {
            expected.check(self.init.proc_directory, channel)
        });
        // Waiting for the processes to stop took signals that may have been about other children.
        self.has_unreaped = true;
        match finding {
            Finding::Clean => self.tell(from_init::FORK_CHECKED, 0, 0, 0),
            Finding::NotNow => self.tell(from_init::FORK_CHECKED, 1, 0, 0),
            Finding::Held { what, descriptor } => {
                self.tell(from_init::FORK_CHECKED, 2, what as u64, descriptor as u64)
            }
        }
    }

    /// The kernel, or the first init of the family, asks about a call.
    pub(super) fn receive_notification(&mut self) {
        if self.init.forwarded < 0 {
            let Ok(notification) = notify::receive(self.init.listener.head) else {
                return;
            };
            return self.answer_notification(notification);
        }
        let mut bytes = [0; MAX_PASSED_BYTES];
        let received = receive(self.init.forwarded, &mut bytes).unwrap_or_default();
        let length = received.bytes;
        if length == 0 {
            // The first init is gone, and we with it.
            self.init.forwarded = -1;
            self.init.listener.head = -1;
        } else if let Some(notification) = Notification::from_bytes(&bytes[..length]) {
            self.decide(&notification);
        } else if let Some((notification, file_argument)) =
            FileArgument::passed(&bytes[..length], &received)
        {
            self.handle_file_call(&notification, file_argument);
        } else if let Ok((message, _)) = Message::from_bytes(&bytes[..length])
            && message.kind == between_inits::PROCESS_LIMIT
        {
            self.raise_process_limit(message.a);
        }
    }

    /// Answers a notification that came from the kernel, or has it answered by the init of the fork that it concerns.
    pub(super) fn answer_notification(&mut self, notification: Notification) {
        if ChangeHandler::is_about(notification.number()) {
            return self.receive_file_call(notification);
        }
        match self
            .family
            .responsible_for(self.init.proc_directory, notification.caller())
        {
            None => self.decide(&notification),
            Some(socket) => {
                // An init of a fork that does not read its socket must not block the whole family.
                let passed = self
                    .with_inner_pid(notification)
                    .and_then(|notification| send_now(socket, notification.as_bytes(), &[]));
                let is_full = passed == Err(Errno::AGAIN);
                let listener = self.init.listener;
                if passed.is_err()
                    && !(is_full && self.postponed.add(listener, notification).is_ok())
                {
                    notify::answer(listener, &notification, false);
                }
            }
        }
    }

    /// Passes notifications on that the init of a fork had no room for.
    pub(super) fn pass_postponed(&mut self) {
        let (calls, count) = self.postponed.take_all();
        for notification in &calls[..count] {
            if notify::is_waiting(self.init.listener, notification.id()) {
                self.answer_notification(*notification);
            }
        }
    }

    /// A notification for the init of a fork. If the call is about entering one of that session's own forks, or about an object that is counted, its
    /// init must know the caller by the id that the caller has there.
    fn with_inner_pid(&self, notification: Notification) -> sys::Result<Notification> {
        match notification.number() {
            number
                if matches!(
                    number,
                    nr::PTRACE | nr::SETNS | nr::UNSHARE | nr::SETRLIMIT | nr::PRLIMIT64
                ) || UserObjects::is_about(number) =>
            {
                enter_namespaces::innermost_pid(self.init.proc_directory, notification.caller())
                    .map(|pid| notification.with_caller(pid))
            }
            _ => Ok(notification),
        }
    }

    fn decide(&mut self, notification: &Notification) {
        if UserObjects::is_about(notification.number()) {
            return self.answer_about_object(notification);
        }
        if STARTS.contains(&notification.number()) {
            return self.answer_about_start(notification);
        }
        let listener = self.init.listener;
        let (number, arguments) = (notification.number(), notification.arguments());
        let allowed = match number {
            nr::PTRACE => return self.handle_ptrace(notification),
            nr::SETNS | nr::UNSHARE => return self.handle_step(notification),
            nr::SETRLIMIT => return self.set_process_limit(notification),
            nr::PRLIMIT64 if is_about_processes(arguments) => {
                return self.set_process_limit(notification);
            }
            _ => {
                notify::is_harmless(number, arguments, &self.out_of_bounds())
                    && !self.may_hit_a_group_of_forks(number, arguments)
            }
        };
        notify::answer(listener, notification, allowed);
    }

    /// Sets the limit of processes in the place of the caller, which may lower it.
    fn set_process_limit(&self, notification: &Notification) {
        let listener = self.init.listener;
        let outcome =
            self.process_limit_for(notification)
                .and_then(|(pid, wanted)| -> sys::Result<()> {
                    // What was read is the caller's only if the caller still waits: its id may be another process's by now.
                    if !notify::is_waiting(listener, notification.id()) {
                        return Err(Errno::SRCH);
                    }
                    let most = self.init.processes.saturating_add(self.fork_processes);
                    limits::set_processes(pid, wanted, most)
                });
        match outcome {
            Ok(()) => drop(notify::return_success(listener, notification.id())),
            Err(errno) => notify::respond(listener, notification.id(), Err(errno)),
        }
    }

    /// The process whose limit a call sets, and the limits.
    fn process_limit_for(&self, notification: &Notification) -> sys::Result<(Pid, [u64; 2])> {
        let arguments = notification.arguments();
        let caller = notification.caller();
        let (pid, address) = match notification.number() {
            nr::SETRLIMIT => (caller, arguments[1]),
            // The limits from before would have to be written to the caller's memory.
            _ if arguments[3] != 0 => return Err(Errno::PERM),
            _ if arguments[0] == 0 => (caller, arguments[2]),
            number if !notify::is_harmless(number, arguments, &self.out_of_bounds()) => {
                return Err(Errno::PERM);
            }
            _ => (arguments[0] as Pid, arguments[2]),
        };
        let mut bytes = [0; 16];
        if sys::read_memory(caller, address, &mut bytes)?.len() < bytes.len() {
            return Err(Errno::FAULT);
        }
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        Ok((pid, [word(0), word(8)]))
    }

    /// The host asks us for a fork before it asks the head to enter it. On a busy machine both may have done so before we look.
    pub(super) fn receive_fork_request(&mut self) {
        while !self.forks.is_preparing() && sweep::wait_readable(self.init.control, 0) {
            self.receive_command();
        }
    }

    /// A process group can outlive the process that it is named after; then init cannot tell whose it is.
    fn may_hit_a_group_of_forks(&self, number: usize, arguments: &[u64; 6]) -> bool {
        let group = (arguments[0] as Pid).wrapping_neg();
        number == nr::KILL
            && group > 1
            && !self.forks.is_empty()
            && !sweep::is_there(self.init.proc_directory, group)
    }

    /// An init of the family, of which we are the first, tells of another one, or is gone.
    pub(super) fn receive_from_member(&mut self, index: usize) {
        let Some((socket, pid)) = self.family.at(index) else {
            return;
        };
        let mut bytes = [0; Message::SIZE];
        match receive(socket, &mut bytes) {
            Ok(received) if received.bytes > 0 => {
                if let Ok((message, _)) = Message::from_bytes(&bytes[..received.bytes])
                    && message.kind == between_inits::REGISTER
                    && let Some(socket) = received.descriptors[..received.count].first()
                {
                    let _ = self.family.add(*socket, pid, message.a);
                }
            }
            _ => self.family.remove(index),
        }
        self.share_process_limits();
    }

    /// All sessions of a family have one user, and the kernel counts the processes of forks as their parents' too.
    fn share_process_limits(&mut self) {
        if self.init.forwarded < 0 {
            self.raise_process_limit(self.family.processes_of_forks(fork::FIRST_INIT));
            self.family.send_process_limits();
        }
    }

    fn raise_process_limit(&mut self, fork_processes: u64) {
        if fork_processes == self.fork_processes {
            return;
        }
        self.fork_processes = fork_processes;
        let most = self.init.processes.saturating_add(fork_processes);
        let forks = &self.forks;
        let processes = self.init.proc_directory;
        sweep::each_process(self.init.reach, processes, |pid| {
            if !forks.has(processes, pid) {
                let _ = limits::allow_processes(pid, most);
            }
        });
    }

    /// Makes the init of a fork ahead of the request. If that fails, the request tries again and tells why.
    pub(super) fn begin_fork(&mut self) {
        self.settle_prepared_fork();
        if !self.forks.is_preparing() {
            let _ = self.begun_fork().map(|begun| self.forks.begin(begun));
        }
    }

    /// The init of a fork that was begun, or one that is made now.
    fn begun_fork(&mut self) -> Result<Begun, Failure> {
        if let Some(begun) = self.forks.take_begun() {
            return Ok(begun);
        }
        let parent = fork::Parent {
            listener: self.init.listener.head,
            proc_directory: self.init.proc_directory,
            walls: self.init.walls,
        };
        let begun = fork::begin(&parent, &mut self.next_user_namespace)?;
        self.forks.note(begun).at(Stage::Namespaces)
    }

    /// Makes the init and the namespaces of a fork.
    pub(super) fn prepare_fork(&mut self, bytes: &[u8], received: &Received) {
        // The last one told that it lives before it told the host.
        self.settle_prepared_fork();
        // From now on: the host shares files with the fork when it hears that the fork is prepared.
        if let Some(change_handler) = &mut self.init.change_handler {
            change_handler.sharing = Sharing::Begins;
        }
        let outcome = if self.forks.is_preparing() {
            Err(Errno::AGAIN).at(Stage::Request)
        } else if let Err(errno) = self.let_calls_end() {
            Err(errno).at(Stage::Calls)
        } else {
            let descriptors = &received.descriptors[..received.count];
            self.begun_fork().and_then(|begun| {
                fork::prepare(begun, self.init.proc_directory, bytes, descriptors)
            })
        };
        let outcome = outcome.and_then(|(prepared, registration)| {
            let registered = if self.init.forwarded < 0 {
                self.family.add(
                    registration.socket,
                    fork::FIRST_INIT,
                    registration.processes,
                )
            } else {
                let message = Message {
                    kind: between_inits::REGISTER,
                    a: registration.processes,
                    ..Message::default()
                };
                let sent = send(
                    self.init.forwarded,
                    &message.to_bytes(),
                    &[registration.socket],
                );
                sys::close(registration.socket);
                sent
            };
            match registered {
                Ok(()) => {
                    self.forks.expect(prepared);
                    Ok(())
                }
                Err(errno) => {
                    prepared.give_up();
                    Err(errno).at(Stage::Namespaces)
                }
            }
        });
        match outcome {
            Ok(()) => {
                self.share_process_limits();
                self.tell(from_init::PREPARED, 0, 0, 0);
            }
            Err(Failure { stage, errno }) => {
                self.tell(from_init::PREPARED, stage as u64, errno.0 as u64, 0);
            }
        }
    }

    /// Calls that went on when there was nothing to share may still be on their way to a file.
    fn let_calls_end(&self) -> sys::Result<()> {
        if self.init.change_handler.is_none() {
            return Ok(());
        }
        let processes = self.init.proc_directory;
        stopped::let_calls_end(self.init.reach, processes, |pid| {
            self.forks.has(processes, pid)
        })
    }

    /// Whether the fork that was prepared lives, if it has told.
    pub(super) fn settle_prepared_fork(&mut self) {
        if self.forks.is_preparing() && sweep::wait_readable(self.forks.news(), 0) {
            self.forks.settle();
        }
    }
}

/// Whether `prlimit64` with these arguments sets the limit of processes.
fn is_about_processes(arguments: &[u64; 6]) -> bool {
    const PROCESSES: u32 = 6;
    arguments[1] as u32 == PROCESSES && arguments[2] != 0
}
