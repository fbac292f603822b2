//! The directories of cgroups: where they are, which are left over, how they are removed.

use crate::processes::proc_entry::ProcEntry;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{fs, io, thread};

/// The name of a runtime's directory: this, the host's process id, when that started (ids are used again), and a number.
const PREFIX: &str = "cellblock-";

/// The files that hold the limits, which differ between cgroup versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitFiles {
    MemoryV1,
    PidsV1,
    CpuV1,
    Unified,
}

/// Removes a cgroup. While its last process is on its way out, which takes long on a busy machine, the kernel refuses; then it is
/// tried again beside us. What is still there when this process ends is removed by the next host.
pub(super) fn remove(path: &Path) {
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

pub(super) fn own_name(runtime: u32) -> String {
    let pid = std::process::id();
    format!("{PREFIX}{pid}-{}-{runtime}", started(pid).unwrap_or(0))
}

/// The process that a directory is named after, and when it started; `None` for a name that is not ours.
fn owner(name: &str) -> Option<(u32, u64)> {
    let mut numbers = name.strip_prefix(PREFIX)?.split('-');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

pub(super) fn remove_orphans(base: &Path) {
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
pub(super) fn own_directories() -> Vec<(PathBuf, LimitFiles)> {
    let memberships = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut found = Vec::new();
    for line in memberships.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let files = match controllers {
            "" => LimitFiles::Unified,
            list if list.split(',').any(|name| name == "memory") => LimitFiles::MemoryV1,
            list if list.split(',').any(|name| name == "pids") => LimitFiles::PidsV1,
            list if list.split(',').any(|name| name == "cpu") => LimitFiles::CpuV1,
            _ => continue,
        };
        if let Some(mount) = mounts.lines().find_map(|line| mount_point(line, files)) {
            found.push((mount.join(path.trim_start_matches('/')), files));
        }
    }
    found
}

/// This process's own cgroup of version 2.
pub(super) fn own_unified_directory() -> Option<PathBuf> {
    let is_unified = |(_, files): &(PathBuf, LimitFiles)| *files == LimitFiles::Unified;
    own_directories()
        .into_iter()
        .find(is_unified)
        .map(|(path, _)| path)
}

/// Whether a tree of version 2 cannot hold memory: where version 1 holds it, version 2 may be there beside it without controllers.
pub(super) fn holds_no_memory(base: &Path) -> bool {
    let controllers = |path: &Path| fs::read_to_string(path.join("cgroup.controllers")).ok();
    !base
        .ancestors()
        .map_while(controllers)
        .any(|list| list.split_whitespace().any(|name| name == "memory"))
}

/// The mount point in a line of `mountinfo`, if it is the hierarchy that we look for.
fn mount_point(line: &str, files: LimitFiles) -> Option<PathBuf> {
    let (left, right) = line.split_once(" - ")?;
    let mut kind = right.split(' ');
    let (kind, options) = (kind.next()?, kind.nth(1)?);
    let fits = match files {
        LimitFiles::Unified => kind == "cgroup2",
        LimitFiles::MemoryV1 => {
            kind == "cgroup" && options.split(',').any(|option| option == "memory")
        }
        LimitFiles::PidsV1 => kind == "cgroup" && options.split(',').any(|option| option == "pids"),
        LimitFiles::CpuV1 => kind == "cgroup" && options.split(',').any(|option| option == "cpu"),
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
            mount_point(line, LimitFiles::MemoryV1),
            Some(PathBuf::from("/sys/fs/cgroup/memory"))
        );
        assert_eq!(mount_point(line, LimitFiles::PidsV1), None);
    }
}
