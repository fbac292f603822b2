//! From one head to the next: how the last head ended, and which standby goes on.
//!
//! The next head is woken as soon as no process of the old one runs any more. The old one is taken apart while the new one gets ready, and
//! the host, which is told only when nothing is left, finds it waiting.

use super::standbys::MAX_STANDBYS;
use super::{Reason, Session};
use crate::forks::family::MAX_FORKS;
use crate::forks::standby::WakeRequest;
use crate::init::notify::Protected;
use crate::init::sweep;
use crate::sys::{self, Ended, Errno, Pid, reap, signals};
use crate::wire::message::from_init;

/// The standby that goes on when the head has ended.
#[derive(Clone, Copy)]
pub(super) struct Next {
    pid: Pid,
    /// Whether it leaves a copy of itself, if it is woken when all is over.
    leaves_copy: bool,
}

impl Session {
    /// The host wants this standby to be the head.
    pub(super) fn wake(&mut self, pid: Pid) -> sys::Result<()> {
        if core::mem::take(&mut self.unclaimed) {
            if self.init.head == Some(pid) {
                return Ok(());
            }
            // It wants another one.
            let early = self.init.head.take();
            self.sweep(early.unwrap_or(0), None);
        }
        if self.init.head.is_some() || !self.standbys.has(pid) {
            return Err(Errno::SRCH);
        }
        let wake_request = self.wake_request(pid, false);
        self.standbys.replace(pid, 0);
        self.copy_since = None;
        wake_request.send(pid)?;
        self.init.head = Some(pid);
        Ok(())
    }

    fn wake_request(&self, pid: Pid, leaves_copy: bool) -> WakeRequest {
        WakeRequest {
            // A standby that is older than a fork of the session must be separated from that fork.
            apart: self.standbys.forks_before(pid) < self.forks.made_so_far(),
            leaves_copy,
            is_alone: !self.spawner.is_there(),
        }
    }

    pub(super) fn reap_all(&mut self) {
        while let Ok(Some(ended)) = reap(-1, false) {
            if Some(ended.pid) != self.init.head {
                self.forks.forget(ended.pid);
                self.forget_spawner(ended.pid);
                self.forget_standby(ended);
                continue;
            }
            self.init.head = None;
            if core::mem::take(&mut self.unclaimed) {
                // The host was not told that it is the head: a standby died.
                self.sweep(ended.pid, None);
                self.tell_lost(ended);
            } else {
                let next = self.standbys.newest().map(|pid| Next {
                    pid,
                    // A head that was killed may have been over its memory limit: then there is no memory for a copy.
                    leaves_copy: ended.status & 0x7F != signals::KILL,
                });
                self.sweep(ended.pid, next);
                self.report(ended, Reason::Itself);
            }
        }
    }

    /// Ends the head with all it started. `next` is the standby that goes on.
    pub(super) fn end_head(&mut self, reason: Reason, next: Option<Pid>) {
        // Init has woken a standby that the host does not know of yet. A request to end the head then means the previous head, and the host is
        // about to hear that this one has ended.
        if self.unclaimed {
            return;
        }
        let Some(head) = self.init.head.take() else {
            return;
        };
        let next = next.map(|pid| Next {
            pid,
            leaves_copy: false,
        });
        let verdict = self.sweep(head, next).unwrap_or(Ended {
            pid: head,
            status: signals::KILL,
            cpu: 0,
            peak: 0,
        });
        self.report(verdict, reason);
    }

    /// Ends all but the standbys, forks and spawned processes, wakes `next` if it is a standby, and returns how `head` ended if it was among them.
    pub(super) fn sweep(&mut self, head: Pid, next: Option<Next>) -> Option<Ended> {
        // A fork that is not finished needs the head.
        self.forks.cancel();
        let preserved = self.preserved();
        let mut verdict = None;
        let mut lost = [None; MAX_STANDBYS + MAX_FORKS + 1];
        let (mut woken, mut leaves_copy) = (None, false);
        let since = sys::boot_ticks();
        let next = next
            .filter(|next| preserved.standbys.has(next.pid))
            .map(|next| (next.pid, self.wake_request(next.pid, next.leaves_copy)));
        sweep::sweep(
            self.init.reach,
            self.init.proc_directory,
            &preserved,
            |ended| {
                if ended.pid == head {
                    verdict = Some(ended);
                } else if (preserved.standbys.is_protected(ended.pid)
                    || preserved.forks.made(ended.pid)
                    || preserved.spawner.pid == ended.pid)
                    && let Some(slot) = lost.iter_mut().find(|slot| slot.is_none())
                {
                    *slot = Some(ended);
                }
            },
            next.map(|(pid, wake_request)| {
                let (woken, leaves_copy) = (&mut woken, &mut leaves_copy);
                move |is_over| {
                    // While processes are left to be ended, none may be added.
                    *leaves_copy = wake_request.leaves_copy && is_over;
                    let wake_request = WakeRequest {
                        leaves_copy: *leaves_copy,
                        ..wake_request
                    };
                    *woken = wake_request.send(pid).is_ok().then_some(pid);
                }
            }),
        );
        // The helper of a fork was one of the processes that ended.
        self.forks.forget_helper();
        for ended in lost.into_iter().flatten() {
            self.forks.forget(ended.pid);
            self.forget_spawner(ended.pid);
            self.forget_standby(ended);
        }
        if let Some(pid) = woken
            && self.standbys.replace(pid, 0)
        {
            self.init.head = Some(pid);
            self.unclaimed = true;
        }
        self.copy_since = leaves_copy.then_some(since);
        verdict
    }

    /// Stops new standbys as soon as they wait, and where this session has others above it, `again` those that were stopped before.
    pub(super) fn freeze_standbys(&mut self, again: bool) {
        if self.standbys.has_one_to_freeze() {
            let runs = self.standbys.freeze(self.init.proc_directory);
            if let Some(standby) = runs {
                self.lose_standby(standby);
            }
        }
        if again && self.may_be_swept_from_above() {
            self.standbys.keep_frozen();
        }
    }

    /// Whether the init of another session may let the standbys of this one go on.
    pub(super) fn may_be_swept_from_above(&self) -> bool {
        self.init.forwarded >= 0 && self.standbys.newest().is_some()
    }

    fn forget_standby(&mut self, ended: Ended) {
        if self.standbys.has(ended.pid) {
            self.standbys.replace(ended.pid, 0);
            self.tell_lost(ended);
        }
    }

    fn tell_lost(&self, ended: Ended) {
        self.tell(from_init::LOST, ended.pid as u64, ended.status as u64, 0);
    }

    fn report(&self, ended: Ended, reason: Reason) {
        self.tell(
            from_init::ENDED,
            ended.status as u64,
            reason as u64 | ended.cpu << 8,
            ended.peak,
        );
    }
}
