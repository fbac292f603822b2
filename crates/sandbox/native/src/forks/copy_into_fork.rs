//! The way of a copy of the head into the namespaces of a fork.
//!
//! A process cannot move into another process namespace, only its children are made there; and an orphan is adopted by process 1 of the
//! namespace that its parent lives in. So init moves a first helper into the namespaces, that helper starts a second one, which lives inside,
//! and the second one makes the copy. Both helpers share the memory of the head and cost next to nothing; the copy is the only fork.
//!
//! None of this code is trusted, for it runs in memory that hostile code may have changed. It never runs with a capability
//! (`forks/enter_namespaces.rs`).

use crate::forks::enter_namespaces::Visibility;
use crate::forks::event_descriptors;
use crate::forks::fork::{Hints, KINDS};
use crate::forks::own_copies;
use crate::forks::side_fork::{HelperParent, fork_by_helper};
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
pub enum ForkSide {
    /// Still the head; the copy has this id in its own session.
    Original(Pid),
    /// The head of the fork, which serves this channel.
    Fork(Fd),
}

/// What the helpers know. They share our memory.
struct CopyState {
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
pub unsafe fn copy_head_into_fork(copying: Copying, channel: Fd) -> Result<ForkSide> {
    own_copies::save();
    // SAFETY: the caller's promise.
    let side = unsafe { copy_into_fork(copying, channel) };
    if !matches!(side, Ok(ForkSide::Fork(_))) {
        own_copies::forget();
    }
    match side {
        Ok(ForkSide::Original(_)) => copying.release_threads_parted(),
        // A thread must find nothing of the parent's, and a head without some of its threads would wait for them.
        Ok(ForkSide::Fork(_)) => {
            own_copies::replace();
            if event_descriptors::renew().is_err() || copying.start_threads().is_err() {
                sys::exit(70);
            }
        }
        Err(_) => copying.release_threads(),
    }
    side
}

unsafe fn copy_into_fork(copying: Copying, channel: Fd) -> Result<ForkSide> {
    let hints = reserve()?;
    let mut state = CopyState {
        copying,
        from: channel,
        hints,
        was_open: privileges::is_dumpable(),
    };
    // The helper is hidden from its start: no process of the session sees it in `/proc`, or can open its memory.
    privileges::set_dumpable(false);
    // SAFETY: the caller's promise; the state outlives the helpers.
    let outcome = unsafe {
        fork_by_helper(
            HelperParent::Init,
            run_first_helper,
            (&raw mut state).cast(),
        )
    };
    let side = match outcome {
        Ok(Forked::Child) => {
            if join_fork(&state).is_err() {
                sys::exit(70);
            }
            Ok(ForkSide::Fork(state.hints.channel))
        }
        Ok(Forked::Parent(pid)) => {
            // Before any code of the user's runs here again.
            let _ = landlock::part_from_forks();
            Ok(ForkSide::Original(pid))
        }
        Err(errno) => Err(errno),
    };
    if !matches!(side, Ok(ForkSide::Fork(_))) {
        privileges::set_dumpable(state.was_open);
        reserved(&hints).for_each(close);
    }
    side
}

/// Reserves the descriptor numbers at which the copy will have what init gives it. Until then they are `/dev/null`, open for reading: opening
/// for writing would be a notification to init.
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
unsafe fn run_first_helper(state: *mut c_void) -> Pid {
    // SAFETY: what `copy_head_into_fork` passed.
    let state = unsafe { &mut *state.cast::<CopyState>() };
    // SAFETY: `copy_head_into_fork` has the promise of its caller.
    let outcome = enter(state).and_then(|()| unsafe { state.copying.copy_from_helper() });
    match outcome {
        Ok(Forked::Child) => 0,
        Ok(Forked::Parent(pid)) => pid,
        Err(Errno(number)) => -number,
    }
}

/// Enters the namespaces. Init, which traces this process by then, stops it in its first `setns` and makes all calls that are needed. When that
/// `setns` returns, the process is in every namespace, has its descriptors, and has no capability.
fn enter(state: &CopyState) -> Result<()> {
    let trap = SignalAction::of(signals::TRAP);
    be_traced_by_parent(state.hints.to_words())?;
    let (first, _) = KINDS[0];
    let visibility = enter_namespace(state.hints.namespace, first)?;
    // Each single step raised this signal. The kernel has unblocked it for that, and reset what it does.
    sys::set_signal_mask(u64::MAX);
    trap.restore(signals::TRAP);
    // The copy is as open as this process is; the head itself opens again afterwards.
    let is_closed = visibility == Visibility::Closed as usize;
    privileges::set_dumpable(state.was_open && !is_closed);
    close(state.hints.namespace);
    Ok(())
}

/// Runs in the copy: enters what it was given, and waits until the new init has looked at it.
fn join_fork(state: &CopyState) -> Result<()> {
    let Hints {
        report, cgroups, ..
    } = state.hints;
    close(state.from);
    sys::new_session();
    for cgroup in cgroups {
        match enter_cgroups(&[cgroup]) {
            // Init gave fewer cgroups than numbers were reserved.
            Err(Errno::BAD_DESCRIPTOR) => {}
            outcome => outcome?,
        }
        close(cgroup);
    }
    if !landlock::can_separate() {
        // Then the parent goes on under the same rules, and could look into us unless we are closed.
        privileges::set_dumpable(false);
    }
    let message = Message {
        kind: from_init::STARTED,
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
