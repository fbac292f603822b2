//! The user namespace of a fork, and how init comes to have a child in it.
//!
//! To map the ids of a user namespace, one must open a file of a process in it. A process that is not dumpable, as inits are,
//! shows its files as root's where the session is root's, and then init could not. But a process that init may look into is open
//! to all code of the session too: the kernel gives a user every right over the namespaces that he made. So the namespace is made by
//! a process that is worth nothing to anyone: it holds no descriptor and can do nothing but wait. Once the ids are mapped it is ended,
//! and the init of the fork, not dumpable from its start to its end, enters what it left.

use crate::init::memory;
use crate::init::sweep::wait_readable;
use crate::sys::text::Text;
use crate::sys::{
    self, Errno, Fd, Forked, Pid, Result, clone_flags, clone_process, close, close_all_but,
    enter_namespace, kill, open_at, open_flags, packet_pair, poll, reap, receive, send, signals,
};
use crate::walls::privileges;
use crate::walls::seccomp;
use crate::walls::users::{Mapping, SESSION_ID, map_users_at};

/// The user namespace of the next fork. The first is made when it is needed, the others ahead of time.
pub struct NextUserNamespace {
    made: Option<Fd>,
    is_due: bool,
}

impl NextUserNamespace {
    /// None yet.
    pub const NONE: NextUserNamespace = NextUserNamespace {
        made: None,
        is_due: false,
    };

    /// Whether the last one was taken, and no other was tried to be made since.
    pub fn is_due(&self) -> bool {
        self.is_due
    }

    /// Makes it ahead of time. If that fails, [`take`](Self::take) tries again and returns the error.
    pub fn make(&mut self, processes: Fd) {
        self.is_due = false;
        self.made = user_namespace(processes).ok();
    }

    /// The one that was made, or one made now.
    pub fn take(&mut self, processes: Fd) -> Result<Fd> {
        self.is_due = true;
        self.made
            .take()
            .map_or_else(|| user_namespace(processes), Ok)
    }
}

/// A user namespace below ours, with the session's id mapped and no process in it.
fn user_namespace(processes: Fd) -> Result<Fd> {
    memory::keep_what_init_needs();
    let (near, far) = packet_pair()?;
    // SAFETY: the child does nothing but wait for its end.
    let placeholder = match unsafe { clone_process(clone_flags::NEWUSER) } {
        Ok(Forked::Child) => {
            close_all_but(&[far]);
            if seccomp::allow_only_waiting().is_ok() {
                privileges::set_dumpable(true);
                let _ = send(far, &[1], &[]);
            }
            loop {
                poll(&mut [], -1);
            }
        }
        Ok(Forked::Parent(pid)) => pid,
        Err(errno) => {
            close(near);
            close(far);
            return Err(errno);
        }
    };
    close(far);
    let namespace = map(processes, placeholder, near);
    close(near);
    let _ = kill(placeholder, signals::KILL);
    let _ = reap(placeholder, true);
    namespace
}

fn map(processes: Fd, placeholder: Pid, socket: Fd) -> Result<Fd> {
    let mut byte = [0];
    if receive_from_own(placeholder, socket, &mut byte)? == 0 {
        return Err(Errno::PIPE);
    }
    let same = Mapping {
        inside: SESSION_ID,
        outside: SESSION_ID,
        count: 1,
    };
    map_users_at(processes, placeholder, same, same)?;
    let path = Text::<32>::new(format_args!("{placeholder}/ns/user"))?;
    open_at(processes, path.as_c_str(), open_flags::RDONLY, 0)
}

/// A child of ours in that namespace and in others that belong to it. `flags` are those of `clone`.
///
/// # Safety
/// As for [`clone_process`].
pub unsafe fn clone_into(users: Fd, flags: usize) -> Result<Forked> {
    let (near, far) = packet_pair()?;
    // A process that enters a user namespace cannot leave it. So a helper enters it, and makes the child ours.
    // SAFETY: the caller's promise.
    let helper = match unsafe { clone_process(0) } {
        Ok(Forked::Child) => {
            close(near);
            let others = flags & !clone_flags::NEWUSER | clone_flags::PARENT;
            let outcome = enter_namespace(users, clone_flags::NEWUSER)
                // SAFETY: the caller's promise.
                .and_then(|_| unsafe { clone_process(others) });
            let answer = match outcome {
                Ok(Forked::Child) => {
                    close(far);
                    return Ok(Forked::Child);
                }
                Ok(Forked::Parent(pid)) => pid,
                Err(Errno(number)) => -number,
            };
            let _ = send(far, &answer.to_le_bytes(), &[]);
            sys::exit(0)
        }
        Ok(Forked::Parent(pid)) => pid,
        Err(errno) => {
            close(near);
            close(far);
            return Err(errno);
        }
    };
    close(far);
    let mut bytes = [0; size_of::<Pid>()];
    let received = receive_from_own(helper, near, &mut bytes);
    close(near);
    // It has nothing left to do, and init would wait for one that is stopped before its end.
    let _ = kill(helper, signals::KILL);
    let _ = reap(helper, true);
    match Pid::from_le_bytes(bytes) {
        _ if received? != bytes.len() => Err(Errno::AGAIN),
        number if number <= 0 => Err(Errno(-number)),
        pid => Ok(Forked::Parent(pid)),
    }
}

/// Receives what a child that runs our own code sends. The child is a process of the session to everyone else: the host stops it with
/// the others when it pauses the session. Init must go on then where the session has forks, so it lets the child go on.
fn receive_from_own(child: Pid, socket: Fd, bytes: &mut [u8]) -> Result<usize> {
    const POLL_MS: i32 = 10;
    while !wait_readable(socket, POLL_MS) {
        kill(child, signals::CONT)?;
    }
    receive(socket, bytes).map(|received| received.bytes)
}
