//! The memory limit where there is no cgroup: `RLIMIT_DATA` bounds one process, this bounds all of them together.

use crate::sweep::{Reach, each_process};
use crate::sys::{Fd, read_file_at, used_on};
use crate::text::{Text, leading_number};

/// How often it looks, in milliseconds.
pub const PERIOD: i32 = 100;

/// Whether the session holds more than `limit` bytes.
///
/// Resident sizes are quick to read but count shared pages once per process; only when their sum is over the limit are the
/// exact, slower shares read.
pub fn is_over(limit: u64, reach: Reach, proc_directory: Fd) -> bool {
    let temporary = match reach {
        Reach::Namespace => temporary_files(),
        Reach::Descendants => 0,
    };
    let mut resident = temporary;
    each_process(reach, proc_directory, |pid| resident += resident_bytes(proc_directory, pid).unwrap_or(0));
    if resident <= limit {
        return false;
    }
    let mut exact = temporary;
    each_process(reach, proc_directory, |pid| {
        // A process that made itself unreadable counts in full.
        let share = proportional_bytes(proc_directory, pid).or_else(|| resident_bytes(proc_directory, pid));
        exact += share.unwrap_or(0);
    });
    exact > limit
}

fn temporary_files() -> u64 {
    [c"/tmp", c"/dev/shm"].into_iter().filter_map(|path| used_on(path).ok()).map(|(bytes, _)| bytes).sum()
}

fn resident_bytes(proc_directory: Fd, pid: i32) -> Option<u64> {
    let path = Text::<32>::new(format_args!("{pid}/statm")).ok()?;
    let mut buffer = [0u8; 128];
    let text = read_file_at(proc_directory, path.as_c_str(), &mut buffer).ok()?;
    let pages = leading_number(text.splitn(3, |byte| *byte == b' ').nth(1)?)?;
    Some(pages * 4096)
}

fn proportional_bytes(proc_directory: Fd, pid: i32) -> Option<u64> {
    let path = Text::<48>::new(format_args!("{pid}/smaps_rollup")).ok()?;
    let mut buffer = [0u8; 2048];
    let text = read_file_at(proc_directory, path.as_c_str(), &mut buffer).ok()?;
    let share = |name: &[u8]| {
        let line = text.split(|byte| *byte == b'\n').find(|line| line.starts_with(name))?;
        leading_number(line[name.len()..].trim_ascii_start()).map(|kilobytes| kilobytes * 1024)
    };
    Some(share(b"Pss_Anon:")? + share(b"Pss_Shmem:").unwrap_or(0))
}
