//! cgroups, version 1 or 2, where the host may write them: the hard wall for memory and processes.
//!
//! Six files of text, so they are written by hand. Each runtime has one directory per controller, named after its process and
//! numbered, and one below it per session. A host that was killed cannot clean up; the next one does.

mod directories;

use crate::Error;
use crate::processes::delegated::{delegated_base, enables, try_to_enable_cpu};
use directories::{
    LimitFiles, holds_no_memory, own_directories, own_name, own_unified_directory, remove,
    remove_orphans,
};
use rustix::fd::OwnedFd;
use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The file of version 1 with the limit of memory in TCP and UDP sockets.
const SOCKETS_V1: &str = "memory.kmem.tcp.limit_in_bytes";

/// The controllers that this host may use. A handle: clones are the same, and the directories go with the last.
#[derive(Clone, Debug)]
pub struct Cgroups {
    hierarchies: Arc<[Hierarchy]>,
}

/// A tree of cgroups with a directory of our own in it. Dropping it removes the directory.
#[derive(Debug)]
struct Hierarchy {
    own: PathBuf,
    files: LimitFiles,
}

/// The limits of one session.
#[derive(Clone, Copy, Debug)]
pub struct CgroupLimits {
    /// Bytes of memory.
    pub memory: u64,
    /// Processes and threads.
    pub processes: u64,
    /// Processors at a time; `None` for as many as there are.
    pub cpus: Option<f64>,
}

/// The cgroup of one session. Dropping it removes its directories.
#[derive(Debug)]
pub struct Cgroup {
    directories: Vec<(PathBuf, LimitFiles)>,
    events: Option<fs::File>,
    /// The file with the memory in use, from its first use on.
    usage: OnceLock<Option<fs::File>>,
    limits: CgroupLimits,
    /// Bytes that are charged here and held by a fork of the session.
    allowed_for_forks: AtomicU64,
}

/// Memory of a session that a fork of it holds as well. The kernel charges the session with it as long as the fork has it, even
/// when the session itself has written something else in its place; so the session may have that much more, until this is dropped.
#[derive(Debug)]
pub struct MemoryAllowance {
    cgroup: Arc<Cgroup>,
    bytes: u64,
}

impl Cgroups {
    /// Finds what can be written, and removes what dead hosts left behind. `None` where nothing can, as for most ordinary
    /// users: then `rlimits` and a watchdog hold the limits.
    pub fn detect() -> Option<Cgroups> {
        static RUNTIMES: AtomicU32 = AtomicU32::new(0);
        let name = own_name(RUNTIMES.fetch_add(1, Ordering::Relaxed));
        let claim = |(base, files): (PathBuf, LimitFiles)| Hierarchy::claim(&base, &name, files);
        let delegated = |(base, files): (PathBuf, LimitFiles)| match files {
            LimitFiles::Unified if holds_no_memory(&base) => None,
            LimitFiles::Unified => Some((delegated_base(own_unified_directory)?, files)),
            LimitFiles::MemoryV1 | LimitFiles::PidsV1 | LimitFiles::CpuV1 => Some((base, files)),
        };
        let hierarchies: Arc<[Hierarchy]> = own_directories()
            .into_iter()
            .filter_map(delegated)
            .filter_map(claim)
            .collect();
        let holds_memory = hierarchies
            .iter()
            .any(|hierarchy| matches!(hierarchy.files, LimitFiles::MemoryV1 | LimitFiles::Unified));
        holds_memory.then_some(Cgroups { hierarchies })
    }

    /// Whether a session can be limited to a number of processors.
    pub fn can_limit_cpus(&self) -> bool {
        self.hierarchies
            .iter()
            .any(|hierarchy| match hierarchy.files {
                LimitFiles::CpuV1 => true,
                LimitFiles::Unified => enables(&hierarchy.own, &["cpu"]),
                LimitFiles::MemoryV1 | LimitFiles::PidsV1 => false,
            })
    }

