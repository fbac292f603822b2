//! Whether processes are at rest: stopped, or being taken apart by the kernel, which takes milliseconds for their memory.

use crate::init::sweep::each_entry;
use crate::sys::text::{Text, leading_number};
use crate::sys::{self, Fd, Pid, close, open_at, open_flags};

/// Whether every thread of a process is stopped, on its way out, or gone. None of them is in a system call, and none will run unless
/// somebody lets it.
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
    let Ok(path) = Text::<32>::new(format_args!("{thread}/stat")) else {
        return false;
    };
    let mut buffer = [0; 512];
    match sys::read_file_at(threads, path.as_c_str(), &mut buffer) {
        Ok(stat) => state_and_flags(stat)
            .is_some_and(|(state, flags)| state == STOPPED || flags & EXITING != 0),
        // It is not there any more.
        Err(_) => true,
    }
}

const STOPPED: u8 = b'T';
/// The kernel's mark on a thread that does not return to its code. It is set before the memory is given back.
const EXITING: u64 = 0x4;

/// The third field and the ninth. The second is the name in brackets, which may hold anything; the last bracket ends it.
fn state_and_flags(stat: &[u8]) -> Option<(u8, u64)> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let mut fields = stat[end + 1..]
        .split(|byte| *byte == b' ')
        .filter(|field| !field.is_empty());
    let state = fields.next()?.first()?;
    Some((*state, leading_number(fields.nth(5)?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_cannot_choose_its_state_by_its_name() {
        let stat = b"77 (a) T 1 1 1 0 -1 4 (b) R 42 7 7 0 -1 4194560 10 0";
        assert_eq!(state_and_flags(stat), Some((b'R', 4_194_560)));
        assert_eq!(state_and_flags(b"77 (a"), None);
    }
}
