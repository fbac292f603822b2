//! The way of a copy of the head into the namespaces of a fork.
//!
//! A process cannot move into another process namespace, only its children are made there; and an orphan is adopted by process 1 of the
//! namespace that its parent lives in. So init moves a first helper into the namespaces, that helper starts a second one, which lives inside,
//! and the second one makes the copy. Both helpers share the memory of the head and cost next to nothing; the copy is the only fork.
//!
//! None of this code is trusted, for it runs in memory that hostile code may have changed. It never runs with a capability
//! (`entering.rs`).

use crate::forks::fork::{Hints, KINDS};
use crate::forks::side_fork::{HelperParent, by_helper};
use crate::forks::standby::Copying;
use crate::launch::spawn::enter_cgroups;
use crate::sys::trace::be_traced_by_parent;
use crate::sys::{
    self, Errno, Fd, Forked, Pid, Result, SignalAction, close, duplicate_above, enter_namespace,
    open, open_flags, receive, send, signals,
};
use crate::walls::landlock;
use crate::walls::privileges;
use crate::walls::privileges::NO_CAPABILITIES;
use crate::wire::message::{Message, from_init};
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
    copying: Copying,
    /// The channel of the head that is copied.
    from: Fd,
    /// Where init puts the descriptors that the copy needs.
    hints: Hints,
    /// Whether others of the session may look into the head.
    was_open: bool,
}

/// Copies the head, which has blocked all signals, into the fork that init has prepared. Threads that were stopped run again afterwards, on
/// both sides.
///
/// # Safety
/// The caller must be the only running thread that uses libc, and have prepared Python for a fork.
pub unsafe fn cross(copying: Copying, channel: Fd) -> Result<Crossed> {
    // SAFETY: the caller's promise.
    let crossed = unsafe { copy_into_fork(copying, channel) };
    match crossed {
        Ok(Crossed::Stayed(_)) => copying.release_threads_parted(),
        // A head without some of its threads would wait for them.
        Ok(Crossed::Arrived(_)) => {
            if copying.start_threads().is_err() {
                sys::exit(70);
            }
        }
        Err(_) => copying.release_threads(),
    }
    crossed
}

unsafe fn copy_into_fork(copying: Copying, channel: Fd) -> Result<Crossed> {
    let hints = reserve()?;
    let mut journey = Journey {
        copying,
        from: channel,
        hints,
        was_open: privileges::is_dumpable(),
    };
    // The helper is hidden from its start: no process of the session sees it in `/proc`, or can open its memory.
    privileges::set_dumpable(false);
    // SAFETY: the caller's promise; the journey outlives the helpers.
    let outcome = unsafe { by_helper(HelperParent::Init, travel, (&raw mut journey).cast()) };
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
    if !matches!(crossed, Ok(Crossed::Arrived(_))) {
        privileges::set_dumpable(journey.was_open);
        reserved(&hints).for_each(close);
    }
    crossed
}

/// Reserves the descriptor numbers at which the copy will have what init gives it. Until then they are `/dev/null`, open for reading: opening
/// for writing would be a question to init.
fn reserve() -> Result<Hints> {
    const LOWEST: Fd = 4;
    let nothing = open(c"/dev/null", open_flags::RDONLY, 0)?;
    let mut numbers = [-1; RESERVED];
    for index in 0..RESERVED {
        match duplicate_above(nothing, LOWEST) {
            Ok(number) => numbers[index] = number,
            Err(error) => {
                numbers[..index].iter().copied().for_each(close);
                close(nothing);
                return Err(error);
            }
        }
    }
    close(nothing);
    let [report, channel, namespace, cgroups @ ..] = numbers;
    Ok(Hints {
        report,
        channel,
        cgroups,
        namespace,
        capabilities: NO_CAPABILITIES.as_ptr() as usize,
    })
}

const RESERVED: usize = 6;

fn reserved(hints: &Hints) -> impl Iterator<Item = Fd> {
    [hints.report, hints.channel, hints.namespace]
        .into_iter()
        .chain(hints.cgroups)
}

/// Runs in the first helper.
unsafe fn travel(journey: *mut c_void) -> Pid {
    // SAFETY: what `cross` passed.
    let journey = unsafe { &mut *journey.cast::<Journey>() };
    // SAFETY: `cross` has the promise of its caller.
    let outcome = enter(journey).and_then(|()| unsafe { journey.copying.copy_from_helper() });
    match outcome {
        Ok(Forked::Child) => 0,
        Ok(Forked::Parent(pid)) => pid,
        Err(Errno(number)) => -number,
    }
}

/// Enters the namespaces. Init, which traces this process by then, stops it in its first `setns` and makes all calls that are needed. When that
/// `setns` returns, the process is in every namespace, has its descriptors, and has no capability.
fn enter(journey: &Journey) -> Result<()> {
    let trap = SignalAction::of(signals::TRAP);
    be_traced_by_parent(journey.hints.to_words())?;
    let (first, _) = KINDS[0];
    enter_namespace(journey.hints.namespace, first)?;
    // Each single step raised this signal. The kernel has unblocked it for that, and reset what it does.
    sys::set_signal_mask(u64::MAX);
    trap.restore(signals::TRAP);
    privileges::set_dumpable(journey.was_open);
    close(journey.hints.namespace);
    Ok(())
}

/// Runs in the copy: enters what it was given, and waits until the new init has looked at it.
fn arrive(journey: &Journey) -> Result<()> {
    let Hints {
        report, cgroups, ..
    } = journey.hints;
    close(journey.from);
    sys::new_session();
    for cgroup in cgroups {
        match enter_cgroups(&[cgroup]) {
            // Init gave fewer cgroups than numbers were reserved.
            Err(Errno::BAD_DESCRIPTOR) => {}
            outcome => outcome?,
        }
        close(cgroup);
    }
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
