//! Init and the processes that were spawned beside the head: their spawner is started, notifications about them are answered, and they are ended.

use super::standbys::Preserved;
use super::{Reason, Session};
use crate::init::memory;
use crate::init::notify::{self, Protected};
use crate::init::sweep::{self, each_process, find_upwards, parent_of};
use crate::init::watchdog::process_memory::ProcessMemory;
use crate::spawner;
use crate::sys::{
    self, Errno, Fd, Forked, Pid, Received, clone_process, close, kill, nr, packet_pair, reap,
    receive, send, signals,
};
use crate::walls::harden::receive_report;
use crate::walls::limits;
use crate::wire::config::{Items, Spawn, walls};
use crate::wire::message::{At, Failure, Message, Stage, from_spawner, to_init};

/// How long the spawner may take to put itself behind the walls, in milliseconds. One, but the machine may be busy.
const START_TIMEOUT_MS: i32 = 10_000;
/// How long init waits until killed processes have ended, in milliseconds. One that waits for a device ends later.
const END_TIMEOUT_MS: u64 = 5_000;
const LOOK_MICROSECONDS: u64 = 500;
/// Most supervisors whose memory is compared.
const MAX_COMPARED: usize = 256;

/// The spawner of a session, as init sees it.
#[derive(Clone, Copy)]
pub(super) struct Spawner {
    /// Its process id, or 0 where there is none.
    pub(super) pid: Pid,
    /// On which the host says what is to be ended, or -1.
    pub(super) control: Fd,
}

impl Spawner {
    pub(super) const NONE: Spawner = Spawner {
        pid: 0,
        control: -1,
    };

    pub(super) fn is_there(self) -> bool {
        self.pid != 0
    }

    /// Whether a process is the spawner or below it.
    pub(super) fn has(self, processes: Fd, pid: Pid) -> bool {
        self.is_there() && find_upwards(processes, pid, |pid| pid == self.pid).is_some()
    }

    /// Whether a process is our own code: the spawner, or the supervisor of a spawned process.
    pub(super) fn is_or_supervises(self, processes: Fd, pid: Pid) -> bool {
        self.is_there() && (pid == self.pid || self.supervises(processes, pid))
    }

    fn supervises(self, processes: Fd, pid: Pid) -> bool {
        self.is_there() && parent_of(processes, pid) == Some(self.pid)
    }
}

impl Session {
    /// The host wants to spawn processes: the spawner is started, and told so on its socket to the host.
    pub(super) fn start_spawner(&mut self, bytes: &[u8], received: &Received) {
        let fds = &received.descriptors[..received.count];
        let &[socket, control] = fds else {
            return fds.iter().copied().for_each(close);
        };
        match self.try_to_start_spawner(bytes, socket) {
            Ok(pid) => self.spawner = Spawner { pid, control },
            Err(failure) => {
                let message = failure.to_message(from_spawner::FAILED);
                let _ = send(socket, &message.to_bytes(), &[]);
                close(control);
            }
        }
        close(socket);
    }

    fn try_to_start_spawner(
        &mut self,
        bytes: &[u8],
        socket: Fd,
    ) -> core::result::Result<Pid, Failure> {
        if self.spawner.is_there() {
            return Err(Errno::EXIST).at(Stage::Request);
        }
        close_if_open(self.spawner.control);
        let (request, strings) = Spawn::from_bytes(bytes).at(Stage::Request)?;
        let (near, far) = packet_pair().at(Stage::Fork)?;
        memory::keep_what_init_needs();
        // SAFETY: the child stays native.
        let forked = unsafe { clone_process(0) };
        if let Ok(Forked::Child) = forked {
            spawner::run(&request, Items(strings), socket, far)
        }
        close(far);
        let outcome = match forked {
            Ok(Forked::Parent(pid)) => self.accept_spawner(&request, pid, near),
            Ok(Forked::Child) | Err(_) => Err(forked.err().unwrap_or(Errno::INVAL)).at(Stage::Fork),
        };
        close(near);
        outcome
    }

    fn accept_spawner(
        &mut self,
        request: &Spawn,
        pid: Pid,
        report: Fd,
    ) -> core::result::Result<Pid, Failure> {
        let listener = if sweep::wait_readable(report, START_TIMEOUT_MS) {
            receive_report(report)
        } else {
            Err(Errno::AGAIN).at(Stage::Fork)
        };
        let listener = match listener {
            Ok(listener) => listener,
            Err(failure) => {
                let _ = kill(pid, signals::KILL);
                let _ = reap(pid, true);
                return Err(failure);
            }
        };
        if request.walls & walls::PROCESS_COUNT != 0 && request.can_fork() {
            let most = self.init.processes.saturating_add(self.fork_processes);
            let _ = limits::allow_processes(pid, most);
        }
        notify::set_synchronous_wake_up(listener);
        close_if_open(self.init.listener.spawned);
        self.init.listener.spawned = listener;
        Ok(pid)
    }

