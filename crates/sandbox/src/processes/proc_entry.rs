//! One process as the files of `/proc/PID` describe it to the host. No other module of the host parses these files.

use cellblock_native::sys::ProcessStat;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;
use std::{fs, io};

/// The directory of a process in `/proc`, by the id that the process has on the host.
///
/// Nothing is held open, so the id can belong to another process by the next call. [`ProcStat::started`] tells two processes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcEntry {
    pid: u32,
}

/// The fields of `/proc/PID/stat` that the host needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcStat {
    /// The name of the program: whatever the process says, also brackets and spaces.
    pub name: String,
    /// The state of the process: a letter, as in `proc(5)`.
    pub state: char,
    /// The id of the parent process.
    pub parent: u32,
    /// The kernel's flags of the process.
    pub flags: u64,
    /// The time when the process was started, in ticks since the machine was started.
    pub started: u64,
    /// The processor time of the process and of children that it waited for.
    pub processor_time: Duration,
}

/// The text of `/proc/PID/status`.
#[derive(Clone, Debug)]
pub struct ProcStatus {
    text: String,
}

/// A file that a process has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFile {
    /// The file system, as `stat` numbers it.
    pub device: u64,
    /// The inode.
    pub inode: u64,
    /// Whether the descriptor can be written to. Also true where that is not known.
    pub is_writable: bool,
}

/// A file that a process maps so that writes reach the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedMapping {
    /// The inode, on whatever device: some file systems tell another device here than elsewhere.
    pub inode: u64,
    /// Whether the mapping can be written to now. It can be made writable if the file was opened for writing.
    pub is_writable: bool,
}

/// The mappings of a process or a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mappings {
    /// The files among them that are mapped shared.
    pub shared: Vec<SharedMapping>,
    /// Bytes of shared memory without a name that are mapped to be written: anonymous, or of a `memfd`.
    pub nameless_memory: u64,
    /// Whether there are none at all: the thread has ended.
    pub is_empty: bool,
}

impl ProcEntry {
    /// The entry of the process with this id on the host, whether it is there or not.
    pub fn of(pid: u32) -> ProcEntry {
        ProcEntry { pid }
    }

    /// The fields of `stat`; `None` when the process is not there.
    pub fn stat(self) -> Option<ProcStat> {
        ProcStat::parse(&self.read("stat").ok()?)
    }

    /// The fields of `status`; without any when the process is not there.
    pub fn status(self) -> ProcStatus {
        let bytes = self.read("status").unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        ProcStatus { text }
    }

    /// A small file of the process. Most of them are read for every cell, so no system call is made that is not needed.
    fn read(self, name: impl std::fmt::Display) -> io::Result<Vec<u8>> {
        const PAGE: usize = 4096;
        /// No record of these files is longer. The kernel fills a buffer as far as whole records fit.
        const LONGEST_RECORD: usize = 64;
        let mut file = fs::File::open(format!("/proc/{}/{name}", self.pid))?;
        let mut bytes = vec![0; PAGE];
        let size = file.read(&mut bytes)?;
        bytes.truncate(size);
        if size > PAGE - LONGEST_RECORD {
            file.read_to_end(&mut bytes)?;
        }
        Ok(bytes)
    }

    /// The ids of the process in each process namespace that sees it, the host's first. Empty when the process is not there.
    pub fn namespace_ids(self) -> Vec<u32> {
        let status = self.status();
        let numbers = status.field("NSpid").unwrap_or_default().split_whitespace();
        numbers.filter_map(|number| number.parse().ok()).collect()
    }

    /// The threads of the process.
    pub fn threads(self) -> Vec<u32> {
        if self.has_one_thread() {
            return vec![self.pid];
        }
        let entries = fs::read_dir(format!("/proc/{}/task", self.pid));
        let entries = entries.into_iter().flatten().flatten();
        entries
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect()
    }

    /// Whether the process has one thread, and no more. The directory of threads has a link for each, and two of its own.
    pub fn has_one_thread(self) -> bool {
        let directory = fs::metadata(format!("/proc/{}/task", self.pid));
        directory.is_ok_and(|directory| directory.nlink() == 3)
    }

