//! Calls that may hit init or a standby, or make a fork: the kernel asks init, and init answers.

use crate::sys::{Errno, Fd, Pid, Result, nr, syscall};

/// The processes that a session's own code may not touch.
pub trait Protected {
    /// Whether `pid` (or the group it leads) is protected.
    fn is_protected(&self, pid: Pid) -> bool;

    /// Whether a protected process is stopped, and shall not go on when the others do.
    fn is_frozen(&self, _pid: Pid) -> bool {
        false
    }

    /// Whether some of the protected must not even be stopped for a moment: a shell would take a job that stops for one that a person
    /// has stopped, and a job that a person has stopped must not go on.
    fn has_spared_processes(&self) -> bool {
        false
    }
}

/// One notification: a process that waits in a system call, and what it called.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Notification {
    id: u64,
    pid: u32,
    flags: u32,
    number: i32,
    architecture: u32,
    instruction: u64,
    arguments: [u64; 6],
}

/// The size of a notification that is passed on.
pub const NOTIFICATION_BYTES: usize = size_of::<Notification>();

impl Notification {
    /// A notification for tests.
    #[cfg(test)]
    pub(crate) fn with_id(id: u64) -> Notification {
        Notification {
            id,
            ..Notification::default()
        }
    }

    /// What an answer must name.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Whether `later` is the same call, made again after an interruption. What opens a file has two arguments or more; what is in the registers
    /// behind them is left over from before.
    pub fn is_repeated_by(&self, later: &Notification) -> bool {
        (self.pid, self.number) == (later.pid, later.number)
            && self.arguments[..2] == later.arguments[..2]
    }

    /// The process that waits in the call, with the id that the init which received the notification sees.
    pub fn caller(&self) -> Pid {
        self.pid as Pid
    }

    /// The same notification with the number that the caller has in its own session.
    pub fn with_caller(self, pid: Pid) -> Notification {
        Notification {
            pid: pid as u32,
            ..self
        }
    }

    /// The address behind the instruction that made the call.
    pub fn instruction(&self) -> u64 {
        self.instruction
    }

    /// The system call.
    pub fn number(&self) -> usize {
        self.number as usize
    }

    /// Its arguments: registers, so that code cannot change them while init decides.
    pub fn arguments(&self) -> &[u64; 6] {
        &self.arguments
    }

    /// Whether a file comes into being, with permissions that one of the arguments says.
    pub fn makes_a_file(&self) -> bool {
        use crate::sys::open_flags::{CREAT, TMPFILE};
        self.open_flags() & (CREAT | TMPFILE) != 0
    }

    /// Whether a file is opened.
    pub fn opens(&self) -> bool {
        matches!(self.number(), nr::OPENAT | nr::OPEN | nr::CREAT)
    }

    /// How a file is opened.
    pub fn open_flags(&self) -> usize {
        use crate::sys::open_flags::{CREAT, TRUNC, WRONLY};
        let flags = match self.number() {
            nr::OPENAT => self.arguments[2] as usize,
            nr::OPEN => self.arguments[1] as usize,
            nr::CREAT => CREAT | TRUNC | WRONLY,
            _ => 0,
        };
        flags & 0xFFFF_FFFF
    }

    /// The permissions of a file that is made.
    pub fn mode(&self) -> usize {
        self.arguments[self.mode_argument()] as usize & 0o1777
    }

    /// Takes these permissions from a file that is made.
    pub fn apply_mask(&mut self, mask: u64) {
        self.arguments[self.mode_argument()] &= !mask;
    }

    fn mode_argument(&self) -> usize {
        match self.number() {
            nr::OPENAT => 3,
            nr::OPEN => 2,
            _ => 1,
        }
    }

    /// As bytes, to be passed on to the init that must answer.
    pub fn as_bytes(&self) -> &[u8; NOTIFICATION_BYTES] {
        // SAFETY: a structure of plain numbers without padding, as large as the array.
        unsafe { &*(&raw const *self).cast() }
    }

    /// From those bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Notification> {
        let bytes: &[u8; NOTIFICATION_BYTES] = bytes.try_into().ok()?;
        // SAFETY: every pattern of bits is a notification; the bytes need not be aligned for this.
        Some(unsafe { bytes.as_ptr().cast::<Notification>().read_unaligned() })
    }
}

#[repr(C)]
struct Response {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

/// The listeners of a session's filters: that of the head's filter, and that of the filter which spawned processes are under.
///
/// A filter numbers its notifications from a random number of 64 bits on, so a number says which listener it is from: the kernel knows it there
/// and not at the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Notifications of the head, or -1.
    pub head: Fd,
    /// Notifications of spawned processes, or -1.
    pub spawned: Fd,
}

impl Listener {
    /// The listener of a session that has spawned no process.
    pub const fn of_head(head: Fd) -> Listener {
        Listener { head, spawned: -1 }
    }

    /// Makes a request about one notification, where that came from.
    fn control<T>(self, request: usize, argument: &T) -> Result<usize> {
        // SAFETY: the structure is of the size that the request number tells.
        let on = |fd: Fd| unsafe {
            syscall(
                nr::IOCTL,
                [fd as usize, request, &raw const *argument as usize],
            )
        };
        match on(self.head) {
            Err(Errno::NOENT | Errno::BAD_DESCRIPTOR) if self.spawned >= 0 => on(self.spawned),
            outcome => outcome,
        }
    }
}

