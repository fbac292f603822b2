//! A session's processes, seen from the host: what they hold that no process inside can or will tell.
//!
//! Standbys share most of their pages with the head, and how many is only known to a process that may look into them. They are closed to
//! all of the session, init included; but the host's user owns its namespaces, so the host may look.

use crate::processes::proc_entry::ProcEntry;
use std::collections::HashSet;
use std::time::Duration;
use std::{fs, io};

/// The processes of one session, found from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionProcesses {
    init: u32,
    /// When init started, in ticks: another process that has its number later started at another time.
    started: Option<u64>,
}

impl SessionProcesses {
    /// The session whose init has the id `init` where the launcher lives; `launcher` is the process that the host started.
    pub fn find(launcher: u32, init: u32) -> Option<SessionProcesses> {
        let of_launcher = ProcEntry::of(launcher).children().into_iter();
        let inner = of_launcher
            .clone()
            .flat_map(|pid| ProcEntry::of(pid).children());
        let found = of_launcher.chain(inner).find(|pid| is_known_as(*pid, init));
        found.map(SessionProcesses::below)
    }

    /// The session whose init is the process `init` of this machine, as in a container.
    pub fn below(init: u32) -> SessionProcesses {
        SessionProcesses {
            init,
            started: start_of(init),
        }
    }

    /// Whether init is still there. Asked after something was opened by init's number, it tells that this was init's.
    pub(crate) fn is_there(self) -> bool {
        self.started.is_some() && start_of(self.init) == self.started
    }

    /// The id of init on the host.
    pub fn init(self) -> u32 {
        self.init
    }

    /// Bytes of memory that it holds: pages that n processes share count one n-th in each, so that they count once in all. `None`
    /// when none of its processes is there.
    pub fn memory(self) -> Option<u64> {
        const ATTEMPTS: usize = 4;
        let mut bytes = None;
        for _ in 0..ATTEMPTS {
            let ids: Vec<u32> = self.ids().collect();
            let held = ids.iter().filter_map(|pid| proportional_bytes(*pid));
            bytes = held.reduce(|all, bytes| all + bytes);
            // A process that was copied meanwhile shares its pages with one that is not in the list.
            if self.ids().eq(ids) {
                break;
            }
        }
        bytes
    }

    /// Bytes of memory that it holds beyond those of its head, whose id inside is `head`: what only the standbys have, and what
    /// the code's own processes have.
    pub fn memory_beyond(self, head: u32) -> Option<u64> {
        let head = self
            .ids()
            .find(|pid| ProcEntry::of(*pid).namespace_ids().last() == Some(&head))?;
        Some(self.memory()?.saturating_sub(field(head, "Anonymous:")?))
    }

    /// The inodes of all files on the file system `device` that one of its processes has open or maps shared. `None` when that cannot
    /// be told.
    pub fn held_files(self, device: u64) -> Option<HashSet<u64>> {
        let mut held = HashSet::new();
        let mut processes = self.ids().peekable();
        processes.peek()?;
        for pid in processes {
            let entry = ProcEntry::of(pid);
            let mut looked_at = || -> io::Result<()> {
                let open = entry.open_files(pid)?.into_iter();
                let open = open.filter(|file| file.device == device);
                held.extend(open.map(|file| file.inode));
                let mapped = entry.mappings(pid)?.shared.into_iter();
                held.extend(mapped.map(|mapping| mapping.inode));
                Ok(())
            };
            match looked_at() {
                Ok(()) => {}
                Err(_) if entry.stat().is_none() => {} // The process has ended.
                Err(_) => return None,
            }
        }
        Some(held)
    }

    /// How much of the processor its processes have used, and those that they waited for.
    pub fn processor_time(self) -> Duration {
        let times = self.ids().filter_map(|pid| ProcEntry::of(pid).stat());
        times.map(|stat| stat.processor_time).sum()
    }

    /// The fork of this session that was made last, if one lives.
    pub fn youngest_fork(self) -> Option<SessionProcesses> {
        let depth = ProcEntry::of(self.init).namespace_ids().len();
        let is_init = |pid: &u32| {
            let ids = ProcEntry::of(*pid).namespace_ids();
            ids.len() == depth + 1 && ids.last() == Some(&1)
        };
        let inits = self.all_below().filter(is_init);
        inits
            .max_by_key(|pid| start_of(*pid))
            .map(SessionProcesses::below)
    }

    /// Whether a fork of this session lives.
    pub(crate) fn has_forks(self) -> bool {
        let depth = ProcEntry::of(self.init).namespace_ids().len();
        self.all_below()
            .any(|pid| ProcEntry::of(pid).namespace_ids().len() > depth)
    }

    /// The session's own processes. Those of its forks live below them, in namespaces of their own.
    pub(crate) fn ids(self) -> impl Iterator<Item = u32> {
        let depth = ProcEntry::of(self.init).namespace_ids().len();
        self.all_below()
            .filter(move |pid| ProcEntry::of(*pid).namespace_ids().len() == depth)
    }

    fn all_below(self) -> impl Iterator<Item = u32> {
        let mut open = vec![self.init];
        std::iter::from_fn(move || {
            let pid = open.pop()?;
            open.extend(ProcEntry::of(pid).children());
            Some(pid)
        })
    }
}

/// A process has one id in each process namespace that sees it, ours first. The launcher's is the next, where it has one.
fn is_known_as(pid: u32, id: u32) -> bool {
    match ProcEntry::of(pid).namespace_ids()[..] {
        [only] => only == id,
        [_, inner, ..] => inner == id,
        [] => false,
    }
}

fn start_of(pid: u32) -> Option<u64> {
    ProcEntry::of(pid).stat().map(|stat| stat.started)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_view_of;
    use std::os::unix::fs::MetadataExt as _;
    use std::path::Path;
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
        assert_eq!(found, Some(SessionProcesses::below(child.id())));
        assert!(found.is_some_and(SessionProcesses::is_there));
        assert!(
            found
                .and_then(SessionProcesses::memory)
                .is_some_and(|bytes| (4096..64 << 20).contains(&bytes))
        );
        assert_eq!(SessionProcesses::find(own, u32::MAX), None);
        for pid in ProcEntry::of(child.id()).children() {
            let _ = Command::new("/bin/kill").arg(pid.to_string()).status();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!found.is_some_and(SessionProcesses::is_there));
    }

    #[test]
    fn another_process_with_the_number_of_an_init_that_has_ended_is_not_taken_for_it() {
        let own = SessionProcesses::below(std::process::id());
        let earlier = SessionProcesses {
            started: own.started.map(|ticks| ticks - 1),
            ..own
        };
        assert_eq!([own.is_there(), earlier.is_there()], [true, false]);
        let opened = |processes| in_view_of(processes, Path::new("tmp"), |_| Ok(()));
        assert!(opened(earlier).is_err());
    }

    #[test]
    fn a_file_that_is_open_or_mapped_is_held() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (device, inode) = {
            let metadata = file.as_file().metadata().unwrap();
            (metadata.dev(), metadata.ino())
        };
        let own = SessionProcesses::below(std::process::id());
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
    }
}
