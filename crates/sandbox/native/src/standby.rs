//! A frozen copy of the head, waiting to be needed.

use crate::side_fork::side_fork;
use crate::spawn::LibcFork;
use crate::sys::{self, Fd, Forked, Pid, nr, open, open_flags, receive, syscall, write_all};
use crate::waking::Waking;
use crate::{landlock, privileges};

/// A frame of Python's that says a process id. It was made before the fork that makes the process: after it, every page that Python touches must be
/// copied, and the host would wait for that.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Announcement {
    frame: *const u8,
    length: usize,
    /// Where the id goes: over the digits from here on.
    place: usize,
}

impl Announcement {
    /// Sends it.
    ///
    /// # Safety
    /// The frame must be there, with its length.
    pub unsafe fn send(self, channel: Fd, pid: Pid) {
        const LONGEST: usize = 512;
        // SAFETY: the caller's promise.
        let frame = unsafe { core::slice::from_raw_parts(self.frame, self.length) };
        let mut bytes = [0; LONGEST];
        let Some(bytes) = bytes.get_mut(..frame.len()) else {
            return;
        };
        bytes.copy_from_slice(frame);
        write_number(&mut bytes[self.place.min(frame.len())..], pid);
        // Who does not listen any more will be missed elsewhere.
        let _ = write_all(channel, bytes);
    }
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

/// Freezes the calling process, which has all signals blocked, until init wakes it. From then on it speaks on `own`, and says so, with the id of the
/// copy that it left as the next standby.
///
/// # Safety
/// As for [`side_fork`] and [`Announcement::send`].
pub unsafe fn stand_by(fork: LibcFork, heads: Fd, own: Fd, greeting: Announcement) {
    // The head's channel is not ours: while we hold it, the host would not see its end.
    sys::close(heads);
    loop {
        let frozen = Frozen::freeze();
        let waking = wait_for_init();
        if waking.apart {
            let _ = landlock::part_from_forks();
        }
        frozen.thaw();
        // Whether it is used or not: behind it come the host's requests.
        let next = take_enclosed(own);
        let copy = match next {
            // SAFETY: the caller's promise.
            Some(_) if waking.leaves_copy => unsafe { side_fork(fork) }.ok(),
            _ => None,
        };
        if let (Some(Forked::Child), Some(next)) = (&copy, next) {
            // In the place of the other, for that is the number that our caller knows.
            let _ = sys::duplicate_over(next, own);
        }
        next.map(sys::close);
        let copy = match copy {
            Some(Forked::Child) => continue,
            Some(Forked::Parent(pid)) => pid,
            None => 0,
        };
        // SAFETY: the caller's promise.
        return unsafe { greeting.send(own, copy) };
    }
}

/// What a process is while it stands by, and shall not be when it is the head.
struct Frozen {
    /// Opened before it is hidden from itself, and for both times: when it is woken, init is busy, and nobody would let it open a file.
    score: sys::Result<Fd>,
    was_open: bool,
}

impl Frozen {
    fn freeze() -> Frozen {
        // Of its own group and session, so that a signal to the head's group does not reach it.
        sys::new_session();
        let frozen = Frozen {
            score: open(c"/proc/self/oom_score_adj", open_flags::WRONLY, 0),
            was_open: privileges::is_dumpable(),
        };
        frozen.set_score(b"0");
        privileges::set_dumpable(false);
        frozen
    }

    fn thaw(self) {
        privileges::set_dumpable(self.was_open);
        self.set_score(b"500");
        let _ = self.score.map(sys::close);
    }

    /// Whom the kernel ends first where memory is short.
    fn set_score(&self, value: &[u8]) {
        if let Ok(score) = self.score {
            let _ = write_all(score, value);
        }
    }
}

/// The channel of the next standby, which the host has laid ready in this one's.
fn take_enclosed(channel: Fd) -> Option<Fd> {
    let received = receive(channel, &mut [0]).ok()?;
    (received.count > 0).then_some(received.descriptors[0])
}

fn wait_for_init() -> Waking {
    const USER: i32 = 0;
    let wanted = Waking::SIGNALS;
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
        // Only init's word counts: its sender is the parent, or unknown (0) where the sender lives outside the process namespace.
        // Asked for now: at birth the parent was still the helper of the fork.
        if outcome.is_ok() && info[2] == USER && (info[4] == 0 || info[4] == sys::parent_pid()) {
            return Waking::from_signal(info[0]);
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