const RECEIVE: usize = 0xC050_2100;
const SEND: usize = 0xC018_2101;
const ADD_DESCRIPTOR: usize = 0x4018_2103;
const CONTINUE: u32 = 1;

/// Asks the kernel to run the caller and init on one processor, because one of them always waits for the other: to wake
/// another processor costs more than the answer. Before Linux 6.6 it cannot, and all works as well.
pub fn set_synchronous_wake_up(listener: Fd) {
    const SET_FLAGS: usize = 0x4008_2104;
    const ON_THIS_PROCESSOR: usize = 1;
    // SAFETY: the flags are passed by value.
    let _ = unsafe { syscall(nr::IOCTL, [listener as usize, SET_FLAGS, ON_THIS_PROCESSOR]) };
}

/// Takes one pending notification.
pub fn receive(listener: Fd) -> Result<Notification> {
    let mut notification = Notification::default();
    // SAFETY: the structure is zeroed and of the size that the request number tells.
    unsafe {
        syscall(
            nr::IOCTL,
            [listener as usize, RECEIVE, &raw mut notification as usize],
        )
    }?;
    Ok(notification)
}

/// Lets the caller go on with its call, or refuses it.
pub fn answer(listener: Listener, notification: &Notification, allowed: bool) {
    let outcome = if allowed { Ok(()) } else { Err(Errno::PERM) };
    respond(listener, notification.id, outcome);
}

/// Lets the call go on, or fail with an error.
pub fn respond(listener: Listener, id: u64, outcome: Result<()>) {
    let response = Response {
        id,
        value: 0,
        error: outcome.err().map_or(0, |errno| -errno.0),
        flags: if outcome.is_ok() { CONTINUE } else { 0 },
    };
    // A caller that died meanwhile is no error of ours.
    let _ = listener.control(SEND, &response);
}

/// Whether the caller still waits: a signal may have interrupted it, and then it makes the call again.
pub fn is_waiting(listener: Listener, id: u64) -> bool {
    const ID_VALID: usize = 0x4008_2102;
    listener.control(ID_VALID, &id).is_ok()
}

/// Returns from the call with success: init has done it in the place of the caller. An error when the caller does not wait any more.
pub fn return_success(listener: Listener, id: u64) -> Result<()> {
    return_value(listener, id, 0)
}

/// Returns from the call with this value. An error when the caller does not wait any more.
pub fn return_value(listener: Listener, id: u64, value: i64) -> Result<()> {
    let response = Response {
        id,
        value,
        error: 0,
        flags: 0,
    };
    listener.control(SEND, &response).map(drop)
}

/// What becomes of a descriptor that the caller is given when it executes a program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OnExecute {
    /// It is closed.
    Closed,
    /// The program has it.
    Kept,
}

/// Puts a descriptor of ours into the waiting caller's own table, and answers with the number that it has there.
pub fn add_and_answer(
    listener: Listener,
    notification: &Notification,
    descriptor: Fd,
    on_execute: OnExecute,
) -> Result<()> {
    const AND_ANSWER: u32 = 2;
    let both = (descriptor, 0);
    add_descriptor(listener, notification.id, AND_ANSWER, both, on_execute).map(drop)
}

/// The same without an answer. Returns the number.
pub fn add(
    listener: Listener,
    notification: &Notification,
    descriptor: Fd,
    on_execute: OnExecute,
) -> Result<Fd> {
    let both = (descriptor, 0);
    add_descriptor(listener, notification.id, 0, both, on_execute).map(|number| number as Fd)
}

/// Puts a descriptor of ours into the waiting caller's own table, in the place of what has the number `target` there.
pub fn give(
    listener: Listener,
    notification: &Notification,
    descriptor: Fd,
    target: Fd,
    on_execute: OnExecute,
) -> Result<()> {
    const AT_THIS_NUMBER: u32 = 1;
    let both = (descriptor, target);
    add_descriptor(listener, notification.id, AT_THIS_NUMBER, both, on_execute).map(drop)
}

fn add_descriptor(
    listener: Listener,
    id: u64,
    flags: u32,
    (source, target): (Fd, Fd),
    on_execute: OnExecute,
) -> Result<usize> {
    const CLOEXEC: u32 = 0o2_000_000;
    #[repr(C)]
    struct AddFd {
        id: u64,
        flags: u32,
        source: u32,
        target: u32,
        target_flags: u32,
    }
    let request = AddFd {
        id,
        flags,
        source: source as u32,
        target: target as u32,
        target_flags: if on_execute == OnExecute::Closed {
            CLOEXEC
        } else {
            0
        },
    };
    listener.control(ADD_DESCRIPTOR, &request)
}

/// Whether a call that concerns other processes leaves the protected alone.
pub fn is_harmless(number: usize, arguments: &[u64; 6], protected: &impl Protected) -> bool {
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
        let kill = |pid: Pid| is_harmless(nr::KILL, &[pid as u64, 9, 0, 0, 0, 0], &standby);
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
        assert!(!is_harmless(nr::TGKILL, &[3, 7, 9, 0, 0, 0], &Standby(7)));
    }

    #[test]
    fn a_descriptor_cannot_be_tied_to_a_standby() {
        let own = |pid: Pid| is_harmless(nr::FCNTL, &[3, 8, pid as u64, 0, 0, 0], &Standby(7));
        assert_eq!(
            [own(7), own(-7), own(1), own(8), own(0)],
            [false, false, false, true, true]
        );
    }
}
