//! What a process has used, as long as it lives.

use crate::sweep::each_entry;
use crate::sys::{Fd, Pid, close, each_line_at, open_at, open_flags, read_file_at};
use crate::text::{Text, leading_number};

/// What a process that still lives has used.
#[derive(Clone, Copy, Default)]
pub struct Used {
    /// Microseconds of CPU.
    pub cpu: u64,
    /// The most bytes it held.
    pub peak: u64,
}

impl Used {
    /// What `pid` has used so far.
    pub fn by(proc_directory: Fd, pid: Pid) -> Used {
        let mut used = Used::default();
        let threads = Text::<32>::new(format_args!("{pid}/task"))
            .and_then(|path| open_at(proc_directory, path.as_c_str(), open_flags::DIRECTORY, 0));
        if let Ok(threads) = threads {
            each_entry(threads, |thread| {
                let mut buffer = [0; 64];
                let nanoseconds = Text::<32>::new(format_args!("{thread}/schedstat"))
                    .and_then(|path| read_file_at(threads, path.as_c_str(), &mut buffer))
                    .ok()
                    .and_then(leading_number);
                used.cpu += nanoseconds.unwrap_or(0) / 1_000;
            });
            close(threads);
        }
        if let Ok(path) = Text::<32>::new(format_args!("{pid}/status")) {
            let _ = each_line_at(proc_directory, path.as_c_str(), |line| {
                if let Some(kibibytes) = line.strip_prefix(b"VmHWM:") {
                    used.peak = leading_number(kibibytes.trim_ascii_start()).unwrap_or(0) * 1024;
                }
            });
        }
        used
    }
}