    /// The children of all threads of the process.
    pub fn children(self) -> Vec<u32> {
        let mut children = Vec::new();
        for thread in self.threads() {
            let list = self.read(format_args!("task/{thread}/children"));
            let list = String::from_utf8(list.unwrap_or_default()).unwrap_or_default();
            let numbers = list.split_whitespace();
            children.extend(numbers.filter_map(|number| number.parse::<u32>().ok()));
        }
        children
    }

    /// Whether a thread of the process has not ended. A process whose parent did not wait for it yet does not run.
    pub fn is_running(self) -> bool {
        let runs = |thread: u32| {
            let text = self
                .read(format_args!("task/{thread}/stat"))
                .unwrap_or_default();
            ProcessStat::parse(&text).is_some_and(|stat| !matches!(stat.state(), b'Z' | b'X'))
        };
        self.threads().into_iter().any(runs)
    }

    /// The plain files that a thread of the process has open. Threads may have descriptors of their own.
    pub fn open_files(self, thread: u32) -> io::Result<Vec<OpenFile>> {
        const READ_ONLY: u32 = 0;
        const ACCESS_MODE: u32 = 3;
        let directory = format!("/proc/{}/task/{thread}", self.pid);
        let mut files = Vec::new();
        for entry in fs::read_dir(format!("{directory}/fd"))?.flatten() {
            let Ok(found) = fs::metadata(entry.path()) else {
                continue;
            };
            if !found.is_file() {
                continue;
            }
            let number = entry.file_name();
            let details = format!("{directory}/fdinfo/{}", number.to_string_lossy());
            let text = fs::read_to_string(details).unwrap_or_default();
            let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
            let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
            files.push(OpenFile {
                device: found.dev(),
                inode: found.ino(),
                is_writable: flags.is_none_or(|flags| flags & ACCESS_MODE != READ_ONLY),
            });
        }
        Ok(files)
    }

    /// The mappings that a thread of the process shows. All threads have the same, but one that has ended shows none.
    pub fn mappings(self, thread: u32) -> io::Result<Mappings> {
        let mut mappings = Mappings {
            is_empty: true,
            ..Mappings::default()
        };
        for line in maps(format_args!("{}/task/{thread}", self.pid))? {
            let line = line?;
            mappings.is_empty = false;
            mappings.nameless_memory += nameless_memory(&line).unwrap_or(0);
            mappings.shared.extend(SharedMapping::parse(&line));
        }
        Ok(mappings)
    }
}

impl ProcStat {
    fn parse(text: &[u8]) -> Option<ProcStat> {
        /// The kernel counts in ticks of this length for every reader.
        const TICK: Duration = Duration::from_millis(10);
        let stat = ProcessStat::parse(text)?;
        let start = text.iter().position(|byte| *byte == b'(')? + 1;
        let end = text.iter().rposition(|byte| *byte == b')')?;
        let ticks = u32::try_from(stat.cpu_ticks()).unwrap_or(u32::MAX);
        Some(ProcStat {
            name: String::from_utf8_lossy(text.get(start..end)?).into_owned(),
            state: char::from(stat.state()),
            parent: u32::try_from(stat.parent()?).ok()?,
            flags: stat.flags()?,
            started: stat.started()?,
            processor_time: TICK * ticks,
        })
    }
}

impl ProcStatus {
    /// The value of a field, such as `NSpid`.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.text.lines();
        lines.find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
    }

    /// The value of a field that is a set of signals, such as `SigCgt`: bit 0 is signal 1.
    pub fn signals(&self, name: &str) -> Option<u64> {
        u64::from_str_radix(self.field(name)?, 16).ok()
    }
}

impl SharedMapping {
    /// Reads a line of `maps`; `None` for a private mapping and for memory without a file.
    fn parse(line: &str) -> Option<SharedMapping> {
        let mut words = line.split_whitespace();
        let access = words.nth(1)?;
        let inode = words.nth(2)?.parse().ok()?;
        let is_writable = access.as_bytes().get(1) == Some(&b'w');
        (access.ends_with('s') && inode != 0).then_some(SharedMapping { inode, is_writable })
    }
}

