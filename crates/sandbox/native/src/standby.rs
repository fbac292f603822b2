//! A frozen copy of the head, waiting to be needed.

use crate::sys::{self, Fd, Pid, nr, open, open_flags, signals, syscall, write_all};
use crate::{landlock, privileges};

/// Sends an answer of the head's, with the id of its standby written over the digits from `place` on. The host need not wait until Python is
/// ready to do that: after a fork, every page that it touches must be copied.
pub fn announce(channel: Fd, answer: &[u8], place: usize, standby: Pid) {
    const LONGEST: usize = 512;
    let mut bytes = [0; LONGEST];
    let Some(bytes) = bytes.get_mut(..answer.len()) else {
        return;
    };
    bytes.copy_from_slice(answer);
    write_number(&mut bytes[place.min(answer.len())..], standby);
    // Who does not listen any more will be missed elsewhere.
    let _ = write_all(channel, bytes);
}

/// Writes a number over the digits that `text` begins with, and blanks before it: for JSON they are nothing.
fn write_number(text: &mut [u8], number: Pid) {
    let room = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut rest = number.unsigned_abs();
    for (index, byte) in text[..room].iter_mut().rev().enumerate() {
        *byte = match rest % 10 {
            0 if rest == 0 && index > 0 => b' ',
            digit => b'0' + digit as u8,
        };
        rest /= 10;
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_written_over_digits_with_blanks_before_it() {
        let written = |number: Pid| {
            let mut text = *b"9999999999,\"faults\":9";
            write_number(&mut text, number);
            std::string::String::from_utf8_lossy(&text).into_owned()
        };
        assert_eq!(written(4_194_304), "   4194304,\"faults\":9");
        assert_eq!(written(70), "        70,\"faults\":9");
        assert_eq!(written(0), "         0,\"faults\":9");
    }
}
