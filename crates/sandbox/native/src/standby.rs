//! A frozen copy of the head, waiting to be needed.

use crate::sys::{self, Fd, nr, open, open_flags, signals, syscall, write_all};
use crate::{landlock, privileges};

/// Freezes the calling process, which has all signals blocked, until init wakes it. Only a signal from init counts: its sender is the parent, or unknown (0)
/// where the sender lives outside the process namespace.
pub fn stand_by(channel: Fd) {
    // Of its own group and session, so that a signal to the head's group does not reach it.
    sys::new_session();
    // Opened before it is hidden from itself, and for both times: when it is woken, init is busy, and nobody would let it open a file.
    let score = open(c"/proc/self/oom_score_adj", open_flags::WRONLY, 0);
    let set_score = |value: &[u8]| {
        if let Ok(score) = score {
            let _ = write_all(score, value);
        }
    };
    set_score(b"0");
    let was_open = privileges::is_dumpable();
    privileges::set_dumpable(false);
    // The head's channel is not ours: while we hold it, the host would not see its end.
    sys::close(channel);
    if wait_for_init() == signals::WAKE_APART {
        let _ = landlock::part_from_forks();
    }
    privileges::set_dumpable(was_open);
    set_score(b"500");
    let _ = score.map(sys::close);
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