    /// The host wants something ended, or has let go of its end.
    pub(super) fn receive_spawned_command(&mut self) {
        let mut bytes = [0; Message::SIZE];
        match receive(self.spawner.control, &mut bytes) {
            Ok(received) if received.bytes > 0 => {
                if let Ok((message, _)) = Message::from_bytes(&bytes[..received.bytes])
                    && message.kind == to_init::END_SPAWNED
                {
                    self.end_spawned(message.a as Pid);
                }
            }
            _ => {
                close(self.spawner.control);
                self.spawner.control = -1;
            }
        }
    }

    /// The kernel asks about a call of a spawned process. Such a process is never in a fork, and never enters one.
    pub(super) fn receive_spawned_notification(&mut self) {
        let Ok(notification) = notify::receive(self.init.listener.spawned) else {
            return;
        };
        match notification.number() {
            nr::PTRACE | nr::SETNS => notify::answer(self.init.listener, &notification, false),
            _ => self.answer_notification(notification),
        }
    }

    /// No process is left under the filter of the spawner.
    pub(super) fn forget_spawned_listener(&mut self) {
        close(self.init.listener.spawned);
        self.init.listener.spawned = -1;
    }

    /// Notes that a child of ours has ended: the spawner, perhaps.
    pub(super) fn forget_spawner(&mut self, pid: Pid) {
        if self.spawner.is_there() && self.spawner.pid == pid {
            self.spawner.pid = 0;
        }
    }

    /// Ends everything below a supervisor. The supervisor reaps it, and then ends too.
    pub(super) fn end_spawned(&mut self, supervisor: Pid) {
        let processes = self.init.proc_directory;
        if supervisor <= 1 || !self.spawner.supervises(processes, supervisor) {
            return;
        }
        self.end_each(|pid| {
            let is_it = |pid| pid == supervisor;
            pid != supervisor && find_upwards(processes, pid, is_it).is_some()
        });
    }

    /// Ends all spawned processes with all that they started.
    pub(super) fn end_all_spawned(&mut self) {
        let (processes, spawner) = (self.init.proc_directory, self.spawner);
        self.end_each(|pid| {
            !spawner.is_or_supervises(processes, pid) && spawner.has(processes, pid)
        });
    }

    /// Ends the processes of which `is_meant` says so, also those that they start meanwhile.
    fn end_each(&mut self, is_meant: impl Fn(Pid) -> bool) {
        let processes = self.init.proc_directory;
        let start = sys::monotonic_milliseconds();
        loop {
            let mut left = 0;
            each_process(self.init.reach, processes, |pid| {
                if is_meant(pid) && !has_ended(processes, pid) {
                    left += 1;
                    let _ = kill(pid, signals::KILL);
                }
            });
            if left == 0 || sys::monotonic_milliseconds() - start > END_TIMEOUT_MS {
                return;
            }
            // It takes signals that may have been about children of ours.
            sys::wait_for_child(LOOK_MICROSECONDS);
            self.has_unreaped = true;
        }
    }

    /// The session is over a limit of what all its processes have together. Ends the spawned process with the most memory, with all that it
    /// started, if that is more than the head and what cells started have; else the head.
    pub(super) fn end_largest(&mut self, reason: Reason) {
        match self.largest_spawned() {
            Some(supervisor) => self.end_spawned(supervisor),
            None => self.end_head(reason, self.standbys.newest()),
        }
    }

    fn largest_spawned(&self) -> Option<Pid> {
        if !self.spawner.is_there() {
            return None;
        }
        let processes = self.init.proc_directory;
        let uncounted = self.standbys_and_forks();
        let mut sums = [(0, 0u64); MAX_COMPARED];
        let mut of_head = 0;
        each_process(self.init.reach, processes, |pid| {
            if uncounted.is_protected(pid) {
                return;
            }
            let memory = ProcessMemory::of(processes, pid);
            let bytes = memory.resident + memory.swapped + memory.in_kernel();
            let supervisor = find_upwards(processes, pid, |pid| {
                self.spawner.supervises(processes, pid)
            });
            let Some(supervisor) = supervisor else {
                of_head += bytes;
                return;
            };
            let slot = sums
                .iter_mut()
                .find(|(known, _)| *known == supervisor || *known == 0);
            if let Some(slot) = slot {
                *slot = (supervisor, slot.1 + bytes);
            }
        });
        let largest = sums.into_iter().max_by_key(|(_, bytes)| *bytes)?;
        (largest.0 != 0 && largest.1 > of_head).then_some(largest.0)
    }

    /// The standbys and the forks. Spawned processes are not among them: what they hold counts like what cells started.
    pub(super) fn standbys_and_forks(&self) -> Preserved<'_> {
        Preserved {
            spawner: Spawner::NONE,
            ..self.preserved()
        }
    }
}

fn close_if_open(fd: Fd) {
    if fd >= 0 {
        close(fd);
    }
}

/// Whether a process has ended, and only waits to be reaped.
fn has_ended(processes: Fd, pid: Pid) -> bool {
    const ZOMBIE: u8 = b'Z';
    const DEAD: u8 = b'X';
    let mut buffer = [0; sys::STAT_BYTES];
    match sys::read_stat(processes, pid, &mut buffer) {
        Ok(stat) => matches!(stat.state(), ZOMBIE | DEAD),
        Err(_) => true,
    }
}