    /// A cgroup for one session.
    pub fn create(&self, session: &str, limits: CgroupLimits) -> Result<Cgroup, Error> {
        let mut cgroup = Cgroup {
            directories: Vec::new(),
            events: None,
            usage: OnceLock::new(),
            limits,
            allowed_for_forks: AtomicU64::new(0),
        };
        // To enter one more cgroup takes time: only sessions with a limit of processors do.
        let is_needed =
            |hierarchy: &&Hierarchy| hierarchy.files != LimitFiles::CpuV1 || limits.cpus.is_some();
        for hierarchy in self.hierarchies.iter().filter(is_needed) {
            let path = hierarchy.own.join(session);
            fs::create_dir(&path).map_err(|error| Error::system("making a cgroup", error))?;
            cgroup.directories.push((path, hierarchy.files));
        }
        cgroup.apply(limits.memory)?;
        cgroup.apply_cpus()?;
        cgroup.events = cgroup.open("memory.oom_control", "memory.events");
        Ok(cgroup)
    }

    /// The name of the mechanism, for a person.
    pub fn describe(&self) -> &'static str {
        if self
            .hierarchies
            .iter()
            .any(|hierarchy| hierarchy.files == LimitFiles::Unified)
        {
            "cgroup v2"
        } else {
            "cgroup v1"
        }
    }
}

impl Drop for Hierarchy {
    fn drop(&mut self) {
        remove(&self.own);
    }
}

impl Hierarchy {
    fn claim(base: &Path, name: &str, files: LimitFiles) -> Option<Hierarchy> {
        remove_orphans(base);
        let own = base.join(name);
        fs::create_dir(&own).ok()?;
        if files == LimitFiles::Unified
            && fs::write(own.join("cgroup.subtree_control"), "+memory +pids").is_err()
        {
            let _ = fs::remove_dir(&own);
            return None;
        }
        if files == LimitFiles::Unified {
            try_to_enable_cpu(&own);
        }
        if files == LimitFiles::MemoryV1 {
            // The kernel begins to count with the first limit, which takes it a while; so this is done once, and not for each session.
            let _ = fs::write(own.join(SOCKETS_V1), i64::MAX.to_string());
        }
        Some(Hierarchy { own, files })
    }
}

impl Cgroup {
    /// Allows for the memory that a fork of the session holds as well.
    pub fn allow_for_fork(self: &Arc<Self>) -> MemoryAllowance {
        let bytes = self.anonymous_memory().unwrap_or(0);
        self.allowed_for_forks.fetch_add(bytes, Ordering::Relaxed);
        self.apply_with_allowances();
        MemoryAllowance {
            cgroup: Arc::clone(self),
            bytes,
        }
    }

    fn apply_with_allowances(&self) {
        let allowed_for_forks = self.allowed_for_forks.load(Ordering::Relaxed);
        // Fails when more is in use; then the next time tells.
        let _ = self.apply(self.limits.memory.saturating_add(allowed_for_forks));
    }

    /// Sets the limits of memory and processes.
    fn apply(&self, memory: u64) -> Result<(), Error> {
        let processes = self.limits.processes;
        for (path, files) in &self.directories {
            let settings: &[(&str, u64)] = match files {
                LimitFiles::MemoryV1 => &[("memory.limit_in_bytes", memory)],
                LimitFiles::PidsV1 => &[("pids.max", processes)],
                LimitFiles::CpuV1 => &[],
                LimitFiles::Unified => &[("memory.max", memory), ("pids.max", processes)],
            };
            for (file, value) in settings {
                write_limit(&path.join(file), &value.to_string())?;
            }
            if *files == LimitFiles::MemoryV1 {
                // What waits in TCP and UDP sockets is not a part of the memory of version 1. At this limit, sending waits. A kernel without the file
                // has no such sockets.
                let _ = fs::write(path.join(SOCKETS_V1), (memory / 4).to_string());
            }
            if *files == LimitFiles::Unified {
                // No swap either, else the memory limit is none. Not every kernel has the file.
                let _ = fs::write(path.join("memory.swap.max"), "0");
            }
        }
        Ok(())
    }

    /// Sets the limit of processors: so many microseconds of processor time in each period.
    fn apply_cpus(&self) -> Result<(), Error> {
        const PERIOD_MICROSECONDS: f64 = 100_000.0;
        let Some(cpus) = self.limits.cpus else {
            return Ok(());
        };
        // The kernel takes no less than a millisecond.
        let quota = (cpus * PERIOD_MICROSECONDS).round().max(1000.0);
        for (path, files) in &self.directories {
            match files {
                LimitFiles::CpuV1 => {
                    let period = PERIOD_MICROSECONDS.to_string();
                    write_limit(&path.join("cpu.cfs_period_us"), &period)?;
                    write_limit(&path.join("cpu.cfs_quota_us"), &quota.to_string())?;
                }
                LimitFiles::Unified => {
                    let limit = format!("{quota} {PERIOD_MICROSECONDS}");
                    write_limit(&path.join("cpu.max"), &limit)?;
                }
                LimitFiles::MemoryV1 | LimitFiles::PidsV1 => {}
            }
        }
        Ok(())
    }

