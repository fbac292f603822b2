//! Calls that may hit init or a standby: the kernel asks init, and init answers.

use crate::sys::{Errno, Fd, Pid, Result, nr, syscall};

/// The processes that a session's own code may not touch.
pub trait Protected {
    /// Whether `pid` (or the group it leads) is protected.
    fn is_protected(&self, pid: Pid) -> bool;
}

#[repr(C)]
#[derive(Default)]
struct Request {
    id: u64,
    pid: u32,
    flags: u32,
    number: i32,
    architecture: u32,
    instruction: u64,
    arguments: [u64; 6],
}

#[repr(C)]
struct Response {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

const RECEIVE: usize = 0xC050_2100;
const SEND: usize = 0xC018_2101;
const CONTINUE: u32 = 1;

/// Answers one pending question. The arguments that are judged are registers, so nobody can change them in between.
pub fn answer(listener: Fd, protected: &impl Protected) -> Result<()> {
    let mut request = Request::default();
    // SAFETY: the structure is zeroed and of the size that the request number tells.
    unsafe {
        syscall(
            nr::IOCTL,
            [listener as usize, RECEIVE, &raw mut request as usize],
        )
    }?;
    let allowed = is_allowed(request.number as usize, &request.arguments, protected);
    let response = Response {
        id: request.id,
        value: 0,
        error: if allowed { 0 } else { -Errno::PERM.0 },
        flags: if allowed { CONTINUE } else { 0 },
    };
    // SAFETY: the structure is of the size that the request number tells. An asker that died meanwhile is no error of ours.
    let _ = unsafe {
        syscall(
            nr::IOCTL,
            [listener as usize, SEND, &raw const response as usize],
        )
    };
    Ok(())
}

fn is_allowed(number: usize, arguments: &[u64; 6], protected: &impl Protected) -> bool {
    let first = arguments[0] as Pid;
    let second = arguments[1] as Pid;
    match number {
        nr::KILL => match first {
            // Everyone: a standby would be among them.
            -1 => false,
            0 => true,
            pid => !protected.is_protected(pid.wrapping_abs()),
        },
        // Only `F_SETOWN` is asked about: who gets the signal that a descriptor raises.
        nr::FCNTL => !protected.is_protected((arguments[2] as Pid).wrapping_abs()),
        nr::TGKILL | nr::RT_TGSIGQUEUEINFO => {
            !protected.is_protected(first) && !protected.is_protected(second)
        }
        // "which" and "who": a process or a group by number; all of a user would be everyone.
        nr::SETPRIORITY | nr::IOPRIO_SET => {
            first != 2
                && !(number == nr::IOPRIO_SET && first == 3)
                && !protected.is_protected(second)
        }
        _ => !protected.is_protected(first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Standby(Pid);
    impl Protected for Standby {
        fn is_protected(&self, pid: Pid) -> bool {
            pid == 1 || pid == self.0
        }
    }

    #[test]
    fn a_standby_and_init_cannot_be_signalled() {
        let standby = Standby(7);
        let kill = |pid: Pid| is_allowed(nr::KILL, &[pid as u64, 9, 0, 0, 0, 0], &standby);
        assert_eq!(
            [
                kill(7),
                kill(-7),
                kill(1),
                kill(-1),
                kill(-4),
                kill(8),
                kill(0)
            ],
            [false, false, false, false, true, true, true]
        );
    }

    #[test]
    fn a_thread_of_a_standby_cannot_be_signalled_through_another_group() {
        assert!(!is_allowed(nr::TGKILL, &[3, 7, 9, 0, 0, 0], &Standby(7)));
    }

    #[test]
    fn a_descriptor_cannot_be_tied_to_a_standby() {
        let own = |pid: Pid| is_allowed(nr::FCNTL, &[3, 8, pid as u64, 0, 0, 0], &Standby(7));
        assert_eq!(
            [own(7), own(-7), own(1), own(8), own(0)],
            [false, false, false, true, true]
        );
    }
}
