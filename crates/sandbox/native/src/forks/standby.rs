//! Standbys: how a head is copied and frozen, and how the copy is woken.

use crate::forks::shared_memory::LeftOut;
use crate::forks::side_fork::side_fork;
use crate::forks::threads::{Obstacle, StoppedThreads};
use crate::forks::unconnected_sockets::LetGoSignal;
use crate::forks::{file_offsets, process_ids, shared_memory, unconnected_sockets};
use crate::launch::spawn::LibcFork;
use crate::sys::{
    self, Fd, Forked, Pid, Poll, kill, nr, open, open_flags, poll, receive, signals, syscall,
    write_all,
};
use crate::walls::landlock;
use crate::walls::privileges;

/// The head's answer about its standby, with digits that are written over. Native code sends it, so that the host need not wait for Python:
/// after a fork, every page that Python touches must be copied.
pub struct Announcement<'a> {
    /// What is sent.
    pub answer: &'a [u8],
    /// Where the id of the standby is in it.
    pub standby_place: usize,
    /// Where it says how many bytes of shared memory were left out.
    pub left_out_place: usize,
}

impl Announcement<'_> {
    /// Sends the answer on this channel.
    pub fn send(&self, channel: Fd, standby: Pid, left_out: LeftOut) {
        // The names of child processes are in it: the guest bounds them.
        const MAX_ANSWER_BYTES: usize = 4096;
        let mut bytes = [0; MAX_ANSWER_BYTES];
        let Some(bytes) = bytes.get_mut(..self.answer.len()) else {
            return;
        };
        bytes.copy_from_slice(self.answer);
        let numbers = [
            (self.standby_place, u64::from(standby.unsigned_abs())),
            (self.left_out_place, left_out.bytes),
        ];
        for (place, number) in numbers {
            let place = place.min(bytes.len());
            write_number(&mut bytes[place..], number);
        }
        // A host that is gone is noticed elsewhere.
        let _ = write_all(channel, bytes);
    }
}

/// Writes a number over the digits that `text` begins with, and blanks before it: for JSON they are nothing. One that is too large is the
/// largest with so many digits.
fn write_number(text: &mut [u8], number: u64) {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let largest = 10u64
        .checked_pow(digits as u32)
        .map_or(u64::MAX, |power| power - 1);
    let mut rest = number.min(largest);
    for (index, byte) in text[..digits].iter_mut().rev().enumerate() {
        *byte = match rest % 10 {
            0 if rest == 0 && index > 0 => b' ',
            digit => b'0' + digit as u8,
        };
        rest /= 10;
    }
}

/// Freezes the calling process, which has all signals blocked, until init wakes it; from then on it speaks on `own`. Returns the id of the copy that it
/// left as the next standby, or 0.
///
/// # Safety
/// As for [`side_fork`].
pub unsafe fn stand_by(copying: Copying, heads: Fd, own: Fd, let_go: LetGoSignal) -> Pid {
    // The head's channel is not ours: while we hold it, the host would not see its end.
    sys::close(heads);
    unconnected_sockets::let_go();
    let_go.send();
    loop {
        let frozen = Frozen::freeze();
        let wake_request = wait_for_init();
        if wake_request.apart {
            let _ = landlock::part_from_forks();
        }
        frozen.thaw();
        // Before there is another copy: it has the same memory, and the same record of it.
        shared_memory::put_back(wake_request.is_alone);
        // Whether it is used or not: behind it come the host's requests.
        let next = take_enclosed(own);
        let copy = match next {
            // SAFETY: the caller's promise.
            Some(next) if wake_request.leaves_copy => unsafe { leave_copy(copying, next, own) },
            _ => Copied::Original(0),
        };
        if let Some(next) = next {
            sys::close(next);
        }
        if let Copied::Original(copy) = copy {
            shared_memory::forget_temporary();
            file_offsets::put_back();
            unconnected_sockets::put_back();
            // Last: from here on the process has all its threads, and cannot be copied without stopping them again.
            if copying.start_threads().is_err() {
                sys::exit(70);
            }
            return copy;
        }
    }
}

/// How a process is copied.
#[derive(Clone, Copy)]
pub enum Copying {
    /// It has one thread: by libc's `fork`, whose handlers put BLAS libraries and allocators right.
    OneThread(LibcFork),
    /// With all its threads, which are stopped.
    AllThreads(StoppedThreads),
}

impl Copying {
    /// With `libc_fork` the process has one thread. Without, its other threads are stopped. The caller has blocked all signals for itself.
    ///
    /// # Safety
    /// As for [`process_ids::note`].
    pub unsafe fn prepare(libc_fork: Option<LibcFork>) -> Result<Copying, Obstacle> {
        // SAFETY: the caller's promise.
        unsafe { process_ids::note() };
        match libc_fork {
            Some(fork) => Ok(Copying::OneThread(fork)),
            None => StoppedThreads::stop_others().map(Copying::AllThreads),
        }
    }

