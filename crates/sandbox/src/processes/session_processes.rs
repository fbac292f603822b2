//! A session's processes, seen from the host: what they hold that no process inside can or will tell.
//!
//! Standbys share most of their pages with the head, and how many is only known to a process that may look into them. They are closed to
//! all of the session, init included; but the host's user owns its namespaces, so the host may look.

use cellblock_native::sys::ProcessStat;
use std::collections::HashSet;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;
use std::{fs, io};

/// The processes of one session, found from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionProcesses {
    init: u32,
}

impl SessionProcesses {
    /// The session whose init has the id `init` where the launcher lives; `launcher` is the process that the host started.
    pub fn find(launcher: u32, init: u32) -> Option<SessionProcesses> {
        let of_launcher = children(launcher).into_iter();
        let inner = of_launcher.clone().flat_map(children);
        let found = of_launcher.chain(inner).find(|pid| is_known_as(*pid, init));
        found.map(|init| SessionProcesses { init })
    }

    /// The session whose init is the process `init` of this machine, as in a container.
    pub fn below(init: u32) -> SessionProcesses {
        SessionProcesses { init }
    }

    pub(crate) fn init(self) -> u32 {
        self.init
    }

    /// Bytes of memory that it holds: pages that n processes share count one n-th in each, so that they count once in all. `None`
    /// when none of its processes is there.
    pub fn memory(self) -> Option<u64> {
        self.ids()
            .filter_map(proportional_bytes)
            .reduce(|all, bytes| all + bytes)
    }

    /// Bytes of memory that it holds beyond those of its head, whose id inside is `head`: what only the standbys have, and what
    /// the code's own processes have.
    pub fn memory_beyond(self, head: u32) -> Option<u64> {
        let head = self.ids().find(|pid| ids_of(*pid).last() == Some(&head))?;
        Some(self.memory()?.saturating_sub(field(head, "Anonymous:")?))
    }

    /// The inodes of all files on the file system `device` that one of its processes has open or maps shared. `None` when that cannot
    /// be told.
    pub fn held_files(self, device: u64) -> Option<HashSet<u64>> {
        let mut held = HashSet::new();
        let mut processes = self.ids().peekable();
        processes.peek()?;
        for pid in processes {
            let mut looked_at = || -> io::Result<()> {
                held.extend(open_files(pid, device)?);
                for line in maps(pid)? {
                    held.extend(shared_mapping(&line?));
                }
                Ok(())
            };
            match looked_at() {
                Ok(()) => {}
                // It has ended.
                Err(_) if stat(pid).is_empty() => {}
                Err(_) => return None,
            }
        }
        Some(held)
    }

    /// How much of the processor its processes have used, and those that they waited for.
    pub fn processor_time(self) -> Duration {
        self.ids().map(processor_time).sum()
    }

    /// The fork of this session that was made last, if one lives.
    pub fn youngest_fork(self) -> Option<SessionProcesses> {
        let depth = ids_of(self.init).len();
        let is_init = |pid: &u32| {
            let ids = ids_of(*pid);
            ids.len() == depth + 1 && ids.last() == Some(&1)
        };
        let inits = self.all_below().filter(is_init);
        inits
            .max_by_key(|pid| started(*pid).unwrap_or(0))
            .map(|init| SessionProcesses { init })
    }

    /// Its own processes. Those of its forks live below them, in namespaces of their own.
    pub(crate) fn ids(self) -> impl Iterator<Item = u32> {
        let depth = ids_of(self.init).len();
        self.all_below()
            .filter(move |pid| ids_of(*pid).len() == depth)
    }

    fn all_below(self) -> impl Iterator<Item = u32> {
        let mut open = vec![self.init];
        std::iter::from_fn(move || {
            let pid = open.pop()?;
            open.extend(children(pid));
            Some(pid)
        })
    }
}

/// A process has one id in each process namespace that sees it, ours first. The launcher's is the next, where it has one.
fn is_known_as(pid: u32, id: u32) -> bool {
    match ids_of(pid)[..] {
        [only] => only == id,
        [_, inner, ..] => inner == id,
        [] => false,
    }
}

pub(crate) fn ids_of(pid: u32) -> Vec<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let ids = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))
        .unwrap_or_default();
    ids.split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect()
}

