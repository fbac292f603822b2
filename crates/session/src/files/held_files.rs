//! Files that the processes of a session can still change without being noticed, as `/proc` shows them to the host.
//!
//! A write through a shared map raises no event, and after the first one no time of the file changes. So files that are mapped are compared
//! with their copies. And what a process or a thread writes that a cell left running is not the work of the next cell.

use cellblock_sandbox::{ProcEntry, SessionProcesses, SharedMapping};
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::PathBuf;

/// Signals whose handlers run code of the guest alone: interrupts, the question where a cell is (40), and errors of the processor, which the
/// code itself causes. Bit 0 is signal 1.
const EXPECTED_HANDLERS: u64 =
    bit(2) | bit(4) | bit(5) | bit(6) | bit(7) | bit(8) | bit(11) | bit(23) | bit(40);

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
    /// Bytes of shared memory without a name that the head has mapped.
    pub(crate) nameless_memory: u64,
}

impl HeldFiles {
    pub(crate) fn is_empty(&self) -> bool {
        self.mapped.is_empty() && self.open.is_empty() && self.unknown.is_empty()
    }
}

/// Files that processes of a session hold, by their inodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeldInodes {
    pub(crate) mapped: HashSet<u64>,
    pub(crate) open: HashSet<u64>,
    pub(crate) unknown: Vec<u32>,
    pub(crate) nameless_memory: u64,
}

/// The processes of a session as they were last seen, by their ids on the host.
#[derive(Debug, Default)]
pub(crate) struct SeenProcesses {
    init: Option<Init>,
    known: HashMap<u32, Process>,
}

/// The init of a session.
#[derive(Clone, Copy, Debug)]
struct Init {
    pid: u32,
    /// The number of process namespaces that see the session.
    depth: usize,
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
        let is_other = |(pid, process): (&u32, &Process)| {
            *process == Process::Other && ProcEntry::of(*pid).is_running()
        };
        if self.known.iter().any(is_other) {
            return true;
        }
        match self.head(own) {
            Some(head) => {
                let is_child = |pid: u32| {
                    namespace_depth(pid) <= init.depth && ProcEntry::of(pid).is_running()
                };
                let head = ProcEntry::of(head);
                !head.has_one_thread()
                    || has_handlers(head)
                    || head.children().into_iter().any(is_child)
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
        let head = self.head(own);
        let others = self
            .known
            .iter()
            .filter(|(_, process)| **process == Process::Other);
        let others = others.map(|(pid, _)| *pid).chain(head);
        let all = others.chain(self.spawned(spawner)).collect();
        held.look_below(all, device, init.depth);
        let memory = |pid| ProcEntry::of(pid).mappings(pid).ok();
        held.nameless_memory = head
            .and_then(memory)
            .map_or(0, |found| found.nameless_memory);
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
            held.look_below(self.spawned(spawner), device, init.depth);
        }
        held
    }

    /// The spawned processes: the children of the supervisors, which are the children of the spawner.
    fn spawned(&self, spawner: Option<u32>) -> Vec<u32> {
        let mut known = self.known.iter();
        let spawner = spawner.and_then(|id| known.find(|(_, found)| **found == Process::Own(id)));
        let supervisors = spawner.map_or_else(Vec::new, |(pid, _)| ProcEntry::of(*pid).children());
        let below = supervisors
            .into_iter()
            .flat_map(|pid| ProcEntry::of(pid).children());
        below.collect()
    }

    fn find_init(&mut self, session: Option<SessionProcesses>) -> Option<Init> {
        if self.init.is_none() {
            let pid = session?.init();
            let depth = namespace_depth(pid);
            self.init = (depth > 0).then_some(Init { pid, depth });
        }
        self.init
    }

    /// Looks at the children of init: the head, the standbys, and processes whose parents have ended.
    fn update(&mut self, init: Init, own: &[u32]) {
        let children = ProcEntry::of(init.pid).children();
        self.known.retain(|pid, _| children.contains(pid));
        for pid in children {
            let is_certain = matches!(self.known.get(&pid), Some(Process::Own(_) | Process::Fork));
            if is_certain {
                continue;
            }
            let process = match ProcEntry::of(pid).namespace_ids()[..] {
                ref ids if ids.len() > init.depth => Process::Fork,
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
            let process = ProcEntry::of(pid);
            let looked_at = self.look_into(process, device);
            if looked_at.is_err() && process.is_running() {
                let inside = process.namespace_ids().last().copied();
                self.unknown.push(inside.unwrap_or(0));
            }
            // Those of forks are deeper in namespaces, and not of this session.
            let children = process.children().into_iter();
            open.extend(children.filter(|pid| namespace_depth(*pid) <= depth));
        }
    }

    fn look_into(&mut self, process: ProcEntry, device: u64) -> io::Result<()> {
        let mut has_maps = false;
        // Of a process whose first thread has ended, only the others tell. Each may have descriptors of its own.
        for thread in process.threads() {
            let open = process.open_files(thread)?.into_iter();
            let writable = open.filter(|file| file.device == device && file.is_writable);
            self.open.extend(writable.map(|file| file.inode));
            if has_maps {
                continue;
            }
            let mappings = process.mappings(thread)?;
            has_maps = !mappings.is_empty;
            for SharedMapping { inode, is_writable } in mappings.shared {
                match is_writable {
                    true => self.mapped.insert(inode),
                    false => self.open.insert(inode),
                };
            }
        }
        Ok(())
    }
}

/// The number of process namespaces that see a process. Those of a fork are seen by one more than those of its parent.
fn namespace_depth(pid: u32) -> usize {
    ProcEntry::of(pid).namespace_ids().len()
}

/// Whether code of the user's runs in a process when a signal comes.
fn has_handlers(process: ProcEntry) -> bool {
    // The C library has 32 and 33 for itself.
    let expected = EXPECTED_HANDLERS | bit(32) | bit(33);
    let caught = process.status().signals("SigCgt");
    caught.is_none_or(|caught| caught & !expected != 0)
}