    /// Copies the process. The copy is a child of init's, not of the caller's.
    ///
    /// # Safety
    /// As for [`side_fork`] and [`StoppedThreads::fork`].
    pub unsafe fn copy(self) -> sys::Result<Forked> {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Copying::OneThread(fork) => side_fork(fork),
                Copying::AllThreads(stopped) => stopped.fork(),
            }
        }
    }

    /// Copies the process from a helper that shares its memory and lives in other namespaces. The copy is adopted by the init there.
    ///
    /// # Safety
    /// As for [`Copying::copy`].
    pub unsafe fn copy_from_helper(self) -> sys::Result<Forked> {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Copying::OneThread(fork) => side_fork(fork),
                Copying::AllThreads(stopped) => stopped.fork_from_helper(),
            }
        }
    }

    /// In the original, after the copy: the threads go on.
    pub fn release_threads(self) {
        if let Copying::AllThreads(stopped) = self {
            stopped.release();
        }
    }

    /// In the original, after a copy that is the head of a fork: the threads go on, each parted from that fork first.
    pub fn release_threads_parted(self) {
        if let Copying::AllThreads(stopped) = self {
            stopped.release_separated();
        }
    }

    /// In a copy that goes on as a head: makes the threads anew.
    pub fn start_threads(self) -> sys::Result<()> {
        process_ids::renew();
        match self {
            Copying::OneThread(_) => Ok(()),
            Copying::AllThreads(stopped) => stopped.start_again(),
        }
    }
}

enum Copied {
    /// The process that was copied, with the id of the copy; 0 where there is none.
    Original(Pid),
    Copy,
}

/// Leaves a copy of this process, which speaks on `next`, under the number of `own` that our caller knows.
unsafe fn leave_copy(copying: Copying, next: Fd, own: Fd) -> Copied {
    if is_hung_up(next) {
        return Copied::Original(0);
    }
    // SAFETY: the caller's promise.
    match unsafe { copying.copy() } {
        Ok(Forked::Parent(pid)) => Copied::Original(pid),
        Ok(Forked::Child) => match sys::duplicate_over(next, own) {
            Ok(()) => Copied::Copy,
            Err(_) => sys::exit(70),
        },
        Err(_) => Copied::Original(0),
    }
}

/// Whether the host does not want the copy any more.
fn is_hung_up(channel: Fd) -> bool {
    const HANG_UP: i16 = 0x10;
    let mut wanted = [Poll::readable(channel)];
    poll(&mut wanted, 0) > 0 && wanted[0].seen & HANG_UP != 0
}

/// What a process is while it stands by, and shall not be when it is the head.
struct Frozen {
    /// Opened before it is hidden from itself, and for both times: when it is woken, init may be busy, and would not let it open a file.
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

    /// Sets which process the kernel ends first where memory is short.
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

fn wait_for_init() -> WakeRequest {
    const USER: i32 = 0;
    let wanted = WakeRequest::SIGNALS;
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
        // Asked for now: when this process was made, its parent was still the helper.
        if outcome.is_ok() && info[2] == USER && (info[4] == 0 || info[4] == sys::parent_pid()) {
            return WakeRequest::from_signal(info[0]);
        }
    }
}

/// What a standby has to do before it goes on as the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeRequest {
    /// Part from the forks of its session: it is older than one of them.
    pub apart: bool,
    /// Leave a copy of itself as the next standby, so that the next cell need not wait for one.
    pub leaves_copy: bool,
    /// No process of the session is older than the standby and goes on.
    pub is_alone: bool,
}

impl WakeRequest {
    /// All signals that wake, as a mask.
    pub const SIGNALS: u64 = 0xFF << (signals::WAKE - 1);

    /// The signal that says this.
    pub fn signal(self) -> i32 {
        signals::WAKE
            + i32::from(self.apart)
            + 2 * i32::from(self.leaves_copy)
            + 4 * i32::from(self.is_alone)
    }

    /// Wakes a standby, which is stopped.
    pub fn send(self, pid: Pid) -> sys::Result<()> {
        kill(pid, self.signal())?;
        kill(pid, signals::CONT)
    }

    /// What one of those signals says.
    pub fn from_signal(signal: i32) -> WakeRequest {
        let bits = signal - signals::WAKE;
        WakeRequest {
            apart: bits & 1 != 0,
            leaves_copy: bits & 2 != 0,
            is_alone: bits & 4 != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_written_over_digits_with_blanks_before_it() {
        let written = |number: u64| {
            let mut text = *b"9999999999,\"faults\":9";
            write_number(&mut text, number);
            std::string::String::from_utf8_lossy(&text).into_owned()
        };
        assert_eq!(written(4_194_304), "   4194304,\"faults\":9");
        assert_eq!(written(70), "        70,\"faults\":9");
        assert_eq!(written(0), "         0,\"faults\":9");
        assert_eq!(written(u64::MAX), "9999999999,\"faults\":9");
    }

    #[test]
    fn each_way_has_a_signal_of_its_own_that_wakes() {
        for bits in 0..8 {
            let wake_request = WakeRequest {
                apart: bits & 1 != 0,
                leaves_copy: bits & 2 != 0,
                is_alone: bits & 4 != 0,
            };
            let signal = wake_request.signal();
            assert_eq!(WakeRequest::from_signal(signal), wake_request);
            assert_ne!(WakeRequest::SIGNALS & 1 << (signal - 1), 0);
        }
    }
}
