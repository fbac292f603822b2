//! The processes that init protects: the standbys, the sessions that were forked from this one, and itself.

use super::spawned::Spawner;
use crate::forks::fork::Forks;
use crate::forks::standby::WakeRequest;
use crate::init::notify::Protected;
use crate::init::sweep::{self, Reach};
use crate::sys::text::{Text, hexadecimal};
use crate::sys::{self, Fd, Pid, each_line_at, kill, signals};

/// Most standbys of one session: the history and the newest.
pub(super) const MAX_STANDBYS: usize = 64;

/// The standbys, in no order. Zero marks a free slot.
pub(super) struct Standbys {
    pub(super) pids: [Pid; MAX_STANDBYS],
    /// How many forks there had been when each was made.
    pub(super) forks: [u32; MAX_STANDBYS],
    /// Which of all that were ever made each is.
    pub(super) made: [u64; MAX_STANDBYS],
    /// Which of them are stopped, and stay so until they are woken.
    frozen: [bool; MAX_STANDBYS],
    /// How often it was looked whether a new one waits to be stopped.
    looks: u32,
    so_far: u64,
    pub(super) init: Pid,
}

impl Protected for Standbys {
    fn is_protected(&self, pid: Pid) -> bool {
        pid != 0 && (pid == self.init || self.pids.contains(&pid))
    }
}

/// The processes that a session's code may not signal: init, the standbys, the forks of the session, the spawner and its supervisors, and
/// without a process namespace every process that is not of the session. Landlock would refuse these too, but only from version 6 on.
pub(super) struct OutOfBounds<'a> {
    pub(super) preserved: Preserved<'a>,
    pub(super) spawner: Spawner,
    pub(super) reach: Reach,
}

impl Protected for OutOfBounds<'_> {
    fn is_protected(&self, pid: Pid) -> bool {
        let foreign = || {
            self.reach == Reach::Descendants
                && !sweep::is_descendant(self.preserved.proc_directory, pid)
        };
        let processes = self.preserved.proc_directory;
        self.preserved.is_protected(pid)
            || pid != 0 && (self.spawner.is_or_supervises(processes, pid) || foreign())
    }
}

/// The processes that are left alone when the head is ended: init, the standbys, sessions forked from this one, and spawned processes.
pub(super) struct Preserved<'a> {
    pub(super) standbys: &'a Standbys,
    pub(super) forks: &'a Forks,
    pub(super) spawner: Spawner,
    pub(super) proc_directory: Fd,
}

impl Protected for Preserved<'_> {
    fn is_protected(&self, pid: Pid) -> bool {
        self.standbys.is_protected(pid)
            || self.forks.has(self.proc_directory, pid)
            || self.spawner.has(self.proc_directory, pid)
    }

    fn has_spared_processes(&self) -> bool {
        self.spawner.is_there()
    }

    fn is_frozen(&self, pid: Pid) -> bool {
        self.standbys.is_frozen(pid)
    }
}

/// Whose memory is not the head's, or is not to grow any more. A standby that is not yet stopped may run code of the session.
pub(super) struct Uncounted<'a>(pub(super) Preserved<'a>);

impl Protected for Uncounted<'_> {
    fn is_protected(&self, pid: Pid) -> bool {
        let is_running_standby = self.0.standbys.has(pid) && !self.0.is_frozen(pid);
        self.0.is_protected(pid) && !is_running_standby
    }
}

impl Standbys {
    pub(super) fn none() -> Standbys {
        Standbys {
            pids: [0; MAX_STANDBYS],
            forks: [0; MAX_STANDBYS],
            made: [0; MAX_STANDBYS],
            frozen: [false; MAX_STANDBYS],
            looks: 0,
            so_far: 0,
            init: sys::own_pid(),
        }
    }

    /// Whether this process is one of them.
    pub(super) fn has(&self, pid: Pid) -> bool {
        pid > 1 && self.pids.contains(&pid)
    }

    pub(super) fn replace(&mut self, old: Pid, new: Pid) -> bool {
        match self.pids.iter_mut().find(|pid| **pid == old) {
            Some(slot) => {
                *slot = new;
                true
            }
            None => false,
        }
    }

