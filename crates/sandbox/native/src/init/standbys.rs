//! Whom init protects: the standbys, the sessions that were forked from this one, and itself.

use crate::fork::Forks;
use crate::notify::Protected;
use crate::sweep::{self, Reach};
use crate::sys::{self, Fd, Pid};

/// Most standbys of one session: the history and the newest.
pub(super) const MOST_STANDBYS: usize = 64;

/// The standbys, in no order. Zero marks a free slot.
pub(super) struct Standbys {
    pub(super) pids: [Pid; MOST_STANDBYS],
    /// How many forks there had been when each was made.
    pub(super) forks: [u32; MOST_STANDBYS],
    /// Which of all that were ever made each is.
    pub(super) made: [u64; MOST_STANDBYS],
    so_far: u64,
    pub(super) init: Pid,
}

impl Protected for Standbys {
    fn is_protected(&self, pid: Pid) -> bool {
        pid != 0 && (pid == self.init || self.pids.contains(&pid))
    }
}

/// Whom a session's code may not signal: init, the standbys, the forks of the session, and without a process namespace everyone
/// who is not of the session. Landlock would refuse these too, but only from version 6 on.
pub(super) struct OutOfBounds<'a> {
    pub(super) kept: Kept<'a>,
    pub(super) reach: Reach,
}

impl Protected for OutOfBounds<'_> {
    fn is_protected(&self, pid: Pid) -> bool {
        let foreign = || {
            self.reach == Reach::Descendants && !sweep::is_descendant(self.kept.proc_directory, pid)
        };
        self.kept.is_protected(pid) || pid != 0 && foreign()
    }
}

/// Whom ending the head leaves alone, and whose memory is not the head's: init, the standbys, and sessions forked from this one.
pub(super) struct Kept<'a> {
    pub(super) standbys: &'a Standbys,
    pub(super) forks: &'a Forks,
    pub(super) proc_directory: Fd,
}

impl Protected for Kept<'_> {
    fn is_protected(&self, pid: Pid) -> bool {
        self.standbys.is_protected(pid) || self.forks.has(self.proc_directory, pid)
    }
}

impl Standbys {
    pub(super) fn none() -> Standbys {
        Standbys {
            pids: [0; MOST_STANDBYS],
            forks: [0; MOST_STANDBYS],
            made: [0; MOST_STANDBYS],
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
            self.made[index] = self.so_far;
        }
        free.is_some()
    }

    pub(super) fn forks_before(&self, pid: Pid) -> u32 {
        let index = self.pids.iter().position(|standby| *standby == pid);
        index.map_or(0, |index| self.forks[index])
    }
}
