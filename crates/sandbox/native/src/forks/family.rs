//! The inits of a session and of all its forks, and of theirs: a family.
//!
//! A filter has one listener for ever, and forks inherit the filter. So the first init of a family receives the notifications about all
//! of its sessions, and passes each on to the init that it concerns.

use crate::init::sweep::find_upwards;
use crate::sys::{self, Errno, Fd, Pid, Result, close, send_now};
use crate::wire::message::{Message, between_inits};

/// Most forks of one session, and forks of those, that live at once.
pub const MAX_FORKS: usize = 64;

/// The first init, as it counts processes itself.
pub const FIRST_INIT: Pid = 1;

#[derive(Clone, Copy)]
struct Member {
    socket: Fd,
    pid: Pid,
    /// The init of the session that this one was forked from.
    parent: Pid,
    /// How many processes its session may have.
    processes: u64,
    /// For how many processes of forks its init was last told to raise its process limit.
    last_sent: u64,
}

/// The inits of all forks, as the first init of the family knows them.
pub struct ForkFamily {
    members: [Option<Member>; MAX_FORKS],
}

impl ForkFamily {
    /// A session without forks.
    pub fn none() -> ForkFamily {
        ForkFamily {
            members: [None; MAX_FORKS],
        }
    }

    /// Adds a new init. It made the pair of sockets of which `socket` is one.
    pub fn add(&mut self, socket: Fd, parent: Pid, processes: u64) -> Result<()> {
        let slot = self.members.iter_mut().find(|slot| slot.is_none());
        match (slot, sys::maker_of(socket)) {
            (Some(slot), Ok(pid)) => {
                *slot = Some(Member {
                    socket,
                    pid,
                    parent,
                    processes,
                    last_sent: 0,
                });
                Ok(())
            }
            _ => {
                close(socket);
                Err(Errno::AGAIN)
            }
        }
    }

    /// Removes a member that is gone.
    pub fn remove(&mut self, index: usize) {
        if let Some(member) = self.members.get_mut(index).and_then(Option::take) {
            close(member.socket);
        }
    }

    /// The socket of a member, and its process id.
    pub fn at(&self, index: usize) -> Option<(Fd, Pid)> {
        let member = self.members.get(index)?.as_ref()?;
        Some((member.socket, member.pid))
    }

    /// The sockets of all members, -1 for free slots.
    pub fn sockets(&self) -> impl Iterator<Item = Fd> {
        self.members
            .iter()
            .map(|slot| slot.as_ref().map_or(-1, |member| member.socket))
    }

    /// The socket of the init in whose session a process lives; `None` for the session of the first init.
    pub fn responsible_for(&self, processes: Fd, pid: Pid) -> Option<Fd> {
        self.all_members().next()?;
        let is_member = |pid| self.all_members().any(|member| member.pid == pid);
        let responsible = find_upwards(processes, pid, is_member)?;
        let member = self
            .all_members()
            .find(|member| member.pid == responsible)?;
        Some(member.socket)
    }

    /// How many processes the forks of a session may have together, with the forks of those.
    pub fn processes_of_forks(&self, init: Pid) -> u64 {
        self.all_members()
            .filter(|member| member.pid != init && self.descends(member, init))
            .map(|member| member.processes)
            .fold(0, u64::saturating_add)
    }

    /// Tells each how many processes its forks may have, where that has changed.
    pub fn send_process_limits(&mut self) {
        for index in 0..MAX_FORKS {
            let Some(member) = self.members[index] else {
                continue;
            };
            let processes = self.processes_of_forks(member.pid);
            if processes != member.last_sent {
                let message = Message {
                    kind: between_inits::PROCESS_LIMIT,
                    a: processes,
                    ..Message::default()
                };
                let _ = send_now(member.socket, &message.to_bytes(), &[]);
                self.members[index] = Some(Member {
                    last_sent: processes,
                    ..member
                });
            }
        }
    }

    fn descends(&self, member: &Member, init: Pid) -> bool {
        let mut at = member.parent;
        for _ in 0..MAX_FORKS {
            if at == init {
                return true;
            }
            match self.all_members().find(|other| other.pid == at) {
                Some(other) => at = other.parent,
                None => return false,
            }
        }
        false
    }

    fn all_members(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn family(members: &[(Pid, Pid, u64)]) -> ForkFamily {
        let mut family = ForkFamily::none();
        for (slot, (pid, parent, processes)) in family.members.iter_mut().zip(members) {
            *slot = Some(Member {
                socket: -1,
                pid: *pid,
                parent: *parent,
                processes: *processes,
                last_sent: 0,
            });
        }
        family
    }

    #[test]
    fn a_session_leaves_room_for_its_forks_and_theirs_but_not_for_its_parent_s_others() {
        let family = family(&[(10, FIRST_INIT, 5), (20, 10, 7), (30, FIRST_INIT, 100)]);
        assert_eq!(
            [
                family.processes_of_forks(FIRST_INIT),
                family.processes_of_forks(10),
                family.processes_of_forks(20),
                family.processes_of_forks(30)
            ],
            [112, 7, 0, 0]
        );
    }

    #[test]
    fn without_forks_the_first_init_answers_every_notification() {
        assert_eq!(ForkFamily::none().responsible_for(-1, 5), None);
    }
}
