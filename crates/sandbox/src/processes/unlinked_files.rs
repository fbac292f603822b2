//! Disk space that a session's processes hold and no walk through its workspace finds, and how much they have written.
//!
//! A file without a name lives on while something refers to it: an open descriptor, a mapping, a program that runs, or a message that waits in
//! a socket. The first three are found here. Of the last the kernel tells how many descriptors wait, not what they are.

use crate::SessionProcesses;
use crate::processes::proc_entry::{ProcEntry, maps};
use crate::processes::side_by_side::side_by_side;
use rustix::fs::makedev;
use std::collections::{HashMap, HashSet};
use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

/// The files without a name that a session's processes hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnlinkedFiles {
    /// The files without a name that are open, mapped or executed, by their inode: what each takes on disk, as far as that can be told.
    pub unlinked: HashMap<u64, Size>,
    /// How many descriptors wait in sockets that a process of the session has open. Each may be a file, or a socket in which others wait.
    pub in_flight: u64,
}

/// The space that a file without a name takes on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// So many bytes.
    Exactly(u64),
    /// At least so many: a part of it is mapped, and only root is told the size of what is mapped.
    AtLeast(u64),
}

impl Size {
    /// The bytes that are known of.
    pub fn known(self) -> u64 {
        match self {
            Size::Exactly(bytes) | Size::AtLeast(bytes) => bytes,
        }
    }
}

/// A process, and what it has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The process's id on the host and its start time: no other process has both.
    pub process: (u32, u64),
    /// The process's id in the session.
    pub inside: u32,
    /// Bytes that it, its ended threads, and children that it waited for wrote to files on disk; `None` where the kernel does not tell.
    pub bytes: Option<u64>,
}

impl SessionProcesses {
    /// The files without a name that the session's processes hold on the file systems `devices` (as `stat` numbers them). Descriptors that wait in one of the sockets `own`, given by
    /// their inodes, do not count: the host has put them there. Processes know the workspace as `workspace`.
    ///
    /// If `is_enough` says so of the bytes of open files, mapped files are not looked for: that takes most of the time, in which more is written.
    pub fn unlinked_files(
        self,
        devices: &[u64],
        workspace: &Path,
        own: &[u64],
        is_enough: impl Fn(u64) -> bool,
    ) -> UnlinkedFiles {
        let mut unlinked_files = UnlinkedFiles::default();
        let mut sockets = HashMap::new();
        // Init has what the zygote had mapped, and nothing of the session's: a library that was replaced on disk meanwhile.
        let of_init = deleted_mappings(&self.init().to_string(), devices, workspace);
        let of_init: HashSet<u64> = of_init.iter().map(|mapping| mapping.inode).collect();
        let ids: Vec<u32> = self.ids().collect();
        let open = side_by_side(&ids, |pid| UnlinkedFiles::open_in(*pid, devices));
        for (pid, (files, of_process)) in ids.iter().zip(open) {
            unlinked_files.unlinked.extend(files.unlinked);
            // Init's own lead to the host and to forks, and no code can send to them.
            if *pid != self.init() {
                sockets.extend(of_process);
            }
        }
        unlinked_files.forget(&of_init);
        if !is_enough(unlinked_files.bytes()) {
            for pid in self.ids() {
                unlinked_files.add_mapped(pid, devices, workspace);
            }
            unlinked_files.forget(&of_init);
        }
        sockets.retain(|inode, _| !own.contains(inode));
        unlinked_files.in_flight = sockets.into_values().sum();
        unlinked_files
    }

    /// The bytes that each of the session's processes has written.
    pub fn written(self) -> Vec<Written> {
        let of = |pid: u32| {
            let bytes = bytes_written(pid);
            // None where it has ended meanwhile.
            let inside = ProcEntry::of(pid).namespace_ids().last().copied()?;
            Some(Written {
                process: (
                    pid,
                    ProcEntry::of(pid).stat().map_or(0, |stat| stat.started),
                ),
                inside,
                bytes,
            })
        };
        self.ids().filter_map(of).collect()
    }
}

/// How many descriptors wait in a socket that this process itself has open.
pub fn descriptors_waiting_in(socket: i32) -> u64 {
    waiting_in(&format!("/proc/self/fdinfo/{socket}")).map_or(0, |(_, count)| count)
}

impl UnlinkedFiles {
    /// Whether there is something whose size cannot be told.
    pub fn has_unknown(&self) -> bool {
        let is_unknown = |size: &Size| matches!(size, Size::AtLeast(_));
        self.in_flight > 0 || self.unlinked.values().any(is_unknown)
    }

    /// Bytes of files without a name, as far as that can be told.
    fn bytes(&self) -> u64 {
        self.unlinked.values().map(|size| size.known()).sum()
    }

    fn forget(&mut self, inodes: &HashSet<u64>) {
        self.unlinked.retain(|inode, _| !inodes.contains(inode));
    }

    /// The files without a name that a process has open, and how many descriptors wait in each of its sockets.
    fn open_in(pid: u32, devices: &[u64]) -> (UnlinkedFiles, HashMap<u64, u64>) {
        let (mut files, mut sockets) = (UnlinkedFiles::default(), HashMap::new());
        for task in tables_of(pid) {
            files.add_open(&task, devices, &mut sockets);
        }
        (files, sockets)
    }

