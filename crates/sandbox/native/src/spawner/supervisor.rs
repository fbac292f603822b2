//! The parent of one spawned process: it tells the host how the process ended, passes signals on, and adopts what the process leaves behind.
//!
//! It ends when nothing is left below it. Then its socket to the host closes.

use super::{Program, Streams, drain, tell};
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
    let start = memory::allocate_shared(Start::default()).map_err(at_fork)?;
    // SAFETY: the child stays native until it executes a program or ends. With `VFORK` this process waits until then.
    let child = match unsafe { clone_process(clone_flags::VFORK) }.map_err(at_fork)? {
        Forked::Child => {
            sys::new_session();
            match program.streams {
                Streams::Terminal(_) => start.failure = Some(program.execute()),
                Streams::Pipes(_) => start_in_group(program, start),
            }
            sys::exit(127)
        }
        Forked::Parent(child) => child,
    };
    let Start { pid, failure } = read_shared(start);
    if failure.is_some() || pid.is_some() {
        let _ = reap(child, true);
    }
    match failure {
        Some(failure) => {
            if let Some(pid) = pid {
                let _ = reap(pid, true);
            }
            Err(failure)
        }
        None => Ok(pid.unwrap_or(child)),
    }
}

/// The outcome of a start, in memory that the processes share until the program runs.
#[derive(Clone, Copy, Default)]
struct Start {
    /// The process, where it is not the child of the supervisor that leads the session.
    pid: Option<Pid>,
    failure: Option<Failure>,
}

/// Starts the process from the leader of a new session, which ends then: the process is in a group of its own, and leads nothing.
///
/// A process that leads a group cannot begin a session. The program `setsid` forks then, and its caller does not see how the program
/// ended that it was to start. A shell starts programs as members of a group too. Where there is a terminal, the process leads the session,
/// as under any terminal: the end of that leader would hang up.
fn start_in_group(program: &Program<'_>, start: &mut Start) {
    // The supervisor is the parent from the beginning: a program that asks to be ended with its parent is not ended with the leader.
    let flags = clone_flags::VFORK | clone_flags::PARENT;
    // SAFETY: the child stays native until it executes a program. With `VFORK` the leader waits until then.
    match unsafe { clone_process(flags) } {
        Ok(Forked::Child) => {
            start.failure = Some(program.execute());
            sys::exit(127)
        }
        Ok(Forked::Parent(pid)) => start.pid = Some(pid),
        Err(errno) => {
            let stage = crate::wire::message::Stage::Fork;
            start.failure = Some(Failure { stage, errno });
        }
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

/// Signals the group that a process is in. The process is not reaped yet, so the numbers are still those of itself and of its group.
fn signal_group(pid: Pid, signal: i32) {
    let is_signaled = match sys::group_of(pid) {
        // A process cannot enter the group of its supervisor, which is in another session.
        Ok(group) if group > 1 => kill(-group, signal).is_ok(),
        _ => false,
    };
    if !is_signaled {
        let _ = kill(pid, signal);
    }
}
