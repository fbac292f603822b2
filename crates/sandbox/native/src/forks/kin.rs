//! The inits of a session and of all its forks, and of theirs: a family.
//!
//! A filter has one listener for ever, and forks inherit the filter. So the first init of a family receives the questions about all
//! of its sessions, and passes each on to the init that it concerns.

use crate::init::sweep::find_upwards;
use crate::sys::{self, Errno, Fd, Pid, Result, close, send_now};
use crate::wire::message::{Message, kin};

/// Most forks of one session, and forks of those, that live at once.
pub const MAX_FORKS: usize = 64;

/// The first init, as it counts processes itself.
pub const FIRST: Pid = 1;

#[derive(Clone, Copy)]
struct Relative {
    socket: Fd,
    pid: Pid,
    /// The init of the session that this one was forked from.
    parent: Pid,
    /// How many processes its session may have.
    processes: u64,
    /// For how many processes of forks it was told to leave room.
    told: u64,
}

/// Everyone in the family but the first, who keeps this.
pub struct Kin {
    relatives: [Option<Relative>; MAX_FORKS],
}

impl Kin {
    /// A session without forks.
    pub fn none() -> Kin {
        Kin {
            relatives: [None; MAX_FORKS],
        }
    }

    /// A new init, which made the pair of sockets that this is one of.
    pub fn add(&mut self, socket: Fd, parent: Pid, processes: u64) -> Result<()> {
        let slot = self.relatives.iter_mut().find(|slot| slot.is_none());
        match (slot, sys::maker_of(socket)) {
            (Some(slot), Ok(pid)) => {
                *slot = Some(Relative {
                    socket,
                    pid,
                    parent,
                    processes,
                    told: 0,
                });
                Ok(())
            }
            _ => {
                close(socket);
                Err(Errno::AGAIN)
            }
        }
    }

    /// One that is gone.
    pub fn remove(&mut self, index: usize) {
        if let Some(relative) = self.relatives.get_mut(index).and_then(Option::take) {
            close(relative.socket);
        }
    }

    /// The socket of a relative, and its process id.
    pub fn at(&self, index: usize) -> Option<(Fd, Pid)> {
        let relative = self.relatives.get(index)?.as_ref()?;
        Some((relative.socket, relative.pid))
    }

    /// The sockets of all, -1 for those who are not there.
    pub fn sockets(&self) -> impl Iterator<Item = Fd> {
        self.relatives
            .iter()
            .map(|slot| slot.as_ref().map_or(-1, |relative| relative.socket))
    }

    /// The socket of the init in whose session a process lives; `None` for the first's own.
    pub fn responsible_for(&self, processes: Fd, pid: Pid) -> Option<Fd> {
        self.everyone().next()?;
        let is_relative = |pid| self.everyone().any(|relative| relative.pid == pid);
        let responsible = find_upwards(processes, pid, is_relative)?;
        let relative = self
            .everyone()
            .find(|relative| relative.pid == responsible)?;
        Some(relative.socket)
    }

    /// How many processes the forks of a session may have together, with the forks of those.
    pub fn below(&self, init: Pid) -> u64 {
        self.everyone()
            .filter(|relative| relative.pid != init && self.descends(relative, init))
            .map(|relative| relative.processes)
            .fold(0, u64::saturating_add)
    }

    /// Tells each how many processes its forks may have, where that has changed.
    pub fn tell_room(&mut self) {
        for index in 0..MAX_FORKS {
            let Some(relative) = self.relatives[index] else {
                continue;
            };
            let room = self.below(relative.pid);
            if room != relative.told {
                let message = Message {
                    kind: kin::ROOM,
                    a: room,
                    ..Message::default()
                };
                let _ = send_now(relative.socket, &message.to_bytes(), &[]);
                self.relatives[index] = Some(Relative {
                    told: room,
                    ..relative
                });
            }
        }
    }

    fn descends(&self, relative: &Relative, init: Pid) -> bool {
        let mut at = relative.parent;
        for _ in 0..MAX_FORKS {
            if at == init {
                return true;
            }
            match self.everyone().find(|other| other.pid == at) {
                Some(other) => at = other.parent,
                None => return false,
            }
        }
        false
    }

    fn everyone(&self) -> impl Iterator<Item = &Relative> {
        self.relatives.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn family(members: &[(Pid, Pid, u64)]) -> Kin {
        let mut kin = Kin::none();
        for (slot, (pid, parent, processes)) in kin.relatives.iter_mut().zip(members) {
            *slot = Some(Relative {
                socket: -1,
                pid: *pid,
                parent: *parent,
                processes: *processes,
                told: 0,
            });
        }
        kin
    }

    #[test]
    fn a_session_leaves_room_for_its_forks_and_theirs_but_not_for_its_parent_s_others() {
        let kin = family(&[(10, FIRST, 5), (20, 10, 7), (30, FIRST, 100)]);
        assert_eq!(
            [
                kin.below(FIRST),
                kin.below(10),
                kin.below(20),
                kin.below(30)
            ],
            [112, 7, 0, 0]
        );
    }

    #[test]
    fn without_forks_every_question_is_the_first_s_own() {
        assert_eq!(Kin::none().responsible_for(-1, 5), None);
    }
}