    /// The files that a process of one thread writes itself into.
    pub fn entrances(&self) -> Result<Vec<OwnedFd>, Error> {
        let open = |(path, files): &(PathBuf, LimitFiles)| {
            // A process of one thread that enters by `tasks` spares the kernel the wait for all others, which takes milliseconds.
            let entrance = match files {
                LimitFiles::MemoryV1 | LimitFiles::PidsV1 | LimitFiles::CpuV1 => "tasks",
                LimitFiles::Unified => "cgroup.procs",
            };
            fs::OpenOptions::new()
                .write(true)
                .open(path.join(entrance))
                .map(OwnedFd::from)
        };
        self.directories
            .iter()
            .map(open)
            .collect::<Result<_, _>>()
            .map_err(|error| Error::system("opening a cgroup", error))
    }

    /// How often the kernel killed something in here because memory ran out.
    pub fn memory_kills(&self) -> u64 {
        let mut buffer = [0; 512];
        let read = |file: &fs::File| file.read_at(&mut buffer, 0).ok();
        let size = self.events.as_ref().and_then(read).unwrap_or(0);
        let text = std::str::from_utf8(&buffer[..size]).unwrap_or_default();
        text.lines()
            .find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
            .unwrap_or(0)
    }

    /// Opens a file of the memory's cgroup, by its name in both versions. It is read at each cell, so it is kept open.
    fn open(&self, name_v1: &str, name_v2: &str) -> Option<fs::File> {
        self.directories.iter().find_map(|(path, files)| {
            let name = match files {
                LimitFiles::MemoryV1 => name_v1,
                LimitFiles::Unified => name_v2,
                LimitFiles::PidsV1 | LimitFiles::CpuV1 => return None,
            };
            fs::File::open(path.join(name)).ok()
        })
    }

    /// Bytes of memory in use now that are the processes' own, without files that the kernel could drop.
    pub fn anonymous_memory(&self) -> Option<u64> {
        let name = |files| match files {
            LimitFiles::MemoryV1 => Some("rss "),
            LimitFiles::Unified => Some("anon "),
            LimitFiles::PidsV1 | LimitFiles::CpuV1 => None,
        };
        let (path, name) = self
            .directories
            .iter()
            .find_map(|(path, files)| Some((path, name(*files)?)))?;
        let text = fs::read_to_string(path.join("memory.stat")).ok()?;
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    }

    /// Whether less than this many bytes are left below the limit. Files that the kernel could drop do not count.
    pub fn is_short_of(&self, bytes: u64) -> bool {
        let limit = self.limits.memory;
        let allowed_for_forks = self.allowed_for_forks.load(Ordering::Relaxed);
        let is_short = |used: u64| used.saturating_add(bytes) > limit;
        // The exact answer takes longer to read.
        self.memory_used().is_some_and(is_short)
            && self
                .anonymous_memory()
                .is_none_or(|own| is_short(own.saturating_sub(allowed_for_forks)))
    }

    /// Bytes of memory in use now, without what forks may hold.
    pub fn memory_used(&self) -> Option<u64> {
        let mut buffer = [0; 32];
        let open = || self.open("memory.usage_in_bytes", "memory.current");
        let usage = self.usage.get_or_init(open).as_ref()?;
        let size = usage.read_at(&mut buffer, 0).ok()?;
        let text = std::str::from_utf8(&buffer[..size]).ok()?;
        let used: u64 = text.trim().parse().ok()?;
        Some(used.saturating_sub(self.allowed_for_forks.load(Ordering::Relaxed)))
    }
}

impl Drop for MemoryAllowance {
    fn drop(&mut self) {
        self.cgroup
            .allowed_for_forks
            .fetch_sub(self.bytes, Ordering::Relaxed);
        self.cgroup.apply_with_allowances();
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for (path, _) in &self.directories {
            remove(path);
        }
    }
}

fn write_limit(file: &Path, value: &str) -> Result<(), Error> {
    fs::write(file, value).map_err(|error| Error::system("setting a cgroup limit", error))
}
