//! What this process and its sessions have of the machine: it must be the same afterwards.

use super::common::{descendants, within};
use std::path::Path;
use std::time::Duration;
use std::{fs, thread};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Census {
    processes: usize,
    descriptors: usize,
    /// Of the launchers and zygotes.
    helpers_descriptors: usize,
    mounts: usize,
    watches: usize,
    cgroups: usize,
    /// Files and directories that the host keeps on disk.
    entries: usize,
}

impl Census {
    pub(crate) fn take(directory: &Path) -> Census {
        let processes = descendants(std::process::id());
        Census {
            processes: processes.len(),
            descriptors: count(Path::new("/proc/self/fd")),
            helpers_descriptors: processes
                .iter()
                .map(|process| count(Path::new(&format!("/proc/{}/fd", process.pid))))
                .sum(),
            mounts: mounts(directory),
            watches: watches(),
            cgroups: cgroups(Path::new("/sys/fs/cgroup"), 6),
            entries: entries(directory),
        }
    }

    /// Once nothing comes and goes any more: who was told to end may still be dying.
    pub(crate) fn settled(directory: &Path) -> Census {
        loop {
            let census = Census::take(directory);
            thread::sleep(Duration::from_millis(100));
            if census == Census::take(directory) {
                return census;
            }
        }
    }

    /// The kernel may take a moment to clean up; nobody may take longer.
    pub(crate) fn assert_unchanged(&self, directory: &Path) {
        let is_same = || Census::take(directory) == *self;
        if !within(Duration::from_secs(20), is_same) {
            assert_eq!(Census::take(directory), *self, "now, and before");
        }
    }
}

fn count(directory: &Path) -> usize {
    fs::read_dir(directory).map_or(0, Iterator::count)
}

/// Mounts on this machine that have to do with us: others come and go.
fn mounts(directory: &Path) -> usize {
    let all = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let ours =
        |line: &&str| line.contains(directory.to_str().unwrap()) || line.contains("/workspace");
    all.lines().filter(ours).count()
}

/// Directories that are looked at for changes.
fn watches() -> usize {
    let descriptors = fs::read_dir("/proc/self/fdinfo").unwrap().flatten();
    let texts = descriptors.filter_map(|entry| fs::read_to_string(entry.path()).ok());
    texts
        .map(|text| {
            text.lines()
                .filter(|line| line.starts_with("inotify wd:"))
                .count()
        })
        .sum()
}

/// Cgroups that this process made: one for each hierarchy, and those of the sessions in it.
fn cgroups(directory: &Path, depth: usize) -> usize {
    let prefix = format!("cellblock-{}-", std::process::id());
    let inner = fs::read_dir(directory).into_iter().flatten().flatten();
    inner
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| match entry.file_name().to_str() {
            Some(name) if name.starts_with(&prefix) => 1 + directories(&entry.path()),
            _ if depth > 0 => cgroups(&entry.path(), depth - 1),
            _ => 0,
        })
        .sum()
}

fn directories(directory: &Path) -> usize {
    let inner = fs::read_dir(directory).into_iter().flatten().flatten();
    inner
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .count()
}

fn entries(directory: &Path) -> usize {
    let inner = fs::read_dir(directory).into_iter().flatten().flatten();
    inner
        .map(|entry| {
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            1 + if is_directory {
                entries(&entry.path())
            } else {
                0
            }
        })
        .sum()
}
