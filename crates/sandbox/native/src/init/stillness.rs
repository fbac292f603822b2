//! Waits until calls that were let go on before have ended: what comes after them, init hears of.

use crate::files::change_handler::ChangeHandler;
use crate::init::sweep::{Reach, each_entry, each_process};
use crate::sys::text::{Text, leading_number};
use crate::sys::{self, Errno, Fd, Pid, Result, close, kill, open_at, open_flags, poll, signals};

/// How long a process may take to stop, in milliseconds. It does so when its calls are over; on a busy machine it waits for a processor first.
const STOP_TIMEOUT_MS: u64 = 20_000;

/// Returns when every thread of a session was seen outside of a call that looks up a path. Who sleeps and can be woken by a signal is in
/// none; who runs is stopped for a moment.
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

/// Whether a thread of a process runs, or sleeps in such a call where no signal wakes it.
fn is_busy(proc_directory: Fd, pid: Pid) -> bool {
    let threads = Text::<32>::new(format_args!("{pid}/task"))
        .and_then(|path| open_at(proc_directory, path.as_c_str(), open_flags::DIRECTORY, 0));
    // It has ended.
    let Ok(threads) = threads else { return false };
    let mut busy = false;
    each_entry(threads, |thread| {
        let mut buffer = [0; 512];
        busy |= match read(threads, thread, "stat", &mut buffer).map(state_in) {
            Ok(Some(b'R')) => true,
            Ok(Some(b'D')) => {
                read(threads, thread, "syscall", &mut buffer).is_ok_and(may_look_up_a_path)
            }
            _ => false,
        };
    });
    close(threads);
    busy
}

/// Whether a thread runs or waits for a processor. `threads` is a directory of `/proc` with an entry for it.
pub fn is_runnable(threads: Fd, thread: Pid) -> bool {
    let mut buffer = [0; 512];
    read(threads, thread, "stat", &mut buffer).map(state_in) == Ok(Some(b'R'))
}

fn read<'a>(threads: Fd, thread: Pid, file: &str, buffer: &'a mut [u8]) -> Result<&'a [u8]> {
    let path = Text::<48>::new(format_args!("{thread}/{file}"))?;
    sys::read_file_at(threads, path.as_c_str(), buffer)
}

/// The number of the call comes first, or a word. Who waits for init is in another one: who makes a copy of itself that waits for a fork.
fn may_look_up_a_path(call: &[u8]) -> bool {
    leading_number(call).is_none_or(|number| ChangeHandler::is_about(number as usize))
}

/// The third field. The second is the name in brackets, which may hold anything; the last bracket ends it.
fn state_in(stat: &[u8]) -> Option<u8> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    stat[end + 1..].iter().copied().find(|byte| *byte != b' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_cannot_choose_its_state_by_its_name() {
        assert_eq!(state_in(b"77 (a) S 1) R 42 7"), Some(b'R'));
        assert_eq!(state_in(b"77 (a"), None);
    }

    #[test]
    fn who_waits_in_another_call_is_not_on_the_way_to_a_file() {
        let calls = ["257 0xffffff9c 0x7f", "56 0x4100 0x7f", "running"];
        assert_eq!(
            calls.map(|call| may_look_up_a_path(call.as_bytes())),
            [true, false, true]
        );
    }
}
