//! What the processes of a session can still do to its files without being noticed, as `/proc` tells it outside.
//!
//! A write through a shared map raises no event, and after the first one no time of the file changes. So files that are mapped are compared
//! with their copies. And what a process or a thread writes that a cell left running is not the work of the next cell.

use cellblock_sandbox::SessionProcesses;
use std::collections::{HashMap, HashSet};
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{fs, str};

/// Signals whose handlers run code of the guest alone: interrupts, and errors of the processor, which the code itself causes. Bit 0 is signal 1.
const EXPECTED_HANDLERS: u64 =
    bit(2) | bit(4) | bit(5) | bit(6) | bit(7) | bit(8) | bit(11) | bit(23);

const fn bit(signal: u64) -> u64 {
    1 << (signal - 1)
}

/// Files of a workspace that processes of a session hold, by their paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeldFiles {
    /// Mapped so that writes reach the file.
    pub(crate) mapped: Vec<PathBuf>,
    /// Open for writing, or mapped for reading: they can be mapped for writing at any time.
    pub(crate) open: Vec<PathBuf>,
    /// Processes that could not be looked into, by their ids in the session; 0 where that is not known. A standby that is being made is among
    /// them: it closes itself to others.
    pub(crate) unknown: Vec<u32>,
}

impl HeldFiles {
    pub(crate) fn is_empty(&self) -> bool {
        self.mapped.is_empty() && self.open.is_empty() && self.unknown.is_empty()
    }
}

/// The same by inodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeldInodes {
    pub(crate) mapped: HashSet<u64>,
    pub(crate) open: HashSet<u64>,
    pub(crate) unknown: Vec<u32>,
}

/// The processes of a session as they were last seen, by their ids on the host.
#[derive(Debug, Default)]
pub(crate) struct SeenProcesses {
    init: Option<u32>,
    known: HashMap<u32, Process>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Process {
    /// The head or a standby, with this id in the session.
    Own(u32),
    /// The init of a fork, which is a session of its own.
    Fork,
    Other,
}

impl SeenProcesses {
    /// Whether code of the session can run while no cell does: in another process, in a second thread of the head, or in a handler of a
    /// signal. `own` are the ids of the head and its standbys in the session, the head first.
    pub(crate) fn can_run_on(&mut self, session: Option<SessionProcesses>, own: &[u32]) -> bool {
        let Some(init) = self.find_init(session) else {
            return true;
        };
        self.update(init, own);
        let is_other =
            |(pid, process): (&u32, &Process)| *process == Process::Other && is_running(*pid);
        if self.known.iter().any(is_other) {
            return true;
        }
        match self.head(own) {
            Some(head) => {
                let depth = ids(init).len();
                let is_child = |pid: u32| ids(pid).len() <= depth && is_running(pid);
                threads(head).len() != 1
                    || has_handlers(head)
                    || children(head).into_iter().any(is_child)
            }
            None => true,
        }
    }

    /// The files on the file system `device` that processes hold, all but init and the standbys, which do nothing until they are woken.
    /// `spawner` is the id of the session's spawner in the session.
    pub(crate) fn held(
        &mut self,
        session: Option<SessionProcesses>,
        own: &[u32],
        spawner: Option<u32>,
        device: u64,
    ) -> HeldInodes {
        let mut held = HeldInodes::default();
        let Some(init) = self.find_init(session) else {
            held.unknown.push(0);
            return held;
        };
        self.update(init, own);
        let (head, depth) = (self.head(own), ids(init).len());
        let others = self
            .known
            .iter()
            .filter(|(_, process)| **process == Process::Other);
        let others = others.map(|(pid, _)| *pid).chain(head);
        held.look_below(others.chain(self.spawned(spawner)).collect(), device, depth);
        held
    }

    /// The files on the file system `device` that spawned processes hold, and what they started.
    pub(crate) fn held_by_spawned(
        &mut self,
        session: Option<SessionProcesses>,
        own: &[u32],
        spawner: Option<u32>,
        device: u64,
    ) -> HeldInodes {
        let mut held = HeldInodes::default();
        if let Some(init) = self.find_init(session) {
            self.update(init, own);
            held.look_below(self.spawned(spawner), device, ids(init).len());
        }
        held
    }

    /// The spawned processes: the children of the supervisors, which are the children of the spawner.
    fn spawned(&self, spawner: Option<u32>) -> Vec<u32> {
        let mut known = self.known.iter();
        let spawner = spawner.and_then(|id| known.find(|(_, found)| **found == Process::Own(id)));
        let supervisors = spawner.map_or_else(Vec::new, |(pid, _)| children(*pid));
        supervisors.into_iter().flat_map(children).collect()
    }

    fn find_init(&mut self, session: Option<SessionProcesses>) -> Option<u32> {
        if self.init.is_none() {
            // Init is the first of its session's processes.
            self.init = session?.written().first().map(|init| init.process.0);
        }
        self.init
    }