/// The size of the mapping in a line of `maps`, if it is shared memory without a name that can be written.
fn nameless_memory(line: &str) -> Option<u64> {
    const NAMES: [&str; 3] = ["/dev/zero (deleted)", "/memfd:", "/SYSV"];
    let (addresses, rest) = line.split_once(' ')?;
    let (start, end) = addresses.split_once('-')?;
    let path = rest.find('/').map(|at| rest.split_at(at).1)?;
    let is_found = rest.starts_with("rw") && rest.chars().nth(3) == Some('s');
    let bytes = u64::from_str_radix(end, 16).ok()? - u64::from_str_radix(start, 16).ok()?;
    (is_found && NAMES.iter().any(|name| path.starts_with(name))).then_some(bytes)
}

/// The lines of `maps`, one at a time: with long names of files, all of them together take hundreds of megabytes. `process` is a process id, or
/// `PID/task/TID`.
pub(crate) fn maps(
    process: impl std::fmt::Display,
) -> io::Result<impl Iterator<Item = io::Result<String>>> {
    let file = BufReader::new(fs::File::open(format!("/proc/{process}/maps"))?);
    let lines = file.split(b'\n');
    Ok(lines.map(|line| Ok(String::from_utf8_lossy(&line?).into_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn shared_memory_without_a_name_is_told_from_files() {
        let size = |text: &str| nameless_memory(&format!("7f0000000000-7f0000003000 {text}"));
        assert_eq!(
            size("rw-s 00000000 00:01 7    /dev/zero (deleted)"),
            Some(0x3000)
        );
        assert_eq!(
            size("rw-s 00000000 00:01 7    /memfd:a (deleted)"),
            Some(0x3000)
        );
        for other in [
            "rw-p 00000000 00:01 7    /memfd:a (deleted)",
            "r--s 00000000 00:01 7    /memfd:a (deleted)",
            "rw-s 00000000 fd:01 7    /workspace/x",
            "rw-p 00000000 00:00 0",
        ] {
            assert_eq!(size(other), None, "{other}");
        }
    }

    #[test]
    fn a_shared_mapping_of_a_file_is_told_from_the_others() {
        let line =
            "7f0000000000-7f0000003000 rw-s 00001000 fd:01 4711                       /workspace/x";
        let mapping = |line: &str| SharedMapping::parse(line).map(|found| found.is_writable);
        let inode = SharedMapping::parse(line).map(|found| found.inode);
        assert_eq!(inode, Some(4711));
        assert_eq!(mapping(line), Some(true));
        assert_eq!(mapping(&line.replace("rw-s", "r--s")), Some(false));
        assert_eq!(mapping(&line.replace("rw-s", "rw-p")), None);
        assert_eq!(mapping(&line.replace("4711", "0")), None);
    }

    #[test]
    fn a_process_cannot_choose_its_fields_by_its_name() {
        let text = b"77 (a) S 1 2 3) R 42 77 77 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 678 9";
        let expected = ProcStat {
            name: "a) S 1 2 3".to_owned(),
            state: 'R',
            parent: 42,
            flags: 4_194_560,
            started: 12345,
            processor_time: Duration::from_millis(260),
        };
        assert_eq!(ProcStat::parse(text), Some(expected));
    }

    #[test]
    fn threads_and_children_are_found_without_listing_where_there_is_one_thread() {
        let mut child = Command::new("/bin/sleep").arg("60").spawn().unwrap();
        let (own, other) = (ProcEntry::of(std::process::id()), ProcEntry::of(child.id()));
        let listed = std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    assert!(!own.has_one_thread());
                    own.threads().len()
                })
                .join()
        });
        assert!(listed.unwrap() > 1);
        assert!(own.children().contains(&child.id()));
        assert!(other.has_one_thread());
        assert_eq!(other.threads(), [child.id()]);
        assert_eq!(other.children(), [] as [u32; 0]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!other.has_one_thread());
        assert_eq!(other.threads(), [] as [u32; 0]);
    }

    #[test]
    fn this_process_runs_and_knows_its_own_id() {
        let own = ProcEntry::of(std::process::id());
        assert!(own.is_running());
        assert_eq!(own.namespace_ids().last(), Some(&std::process::id()));
        assert!(own.status().signals("SigCgt").is_some());
        assert!(!ProcEntry::of(u32::MAX).is_running());
    }
}