fn processor_time(pid: u32) -> Duration {
    /// The kernel counts in ticks of this length for every reader.
    const TICK: Duration = Duration::from_millis(10);
    let text = stat(pid);
    let ticks = ProcessStat::parse(&text).map_or(0, |stat| stat.cpu_ticks());
    TICK * u32::try_from(ticks).unwrap_or(u32::MAX)
}

/// When a process was started, in ticks since the machine was started; `None` when it is not there.
pub(crate) fn started(pid: u32) -> Option<u64> {
    ProcessStat::parse(&stat(pid))?.started()
}

/// The text of `/proc/PID/stat`; empty when the process is not there.
fn stat(pid: u32) -> Vec<u8> {
    fs::read(format!("/proc/{pid}/stat")).unwrap_or_default()
}

/// The children of all its threads.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace()
                .filter_map(|word| word.parse().ok())
                .collect::<Vec<u32>>()
        })
        .collect()
}

fn proportional_bytes(pid: u32) -> Option<u64> {
    let text = rollup(pid)?;
    Some(field_of(&text, "Pss_Anon:")? + field_of(&text, "Pss_Shmem:").unwrap_or(0))
}

fn field(pid: u32, name: &str) -> Option<u64> {
    field_of(&rollup(pid)?, name)
}

/// All mappings of a process as one.
fn rollup(pid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()
}

fn field_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim()
        .strip_suffix(" kB")?
        .parse::<u64>()
        .ok()
        .map(|kilobytes| kilobytes << 10)
}

fn open_files(pid: u32, device: u64) -> io::Result<Vec<u64>> {
    let open = fs::read_dir(format!("/proc/{pid}/fd"))?.flatten();
    let files = open.filter_map(|entry| fs::metadata(entry.path()).ok());
    let wanted = files.filter(|file| file.is_file() && file.dev() == device);
    Ok(wanted.map(|file| file.ino()).collect())
}

/// The inode of a file that is mapped so that writes reach it, by a line of `maps`. On whatever device: some file systems tell
/// another one here than elsewhere.
fn shared_mapping(line: &str) -> Option<u64> {
    let mut words = line.split_whitespace();
    let is_shared = words.nth(1)?.ends_with('s');
    let inode = words.nth(2)?.parse().ok()?;
    (is_shared && inode != 0).then_some(inode)
}

/// The mappings of a process, a line at a time: with long names of files, all of them together take hundreds of megabytes. Those of a
/// line, which may be no text, are shown as text.
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
    use std::process::{Command, Stdio};
    use std::time::Instant;

    #[test]
    fn a_process_is_found_below_the_one_that_started_it_and_measured() {
        let mut child = Command::new("/bin/sh")
            .args(["-c", "sleep 60; true"])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let own = std::process::id();
        let found = SessionProcesses::find(own, child.id());
        assert_eq!(found, Some(SessionProcesses { init: child.id() }));
        assert!(
            found
                .and_then(SessionProcesses::memory)
                .is_some_and(|bytes| (4096..64 << 20).contains(&bytes))
        );
        assert_eq!(SessionProcesses::find(own, u32::MAX), None);
        for pid in children(child.id()) {
            let _ = Command::new("/bin/kill").arg(pid.to_string()).status();
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_file_that_is_open_or_mapped_is_held() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (device, inode) = {
            let metadata = file.as_file().metadata().unwrap();
            (metadata.dev(), metadata.ino())
        };
        let own = SessionProcesses {
            init: std::process::id(),
        };
        assert!(own.held_files(device).unwrap().contains(&inode));
        let path = file.into_temp_path();
        // A child that another test starts has it open too, until it executes its program.
        let is_held = || {
            own.held_files(device)
                .is_none_or(|held| held.contains(&inode))
        };
        let deadline = Instant::now() + Duration::from_secs(10);
        while is_held() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(!is_held());
        drop(path);
        let line =
            "7f0000000000-7f0000003000 rw-s 00001000 fd:01 4711                       /workspace/x";
        assert_eq!(shared_mapping(line), Some(4711));
        assert_eq!(shared_mapping(&line.replace("rw-s", "rw-p")), None);
    }
}
