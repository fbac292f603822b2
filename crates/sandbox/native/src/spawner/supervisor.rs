//! The parent of one spawned process: it tells the host how the process ended, passes signals on, and adopts what the process leaves behind.
//!
//! It ends when nothing is left below it. Then its socket to the host closes.

use super::{Program, drain, tell};
use crate::init::memory;
use crate::sys::{
    self, Errno, Fd, Forked, Pid, Poll, clone_flags, clone_process, close, kill, poll, reap,
    receive, signals,
};
use crate::walls::privileges;
use crate::wire::message::{Failure, Message, from_spawner, to_supervisor};

/// The life of a supervisor. `status` is its socket to the host.
pub(super) fn run(program: &Program<'_>, status: Fd, children: Fd) -> ! {
    // Without the spawner nothing below this process could be told from what cells started.
    privileges::follow_parent(signals::KILL);
    let started = privileges::adopt_orphans()
        .map_err(|errno| Failure {
            stage: crate::wire::message::Stage::Fork,
            errno,
        })
        .and_then(|()| start(program));
    let pid = match started {
        Ok(pid) => pid,
        Err(Failure { stage, errno }) => {
            let (stage, errno) = (stage as u64, errno.0 as u64);
            tell(status, from_spawner::FAILED, stage, errno, 0);
            sys::exit(0)
        }
    };
    // The process has its own descriptors of its streams, and their ends must be seen.
    sys::close_all_but(&sorted([status, children]));
    (0..3).for_each(close);
    let own = sys::own_pid() as u64;
    tell(status, from_spawner::STARTED, pid as u64, own, 0);
    supervise(pid, status, children)
}

fn sorted<const N: usize>(mut descriptors: [Fd; N]) -> [Fd; N] {
    descriptors.sort_unstable();
    descriptors
}

/// Starts the process, and returns when the program runs in it or it has failed.
fn start(program: &Program<'_>) -> Result<Pid, Failure> {
    let at_fork = |errno| Failure {
        stage: crate::wire::message::Stage::Fork,
        errno,
    };
    let failure = memory::allocate_shared::<Option<Failure>>(None).map_err(at_fork)?;
    // SAFETY: the child stays native until it executes a program. With `VFORK` this process waits until then.
    match unsafe { clone_process(clone_flags::VFORK) }.map_err(at_fork)? {
        Forked::Child => {
            *failure = Some(program.execute());
            sys::exit(127)
        }
        Forked::Parent(pid) => match read_shared(failure) {
            Some(failure) => {
                let _ = reap(pid, true);
                Err(failure)
            }
            None => Ok(pid),
        },
    }
}

/// The value as it is now: another process has written it.
fn read_shared<T: Copy>(shared: &T) -> T {
    // SAFETY: a reference is valid for reads.
    unsafe { core::ptr::read_volatile(shared) }
}

fn supervise(pid: Pid, mut status: Fd, children: Fd) -> ! {
    let mut lives = true;
    loop {
        if is_alone(pid, status, &mut lives) {
            sys::exit(0);
        }
        let mut wanted = [Poll::readable(status), Poll::readable(children)];
        poll(&mut wanted, -1);
        let [order, child] = wanted;
        if child.seen != 0 {
            drain(children);
        }
        if order.seen != 0 {
            let mut bytes = [0; Message::SIZE];
            match receive(status, &mut bytes) {
                Ok(received) if received.bytes > 0 => {
                    if let Ok((message, _)) = Message::from_bytes(&bytes[..received.bytes])
                        && message.kind == to_supervisor::SIGNAL
                        && lives
                    {
                        signal_group(pid, message.a as i32);
                    }
                }
                // The host is gone. Init ends the session with all that is in it.
                _ => {
                    close(status);
                    status = -1;
                    if lives {
                        signal_group(pid, signals::KILL);
                    }
                }
            }
        }
    }
}

/// Reaps what has ended, and tells of the process itself. Returns whether nothing is left.
fn is_alone(pid: Pid, status: Fd, lives: &mut bool) -> bool {
    loop {
        match reap(-1, false) {
            Ok(Some(ended)) if ended.pid == pid => {
                *lives = false;
                let how = ended.status as u64;
                tell(status, from_spawner::ENDED, how, ended.cpu, ended.peak);
            }
            Ok(Some(_)) => {}
            Ok(None) => return false,
            Err(Errno::CHILD) => return true,
            Err(_) => return !*lives,
        }
    }
}

/// Signals the group that a process leads. The process is not reaped yet, so its number is still its own.
fn signal_group(pid: Pid, signal: i32) {
    if kill(-pid, signal).is_err() {
        let _ = kill(pid, signal);
    }
}
