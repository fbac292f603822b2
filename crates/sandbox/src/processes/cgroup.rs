//! cgroups, version 1 or 2, where the host may write them: the hard wall for memory and processes.
//!
//! Six files of text, so they are written by hand. Each runtime has one directory per controller, named after its process and
//! numbered, and one below it per session. A host that was killed cannot clean up; the next one does.

use crate::Error;
use crate::processes::delegated::{delegated_base, enables, try_to_enable_cpu};
use crate::processes::proc_entry::ProcEntry;
use rustix::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{fs, io, thread};

/// The name of a runtime's directory: this, the host's process id, when that started (ids are used again), and a number.
const PREFIX: &str = "cellblock-";

/// The controllers that this host may use. A handle: clones are the same, and the directories go with the last.
#[derive(Clone, Debug)]
pub struct Cgroups {
    hierarchies: Arc<[Hierarchy]>,
}

/// A tree of cgroups with a directory of our own in it. Dropping it removes the directory.
#[derive(Debug)]
struct Hierarchy {
    own: PathBuf,
    files: Files,
}

/// The files that hold the limits, which differ between cgroup versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Files {
    MemoryV1,
    PidsV1,
    CpuV1,
    Unified,
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
    directories: Vec<(PathBuf, Files)>,
    events: Option<fs::File>,
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
        let claim = |(base, files): (PathBuf, Files)| Hierarchy::claim(&base, &name, files);
        let delegated = |(base, files): (PathBuf, Files)| match files {
            Files::Unified if holds_no_memory(&base) => None,
            Files::Unified => Some((delegated_base(own_unified_directory)?, files)),
            Files::MemoryV1 | Files::PidsV1 | Files::CpuV1 => Some((base, files)),
        };
        let hierarchies: Arc<[Hierarchy]> = own_directories()
            .into_iter()
            .filter_map(delegated)
            .filter_map(claim)
            .collect();
        let holds_memory = hierarchies
            .iter()
            .any(|hierarchy| matches!(hierarchy.files, Files::MemoryV1 | Files::Unified));
        holds_memory.then_some(Cgroups { hierarchies })
    }

    /// Whether a session can be limited to a number of processors.
    pub fn can_limit_cpus(&self) -> bool {
        self.hierarchies
            .iter()
            .any(|hierarchy| match hierarchy.files {
                Files::CpuV1 => true,
                Files::Unified => enables(&hierarchy.own, &["cpu"]),
                Files::MemoryV1 | Files::PidsV1 => false,
            })
    }

    /// A cgroup for one session.
    pub fn create(&self, session: &str, limits: CgroupLimits) -> Result<Cgroup, Error> {
        let mut cgroup = Cgroup {
            directories: Vec::new(),
            events: None,
            limits,
            allowed_for_forks: AtomicU64::new(0),
        };
        // To enter one more cgroup takes time: only sessions with a limit of processors do.
        let is_needed =
            |hierarchy: &&Hierarchy| hierarchy.files != Files::CpuV1 || limits.cpus.is_some();
        for hierarchy in self.hierarchies.iter().filter(is_needed) {
            let path = hierarchy.own.join(session);
            fs::create_dir(&path).map_err(|error| Error::system("making a cgroup", error))?;
            cgroup.directories.push((path, hierarchy.files));
        }
        cgroup.apply(limits.memory)?;
        cgroup.apply_cpus()?;
        cgroup.events = cgroup.open_events();
        Ok(cgroup)
    }

    /// The name of the mechanism, for a person.
    pub fn describe(&self) -> &'static str {
        if self
            .hierarchies
            .iter()
            .any(|hierarchy| hierarchy.files == Files::Unified)
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
    fn claim(base: &Path, name: &str, files: Files) -> Option<Hierarchy> {
        remove_orphans(base);
        let own = base.join(name);
        fs::create_dir(&own).ok()?;
        if files == Files::Unified
            && fs::write(own.join("cgroup.subtree_control"), "+memory +pids").is_err()
        {
            let _ = fs::remove_dir(&own);
            return None;
        }
        if files == Files::Unified {
            try_to_enable_cpu(&own);
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
                Files::MemoryV1 => &[("memory.limit_in_bytes", memory)],
                Files::PidsV1 => &[("pids.max", processes)],
                Files::CpuV1 => &[],
                Files::Unified => &[("memory.max", memory), ("pids.max", processes)],
            };
            for (file, value) in settings {
                write_limit(&path.join(file), &value.to_string())?;
            }
            if *files == Files::Unified {
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
                Files::CpuV1 => {
                    let period = PERIOD_MICROSECONDS.to_string();
                    write_limit(&path.join("cpu.cfs_period_us"), &period)?;
                    write_limit(&path.join("cpu.cfs_quota_us"), &quota.to_string())?;
                }
                Files::Unified => {
                    let limit = format!("{quota} {PERIOD_MICROSECONDS}");
                    write_limit(&path.join("cpu.max"), &limit)?;
                }
                Files::MemoryV1 | Files::PidsV1 => {}
            }
        }
        Ok(())
    }

    /// The files that a process of one thread writes itself into.
    pub fn entrances(&self) -> Result<Vec<OwnedFd>, Error> {
        let open = |(path, files): &(PathBuf, Files)| {
            // A process of one thread that enters by `tasks` spares the kernel the wait for all others, which takes milliseconds.
            let entrance = match files {
                Files::MemoryV1 | Files::PidsV1 | Files::CpuV1 => "tasks",
                Files::Unified => "cgroup.procs",
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

    /// The file that counts the kills. It is read before each cell, so it is kept open.
    fn open_events(&self) -> Option<fs::File> {
        self.directories.iter().find_map(|(path, files)| {
            let name = match files {
                Files::MemoryV1 => "memory.oom_control",
                Files::Unified => "memory.events",
                Files::PidsV1 | Files::CpuV1 => return None,
            };
            fs::File::open(path.join(name)).ok()
        })
    }

    /// Bytes of memory in use now that are the processes' own, without files that the kernel could drop.
    pub fn anonymous_memory(&self) -> Option<u64> {
        let name = |files| match files {
            Files::MemoryV1 => Some("rss "),
            Files::Unified => Some("anon "),
            Files::PidsV1 | Files::CpuV1 => None,
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
        let file = |files| match files {
            Files::MemoryV1 => Some("memory.usage_in_bytes"),
            Files::Unified => Some("memory.current"),
            Files::PidsV1 | Files::CpuV1 => None,
        };
        let (path, name) = self
            .directories
            .iter()
            .find_map(|(path, files)| Some((path, file(*files)?)))?;
        let used: u64 = fs::read_to_string(path.join(name))
            .ok()?
            .trim()
            .parse()
            .ok()?;
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

/// Removes a cgroup. While its last process is on its way out, which takes long on a busy machine, the kernel refuses; then it is
/// tried again beside us. What is still there when this process ends is removed by the next host.
fn remove(path: &Path) {
    for _ in 0..5 {
        if !is_busy(path) {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    let mut busy = BUSY.lock().unwrap_or_else(PoisonError::into_inner);
    busy.push(path.to_owned());
    if busy.len() == 1 {
        let thread = thread::Builder::new().name("cellblock-cgroups".to_owned());
        if thread.spawn(remove_the_busy).is_err() {
            busy.clear();
        }
    }
}

/// Cgroups that could not be removed yet. A thread looks after them as long as there are any.
static BUSY: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn remove_the_busy() {
    const PERIOD: Duration = Duration::from_millis(10);
    const LOOKS: usize = 6000;
    for _ in 0..LOOKS {
        thread::sleep(PERIOD);
        let mut busy = BUSY.lock().unwrap_or_else(PoisonError::into_inner);
        busy.retain(|path| is_busy(path));
        if busy.is_empty() {
            return;
        }
    }
    let mut busy = BUSY.lock().unwrap_or_else(PoisonError::into_inner);
    busy.clear();
}

/// Tries to remove a cgroup, and says whether that should be tried again.
fn is_busy(path: &Path) -> bool {
    fs::remove_dir(path).is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
}

/// When a process was started, in ticks since the machine was started; `None` when it is not there.
fn started(pid: u32) -> Option<u64> {
    ProcEntry::of(pid).stat().map(|stat| stat.started)
}

fn own_name(runtime: u32) -> String {
    let pid = std::process::id();
    format!("{PREFIX}{pid}-{}-{runtime}", started(pid).unwrap_or(0))
}

/// The process that a directory is named after, and when it started; `None` for a name that is not ours.
fn owner(name: &str) -> Option<(u32, u64)> {
    let mut numbers = name.strip_prefix(PREFIX)?.split('-');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn remove_orphans(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some((pid, start)) = name.to_str().and_then(owner) else {
            continue;
        };
        if started(pid) != Some(start) {
            for session in fs::read_dir(entry.path())
                .into_iter()
                .flatten()
                .flatten()
                .filter(|inner| inner.path().is_dir())
            {
                let _ = fs::remove_dir(session.path());
            }
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// The directories of this process's own cgroups, as far as they hold a controller that we use.
fn own_directories() -> Vec<(PathBuf, Files)> {
    let memberships = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut found = Vec::new();
    for line in memberships.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let files = match controllers {
            "" => Files::Unified,
            list if list.split(',').any(|name| name == "memory") => Files::MemoryV1,
            list if list.split(',').any(|name| name == "pids") => Files::PidsV1,
            list if list.split(',').any(|name| name == "cpu") => Files::CpuV1,
            _ => continue,
        };
        if let Some(mount) = mounts.lines().find_map(|line| mount_point(line, files)) {
            found.push((mount.join(path.trim_start_matches('/')), files));
        }
    }
    found
}

/// This process's own cgroup of version 2.
fn own_unified_directory() -> Option<PathBuf> {
    let is_unified = |(_, files): &(PathBuf, Files)| *files == Files::Unified;
    own_directories()
        .into_iter()
        .find(is_unified)
        .map(|(path, _)| path)
}

/// Whether a tree of version 2 cannot hold memory: where version 1 holds it, version 2 may be there beside it without controllers.
fn holds_no_memory(base: &Path) -> bool {
    let controllers = |path: &Path| fs::read_to_string(path.join("cgroup.controllers")).ok();
    !base
        .ancestors()
        .map_while(controllers)
        .any(|list| list.split_whitespace().any(|name| name == "memory"))
}

/// The mount point in a line of `mountinfo`, if it is the hierarchy that we look for.
fn mount_point(line: &str, files: Files) -> Option<PathBuf> {
    let (left, right) = line.split_once(" - ")?;
    let mut kind = right.split(' ');
    let (kind, options) = (kind.next()?, kind.nth(1)?);
    let fits = match files {
        Files::Unified => kind == "cgroup2",
        Files::MemoryV1 => kind == "cgroup" && options.split(',').any(|option| option == "memory"),
        Files::PidsV1 => kind == "cgroup" && options.split(',').any(|option| option == "pids"),
        Files::CpuV1 => kind == "cgroup" && options.split(',').any(|option| option == "cpu"),
    };
    fits.then(|| left.split(' ').nth(4).map(PathBuf::from))
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_tells_whose_it_is() {
        let name = own_name(7);
        assert_eq!(owner(&name).map(|(pid, _)| pid), Some(std::process::id()));
        assert_eq!(
            [
                owner("cellblock-12-34-0"),
                owner("cellblock-12"),
                owner("docker-12-34")
            ],
            [Some((12, 34)), None, None]
        );
    }

    #[test]
    fn only_the_directories_of_the_dead_are_removed() {
        let base = tempfile::tempdir().unwrap();
        let (alive, dead, other) = (
            own_name(0),
            "cellblock-1-0-0".to_owned(),
            "something-else".to_owned(),
        );
        for name in [&alive, &dead, &other] {
            fs::create_dir(base.path().join(name)).unwrap();
        }
        fs::create_dir(base.path().join(&dead).join("s1-1")).unwrap();
        remove_orphans(base.path());
        assert_eq!(
            [alive, dead, other].map(|name| base.path().join(name).exists()),
            [true, false, true]
        );
    }

    #[test]
    fn the_mount_point_is_read_from_the_kernel_s_list() {
        let line =
            "33 25 0:28 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory";
        assert_eq!(
            mount_point(line, Files::MemoryV1),
            Some(PathBuf::from("/sys/fs/cgroup/memory"))
        );
        assert_eq!(mount_point(line, Files::PidsV1), None);
    }
}
