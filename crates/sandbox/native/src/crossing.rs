//! The way of a copy of the head into the namespaces of a fork.
//!
//! Nobody moves into another process namespace, only children do; and a child is adopted by process 1 of the namespace that its
//! parent lives in. So a helper enters the namespaces, a second one is born inside them, and that one makes the copy. Both helpers
//! share the memory of the head and cost next to nothing; the copy is the only fork.

use crate::fork::{Hints, KINDS};
use crate::message::{Message, from_init};
use crate::side_fork::{by_helper, side_fork};
use crate::spawn::{LibcFork, enter_cgroups};
use crate::sys::{
    self, Errno, Fd, Forked, Pid, Result, close, duplicate_above, enter_namespace, open,
    open_flags, receive, send,
};
use crate::{landlock, privileges};
use core::ffi::c_void;

/// Where the caller finds itself afterwards.
pub enum Crossed {
    /// Still the head; the copy has this id in its own session.
    Stayed(Pid),
    /// The head of the fork, which serves this channel.
    Arrived(Fd),
}

/// What the helpers know. They share our memory.
struct Journey {
    fork: LibcFork,
    /// The channel of the head that is copied.
    from: Fd,
    /// Where init puts what the copy needs.
    hints: Hints,
}

/// Copies the head into the fork that init has prepared.
///
/// # Safety
/// The caller must be the only running thread that uses libc, and have prepared Python for a fork.
pub unsafe fn cross(fork: LibcFork, channel: Fd) -> Result<Crossed> {
    let before = sys::set_signal_mask(u64::MAX);
    let mut journey = Journey {
        fork,
        from: channel,
        hints: Hints {
            report: -1,
            channel: -1,
            cgroups: [-1; 3],
        },
    };
    // SAFETY: the caller's promise; the journey outlives the helpers.
    let outcome = unsafe { by_helper(travel, (&raw mut journey).cast()) };
    let crossed = match outcome {
        Ok(Forked::Child) => {
            if arrive(&journey).is_err() {
                sys::exit(70);
            }
            Ok(Crossed::Arrived(journey.hints.channel))
        }
        Ok(Forked::Parent(pid)) => {
            // Before any code of the user's runs here again.
            let _ = landlock::part_from_forks();
            Ok(Crossed::Stayed(pid))
        }
        Err(errno) => Err(errno),
    };
    sys::set_signal_mask(before);
    crossed
}

/// Runs in the first helper.
unsafe fn travel(journey: *mut c_void) -> Pid {
    // SAFETY: what `cross` passed.
    let journey = unsafe { &mut *journey.cast::<Journey>() };
    // SAFETY: `cross` has the promise of its caller.
    let outcome = enter(journey).and_then(|()| unsafe { side_fork(journey.fork) });
    match outcome {
        Ok(Forked::Child) => 0,
        Ok(Forked::Parent(pid)) => pid,
        Err(Errno(number)) => -number,
    }
}

/// Enters the namespaces one by one. Each call waits for init, who hands over the descriptor that it needs.
fn enter(journey: &mut Journey) -> Result<()> {
    const LOWEST: Fd = 4;
    // Numbers that are free, held by something that takes what is written into it and does nothing.
    let nothing = open(c"/dev/null", open_flags::WRONLY, 0)?;
    let namespace = duplicate_above(nothing, LOWEST)?;
    let Hints {
        report,
        channel,
        cgroups,
    } = &mut journey.hints;
    for number in [report, channel].into_iter().chain(cgroups) {
        *number = duplicate_above(nothing, LOWEST)?;
    }
    close(nothing);
    for (kind, _) in KINDS {
        let entered = enter_namespace(namespace, kind, journey.hints.to_words());
        // By a policy, sessions share the network or the like: then there is nothing to enter.
        let may_be_shared = sys::clone_flags::SHAREABLE & kind != 0;
        match entered {
            Err(Errno::PERM) if may_be_shared => {}
            outcome => outcome?,
        }
    }
    close(namespace);
    Ok(())
}

/// Runs in the copy: gives up what entering gave it, and waits until the new init has looked at it.
fn arrive(journey: &Journey) -> Result<()> {
    let Hints {
        report, cgroups, ..
    } = journey.hints;
    close(journey.from);
    sys::new_session();
    enter_cgroups(&cgroups)?;
    cgroups.into_iter().for_each(close);
    privileges::drop_all()?;
    if !landlock::can_part() {
        // Then the parent goes on under the same rules, and could look into us unless we are closed.
        privileges::set_dumpable(false);
    }
    let message = Message {
        kind: from_init::BORN,
        ..Message::default()
    };
    send(report, &message.to_bytes(), &[])?;
    let mut byte = [0];
    let go = receive(report, &mut byte)?;
    close(report);
    if go.bytes == 0 {
        Err(Errno::PIPE)
    } else {
        Ok(())
    }
}