    pub(super) fn add(&mut self, pid: Pid, forks: u32) -> bool {
        let free = self.pids.iter().position(|pid| *pid == 0);
        if let Some(index) = free {
            self.so_far += 1;
            (self.pids[index], self.forks[index]) = (pid, forks);
            (self.made[index], self.frozen[index]) = (self.so_far, false);
            self.looks = 0;
        }
        free.is_some()
    }

    /// The one that was made last.
    pub(super) fn newest(&self) -> Option<Pid> {
        let living = self
            .pids
            .iter()
            .zip(self.made)
            .filter(|(pid, _)| **pid != 0);
        living.max_by_key(|(_, made)| *made).map(|(pid, _)| *pid)
    }

    /// Which of all that were ever made the newest is; 0 where none was.
    pub(super) fn number_of_newest(&self) -> u64 {
        self.so_far
    }

    /// Whether one lives that was made as this one of all, or before.
    pub(super) fn has_one_up_to(&self, number: u64) -> bool {
        let mut both = self.pids.iter().zip(self.made);
        both.any(|(pid, made)| *pid != 0 && made <= number)
    }

    /// Those that are stopped, the oldest first, and how many they are.
    pub(super) fn frozen_by_age(&self) -> ([Pid; MAX_STANDBYS], usize) {
        let mut living = [(u64::MAX, 0); MAX_STANDBYS];
        let mut count = 0;
        for (index, pid) in self.pids.into_iter().enumerate() {
            if pid != 0 && self.frozen[index] {
                living[count] = (self.made[index], pid);
                count += 1;
            }
        }
        living.sort_unstable();
        (living.map(|(_, pid)| pid), count)
    }

    /// Whether one is still to be stopped.
    pub(super) fn has_one_to_freeze(&self) -> bool {
        let mut both = self.pids.iter().zip(self.frozen);
        both.any(|(pid, frozen)| *pid != 0 && !frozen)
    }

    fn is_frozen(&self, pid: Pid) -> bool {
        let mut both = self.pids.iter().zip(self.frozen);
        pid != 0 && both.any(|(standby, frozen)| *standby == pid && frozen)
    }

    /// Stops each new one as soon as it waits to be woken. Returns one that does not wait after some time: code of the session may run in it.
    pub(super) fn freeze(&mut self, proc_directory: Fd) -> Option<Pid> {
        /// A copy of gigabytes on a busy machine takes its time until it first runs.
        const MAX_LOOKS: u32 = 500;
        self.looks += 1;
        let mut runs = None;
        for (pid, frozen) in self.pids.into_iter().zip(&mut self.frozen) {
            if pid == 0 || *frozen {
                continue;
            }
            if waits_to_be_woken(proc_directory, pid) {
                *frozen = kill(pid, signals::STOP).is_ok();
            } else if self.looks > MAX_LOOKS {
                runs = Some(pid);
            }
        }
        runs
    }

    /// Stops those again that the init of a parent session has let go on.
    pub(super) fn keep_frozen(&self) {
        for (pid, frozen) in self.pids.into_iter().zip(self.frozen) {
            if pid != 0 && frozen {
                let _ = kill(pid, signals::STOP);
            }
        }
    }

    pub(super) fn forks_before(&self, pid: Pid) -> u32 {
        let index = self.pids.iter().position(|standby| *standby == pid);
        index.map_or(0, |index| self.forks[index])
    }
}

/// Whether a process waits for the signals that wake a standby, with all others blocked: the kernel takes those that are waited for out of
/// the blocked ones meanwhile.
fn waits_to_be_woken(proc_directory: Fd, pid: Pid) -> bool {
    const NEVER_BLOCKED: u64 = 1 << (signals::KILL - 1) | 1 << (signals::STOP - 1);
    let mut blocked = 0;
    let _ = Text::<32>::new(format_args!("{pid}/status")).and_then(|path| {
        each_line_at(proc_directory, path.as_c_str(), |line| {
            if let Some(mask) = line.strip_prefix(b"SigBlk:") {
                blocked = hexadecimal(mask.trim_ascii()).unwrap_or(0);
            }
        })
    });
    blocked | NEVER_BLOCKED == !WakeRequest::SIGNALS
}