    /// Looks at the children of init: the head, the standbys, and processes whose parents have ended.
    fn update(&mut self, init: u32, own: &[u32]) {
        let children = children(init);
        self.known.retain(|pid, _| children.contains(pid));
        let depth = ids(init).len();
        for pid in children {
            let is_certain = matches!(self.known.get(&pid), Some(Process::Own(_) | Process::Fork));
            if is_certain {
                continue;
            }
            let process = match ids(pid)[..] {
                ref ids if ids.len() > depth => Process::Fork,
                [.., inside] if own.contains(&inside) => Process::Own(inside),
                _ => Process::Other,
            };
            self.known.insert(pid, process);
        }
    }

    fn head(&self, own: &[u32]) -> Option<u32> {
        let head = Process::Own(*own.first()?);
        let mut found = self.known.iter().filter(|(_, process)| **process == head);
        found.next().map(|(pid, _)| *pid)
    }
}

impl HeldInodes {
    /// Looks into these processes and all that are below them. `depth` is that of the session in process namespaces.
    fn look_below(&mut self, mut open: Vec<u32>, device: u64, depth: usize) {
        while let Some(pid) = open.pop() {
            let looked_at = self.look_into(pid, device);
            if looked_at.is_err() && is_running(pid) {
                self.unknown.push(ids(pid).last().copied().unwrap_or(0));
            }
            // Those of forks are deeper in namespaces, and not of this session.
            open.extend(
                children(pid)
                    .into_iter()
                    .filter(|pid| ids(*pid).len() <= depth),
            );
        }
    }

    fn look_into(&mut self, pid: u32, device: u64) -> io::Result<()> {
        let mut has_maps = false;
        // Of a process whose first thread has ended, only the others tell. Each may have descriptors of its own.
        for thread in threads(pid) {
            let thread = format!("/proc/{pid}/task/{thread}");
            self.add_open(&thread, device)?;
            has_maps = has_maps || self.add_mapped(&thread)?;
        }
        Ok(())
    }

    fn add_open(&mut self, thread: &str, device: u64) -> io::Result<()> {
        const READ_ONLY: u32 = 0;
        const ACCESS_MODE: u32 = 3;
        for entry in fs::read_dir(format!("{thread}/fd"))?.flatten() {
            let Ok(found) = fs::metadata(entry.path()) else {
                continue;
            };
            if !found.is_file() || found.dev() != device {
                continue;
            }
            let number = entry.file_name();
            let text = fs::read_to_string(Path::new(thread).join("fdinfo").join(number));
            let text = text.unwrap_or_default();
            let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
            let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
            if flags.is_none_or(|flags| flags & ACCESS_MODE != READ_ONLY) {
                self.open.insert(found.ino());
            }
        }
        Ok(())
    }

    /// Returns whether there was anything.
    fn add_mapped(&mut self, thread: &str) -> io::Result<bool> {
        let mut lines = BufReader::new(fs::File::open(format!("{thread}/maps"))?).split(b'\n');
        let mut is_empty = true;
        // A line at a time: with long names of files, all of them together take hundreds of megabytes.
        while let Some(line) = lines.next().transpose()? {
            is_empty = false;
            let mut words = line
                .split(|byte| *byte == b' ')
                .filter(|word| !word.is_empty());
            let access = words.nth(1).unwrap_or_default();
            let inode = words
                .nth(2)
                .and_then(|word| str::from_utf8(word).ok()?.parse().ok());
            let (b's', Some(inode @ 1..)) = (access.last().copied().unwrap_or(0), inode) else {
                continue;
            };
            if access.get(1) == Some(&b'w') {
                self.mapped.insert(inode);
            } else {
                self.open.insert(inode);
            }
        }
        Ok(!is_empty)
    }
}

/// The ids of a process, in each process namespace that sees it, the host's first.
fn ids(pid: u32) -> Vec<u32> {
    let text = status(pid);
    let ids = text.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let numbers = ids.unwrap_or_default().split_whitespace();
    numbers.filter_map(|number| number.parse().ok()).collect()
}

/// Whether code of its own runs when a signal comes.
fn has_handlers(pid: u32) -> bool {
    let text = status(pid);
    let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // The C library has 32 and 33 for itself.
    caught.is_none_or(|mask| mask & !(EXPECTED_HANDLERS | bit(32) | bit(33)) != 0)
}

/// Whether it can still do something: it has not ended.
fn is_running(pid: u32) -> bool {
    let is_over = |thread: &u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/task/{thread}/stat"));
        let text = text.unwrap_or_default();
        let state = text.rsplit_once(") ").map(|(_, rest)| rest.chars().next());
        matches!(state, None | Some(None | Some('Z' | 'X')))
    };
    !threads(pid).iter().all(is_over)
}

fn status(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/status")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn threads(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"));
    let entries = entries.into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// The children of all its threads.
fn children(pid: u32) -> Vec<u32> {
    let lists = threads(pid).into_iter().filter_map(|thread| {
        fs::read_to_string(format!("/proc/{pid}/task/{thread}/children")).ok()
    });
    let numbers = lists.flat_map(|list| {
        let numbers = list.split_whitespace().filter_map(|word| word.parse().ok());
        numbers.collect::<Vec<u32>>()
    });
    numbers.collect()
}
