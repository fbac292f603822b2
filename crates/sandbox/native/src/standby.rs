//! A frozen copy of the head, waiting to be needed.

use crate::sys::{self, Fd, nr, signals, syscall, write_file};
use crate::{landlock, privileges};

/// Freezes the calling process, which has all signals blocked, until init wakes it. Only a signal from init counts: its sender is the parent, or unknown (0)
/// where the sender lives outside the process namespace.
pub fn stand_by(channel: Fd) {
    // Of its own group and session, so that a signal to the head's group does not reach it.
    sys::new_session();
    // Before it is hidden from itself.
    let _ = write_file(c"/proc/self/oom_score_adj", b"0");
    let was_open = privileges::is_dumpable();
    privileges::set_dumpable(false);
    // The head's channel is not ours: while we hold it, the host would not see its end.
    sys::close(channel);
    if wait_for_init() == signals::WAKE_APART {
        let _ = landlock::part_from_forks();
    }
    privileges::set_dumpable(was_open);
    let _ = write_file(c"/proc/self/oom_score_adj", b"500");
}

/// Returns the signal.
fn wait_for_init() -> i32 {
    const USER: i32 = 0;
    let wanted = 1u64 << (signals::WAKE - 1) | 1u64 << (signals::WAKE_APART - 1);
    loop {
        // `siginfo`: number, error, code, padding, sender.
        let mut info = [0i32; 32];
        // SAFETY: the mask and the structure live through the call; a null time waits for ever.
        let outcome = unsafe {
            syscall(
                nr::RT_SIGTIMEDWAIT,
                [&raw const wanted as usize, info.as_mut_ptr() as usize, 0, 8],
            )
        };
        // Asked for now: at birth the parent was still the helper of the fork.
        if outcome.is_ok() && info[2] == USER && (info[4] == 0 || info[4] == sys::parent_pid()) {
            return info[0];
        }
    }
}