    fn add_open(&mut self, task: &str, devices: &[u64], sockets: &mut HashMap<u64, u64>) {
        let open = fs::read_dir(format!("/proc/{task}/fd"));
        for entry in open.into_iter().flatten().flatten() {
            // The link leads to the open file itself, whatever became of its name.
            let Ok(file) = fs::metadata(entry.path()) else {
                continue;
            };
            if file.file_type().is_socket() {
                let number = entry.file_name();
                let path = format!("/proc/{task}/fdinfo/{}", number.to_string_lossy());
                sockets.extend(waiting_in(&path));
            } else {
                self.add_file(&file, devices);
            }
        }
        if let Ok(program) = fs::metadata(format!("/proc/{task}/exe")) {
            self.add_file(&program, devices);
        }
    }

    fn add_file(&mut self, file: &Metadata, devices: &[u64]) {
        // A directory that was removed is empty, but may have been large.
        if file.nlink() == 0 && devices.contains(&file.dev()) {
            let bytes = file.len().max(file.blocks() * 512);
            self.unlinked.insert(file.ino(), Size::Exactly(bytes));
        }
    }

    fn add_mapped(&mut self, pid: u32, devices: &[u64], workspace: &Path) {
        // The memory of a process is that of all its threads, but not to be seen through one that has ended.
        let tasks = tasks_of(pid).into_iter();
        let mut mappings = tasks.map(|task| (deleted_mappings(&task, devices, workspace), task));
        let Some((mappings, task)) = mappings.find(|(found, _)| !found.is_empty()) else {
            return;
        };
        for Mapping {
            range,
            inode,
            reach,
        } in mappings
        {
            match fs::metadata(format!("/proc/{task}/map_files/{range}")) {
                Ok(file) => {
                    let bytes = file.len().max(file.blocks() * 512);
                    self.unlinked.insert(inode, Size::Exactly(bytes));
                }
                Err(_) => {
                    let size = self.unlinked.entry(inode).or_insert(Size::AtLeast(reach));
                    if let Size::AtLeast(bytes) = size {
                        *bytes = reach.max(*bytes);
                    }
                }
            }
        }
    }
}

/// The tasks of a process, its first thread first: `PID/task/TID`.
fn tasks_of(pid: u32) -> Vec<String> {
    let list = fs::read_dir(format!("/proc/{pid}/task"));
    let names = list.into_iter().flatten().flatten();
    let mut ids: Vec<u32> = names
        .filter_map(|name| name.file_name().to_str()?.parse().ok())
        .collect();
    ids.sort_unstable_by_key(|id| (*id != pid, *id));
    let path = |id: u32| format!("{pid}/task/{id}");
    ids.into_iter().map(path).collect()
}

/// One task for each table of open files that a process has: threads may have tables of their own, and that of the first thread is gone
/// when it has ended.
fn tables_of(pid: u32) -> Vec<String> {
    let mut tasks = tasks_of(pid);
    if let Some(first) = tasks.first().and_then(|task| task_id(task)) {
        let is_first = |task: &String| task_id(task) == Some(first);
        tasks.retain(|task| {
            is_first(task) || !task_id(task).is_some_and(|id| shares_table(first, id))
        });
    }
    tasks
}

fn task_id(task: &str) -> Option<u32> {
    task.rsplit('/').next()?.parse().ok()
}

fn shares_table(one: u32, other: u32) -> bool {
    use cellblock_native::sys::{nr, syscall};
    const KCMP_FILES: usize = 2;
    let (one, other) = (one as usize, other as usize);
    // SAFETY: the call takes numbers only.
    let compared = unsafe { syscall(nr::KCMP, [one, other, KCMP_FILES, 0, 0]) };
    compared == Ok(0)
}

/// The inode of a socket and how many descriptors wait in it, by its file in `fdinfo`. For one that listens, those sent to connections that
/// were not accepted.
fn waiting_in(path: &str) -> Option<(u64, u64)> {
    let text = fs::read_to_string(path).ok()?;
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    };
    let waiting = number("scm_fds:").filter(|count| *count > 0)?;
    Some((number("ino:").unwrap_or(0), waiting))
}

fn bytes_written(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes:"))?;
    line.trim().parse().ok()
}

/// A mapping of a file that has no name.
#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    range: String,
    inode: u64,
    /// How far it reaches into the file.
    reach: u64,
}

fn deleted_mappings(task: &str, devices: &[u64], workspace: &Path) -> Vec<Mapping> {
    let lines = maps(task).into_iter().flatten().map_while(Result::ok);
    lines
        .filter_map(|line| deleted_mapping(&line, devices, workspace))
        .collect()
}

/// The mapping in a line of `maps`, if its file has no name and is on one of these devices, or in a session's workspace: some file systems tell another
/// device here than elsewhere.
fn deleted_mapping(line: &str, devices: &[u64], workspace: &Path) -> Option<Mapping> {
    let line = line.strip_suffix(" (deleted)")?;
    let mut words = line.split_whitespace();
    let range = words.next()?;
    let (start, end) = range.split_once('-')?;
    let hexadecimal = |word: &str| u64::from_str_radix(word, 16).ok();
    let offset = hexadecimal(words.nth(1)?)?;
    let (major, minor) = words.next()?.split_once(':')?;
    let inode = words.next()?.parse().ok()?;
    let on = makedev(hexadecimal(major)? as u32, hexadecimal(minor)? as u32);
    let is_in_workspace = words
        .next()
        .is_some_and(|path| Path::new(path).starts_with(workspace));
    (devices.contains(&on) || is_in_workspace).then_some(Mapping {
        range: range.to_owned(),
        inode,
        reach: offset + hexadecimal(end)? - hexadecimal(start)?,
    })
}

#[cfg(test)]
#[path = "unlinked_files_tests.rs"]
mod tests;
