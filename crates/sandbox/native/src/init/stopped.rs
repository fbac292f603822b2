//! Whether the threads of a process run, are stopped, or are about to end; and waiting until calls that init let go on have returned.

use crate::files::change_handler::ChangeHandler;
use crate::init::sweep::{Reach, each_entry, each_process};
use crate::sys::text::{Text, leading_number};
use crate::sys::{
    self, Errno, Fd, Pid, Result, STAT_BYTES, close, kill, open_at, open_flags, poll, read_stat,
    signals,
};

/// A thread that runs or waits for a processor.
const RUNNING: u8 = b'R';
/// A thread that waits where no signal wakes it.
const WAITS_FOR_DEVICE: u8 = b'D';
const STOPPED: u8 = b'T';
/// The kernel's flag of a thread that does not return to its code. It is set before the memory is given back.
const EXITING: u64 = 0x4;

/// Whether every thread of a process is stopped, is ending, or is gone. None of them is in a system call, and none will run unless it is
/// continued.
pub fn is_at_rest(proc_directory: Fd, pid: Pid) -> bool {
    let threads = Text::<32>::new(format_args!("{pid}/task"))
        .and_then(|path| open_at(proc_directory, path.as_c_str(), open_flags::DIRECTORY, 0));
    let Ok(threads) = threads else { return true };
    let mut all = true;
    each_entry(threads, |thread| {
        all &= is_thread_at_rest(threads, thread);
    });
    close(threads);
    all
}

fn is_thread_at_rest(threads: Fd, thread: Pid) -> bool {
    let mut buffer = [0; STAT_BYTES];
    match read_stat(threads, thread, &mut buffer) {
        Ok(stat) => stat.state() == STOPPED || stat.flags().is_some_and(|it| it & EXITING != 0),
        Err(Errno::PROTO) => false,
        // The thread is not there any more.
        Err(_) => true,
    }
}

/// Whether a thread of a process can run: not where the process has ended and waits for its parent.
pub fn is_living(proc_directory: Fd, pid: Pid) -> bool {
    const ENDED: [u8; 2] = [b'Z', b'X'];
    let threads = Text::<32>::new(format_args!("{pid}/task"))
        .and_then(|path| open_at(proc_directory, path.as_c_str(), open_flags::DIRECTORY, 0));
    let Ok(threads) = threads else { return false };
    let mut is_living = false;
    each_entry(threads, |thread| {
        let mut buffer = [0; STAT_BYTES];
        is_living |= match read_stat(threads, thread, &mut buffer) {
            Ok(stat) => !ENDED.contains(&stat.state()),
            Err(Errno::PROTO) => true,
            // The thread is not there any more.
            Err(_) => false,
        };
    });
    close(threads);
    is_living
}

/// How long a process may take to stop, in milliseconds. It does so when its calls are over; on a busy machine it waits for a processor first.
const STOP_TIMEOUT_MS: u64 = 20_000;

/// Returns when every thread of a session was seen outside of a call that looks up a path. A thread that sleeps and can be
/// woken by a signal is in none; a process that runs is stopped for a moment.
pub fn let_calls_end(
    reach: Reach,
    proc_directory: Fd,
    is_foreign: impl Fn(Pid) -> bool,
) -> Result<()> {
    let mut outcome = Ok(());
    each_process(reach, proc_directory, |pid| {
        if outcome.is_ok() && is_busy(proc_directory, pid) && !is_foreign(pid) {
            let _ = kill(pid, signals::STOP);
            outcome = wait_until_still(proc_directory, pid);
            let _ = kill(pid, signals::CONT);
        }
    });
    outcome
}

fn wait_until_still(proc_directory: Fd, pid: Pid) -> Result<()> {
    let start = sys::monotonic_milliseconds();
    while is_busy(proc_directory, pid) {
        if sys::monotonic_milliseconds() - start > STOP_TIMEOUT_MS {
            return Err(Errno::AGAIN);
        }
        poll(&mut [], 1);
    }
    Ok(())
}

/// Whether a thread of a process runs, or sleeps in a call that looks up a path, where no signal wakes it.
fn is_busy(proc_directory: Fd, pid: Pid) -> bool {
    let threads = Text::<32>::new(format_args!("{pid}/task"))
        .and_then(|path| open_at(proc_directory, path.as_c_str(), open_flags::DIRECTORY, 0));
    // It has ended.
    let Ok(threads) = threads else { return false };
    let mut busy = false;
    each_entry(threads, |thread| {
        let mut buffer = [0; STAT_BYTES];
        let state = read_stat(threads, thread, &mut buffer).map(|stat| stat.state());
        busy |= match state {
            Ok(RUNNING) => true,
            Ok(WAITS_FOR_DEVICE) => is_in_call_with_path(threads, thread),
            _ => false,
        };
    });
    close(threads);
    busy
}

/// Whether a thread runs or waits for a processor. `threads` is a directory of `/proc` with an entry for it.
pub fn is_runnable(threads: Fd, thread: Pid) -> bool {
    let mut buffer = [0; STAT_BYTES];
    read_stat(threads, thread, &mut buffer).is_ok_and(|stat| stat.state() == RUNNING)
}

/// Whether a thread can be in a system call that it was let go on with: it runs, waits for a processor, or waits where no signal wakes it.
pub fn may_be_in_call(threads: Fd, thread: Pid) -> bool {
    let mut buffer = [0; STAT_BYTES];
    match read_stat(threads, thread, &mut buffer) {
        Ok(stat) => matches!(stat.state(), RUNNING | WAITS_FOR_DEVICE),
        Err(Errno::PROTO) => true,
        // The thread is not there any more.
        Err(_) => false,
    }
}

fn is_in_call_with_path(threads: Fd, thread: Pid) -> bool {
    let mut buffer = [0; 512];
    Text::<48>::new(format_args!("{thread}/syscall"))
        .and_then(|path| sys::read_file_at(threads, path.as_c_str(), &mut buffer))
        .is_ok_and(may_look_up_a_path)
}

/// The text begins with the number of the call, or is a word. A process that waits for init while it is copied into a fork is in another call.
fn may_look_up_a_path(call: &[u8]) -> bool {
    leading_number(call).is_none_or(|number| ChangeHandler::is_about(number as usize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::nr;

    #[test]
    fn a_thread_that_waits_in_another_call_is_not_on_the_way_to_a_file() {
        let calls = [
            std::format!("{} 0xffffff9c 0x7f", nr::OPENAT),
            std::format!("{} 0x4100 0x7f", nr::CLONE),
            "running".into(),
        ];
        assert_eq!(
            calls.map(|call| may_look_up_a_path(call.as_bytes())),
            [true, false, true]
        );
    }
}
