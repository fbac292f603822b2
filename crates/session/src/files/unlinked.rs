//! Files without a name that a session keeps on disk, and what it may keep where the host cannot look.
//!
//! Of descriptors that wait in sockets the kernel does not tell what they are; of mapped files it tells only root how large they are. So while
//! there are any, all that the session's processes have written since, and that is not seen elsewhere, counts as kept there.

use cellblock_sandbox::{FileSystem, Size, UnlinkedFiles, Written};
use std::collections::HashMap;

/// The tracker of files without a name, from one look to the next.
#[derive(Debug, Default)]
pub(crate) struct UnlinkedFileTracker {
    /// How large each file was when it was last seen as a whole.
    sizes: HashMap<u64, u64>,
    tally: WriteCounter,
    last: Snapshot,
    /// How things stood just before something was there that cannot be looked at.
    since: Option<Snapshot>,
}

/// How things stood at a look.
#[derive(Clone, Copy, Debug, Default)]
struct Snapshot {
    write_count: WriteCount,
    /// Bytes that were seen, with and without a name.
    seen: u64,
    unlinked: u64,
    free: u64,
}

/// Files without a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Nameless {
    /// Bytes that they take, or may take.
    pub(crate) bytes: u64,
    pub(crate) files: usize,
    /// Whether there are some whose size cannot be found out.
    pub(crate) has_unknown: bool,
}

impl UnlinkedFileTracker {
    /// Takes in what a look found; `named` is what the session added that has a name.
    pub(crate) fn take(
        &mut self,
        holdings: &UnlinkedFiles,
        written: &[Written],
        own: &[u32],
        named: u64,
        file_system: Option<FileSystem>,
    ) -> Nameless {
        let write_count = self.tally.take(written, own);
        let sizes = std::mem::take(&mut self.sizes);
        let size_of = |(inode, size): (&u64, &Size)| {
            let earlier = match size {
                Size::Exactly(_) => None,
                Size::AtLeast(_) => sizes.get(inode).copied(),
            };
            (*inode, size.known().max(earlier.unwrap_or(0)))
        };
        self.sizes = holdings.unlinked.iter().map(size_of).collect();
        let unlinked: u64 = self.sizes.values().sum();
        let now = Snapshot {
            write_count,
            seen: named.saturating_add(unlinked),
            unlinked,
            free: file_system.map_or(0, |system| system.free),
        };
        let has_unknown = holdings.has_unknown();
        let before = std::mem::replace(&mut self.last, now);
        let earlier = self.since.take();
        self.since = has_unknown.then(|| earlier.unwrap_or(before));
        // A descriptor that is only passed on is there for one look, and hides nothing. One that stays counts from when it came.
        let stays = self.since.filter(|_| earlier.is_some());
        let hidden = stays.map_or(0, |since| {
            let is_counted = file_system.is_some_and(FileSystem::counts_writes);
            unseen(&since, &now, is_counted)
        });
        Nameless {
            bytes: unlinked.saturating_add(hidden),
            files: holdings
                .unlinked
                .len()
                .saturating_add(holdings.in_flight as usize),
            has_unknown,
        }
    }

    /// Takes in what was written since, and nothing else.
    pub(crate) fn tally(&mut self, written: &[Written], own: &[u32]) -> WriteCount {
        self.tally.take(written, own)
    }

    /// The bytes written and the processes seen, up to the last look.
    pub(crate) fn write_count(&self) -> WriteCount {
        self.last.write_count
    }

    /// Bytes of files without a name that the last look found.
    pub(crate) fn seen_unlinked(&self) -> u64 {
        self.last.unlinked
    }

    /// Whether the last look found any.
    pub(crate) fn is_nothing(&self) -> bool {
        self.sizes.is_empty() && self.since.is_none()
    }
}

/// The most that can have been put where the host does not see it.
fn unseen(since: &Snapshot, now: &Snapshot, is_counted: bool) -> u64 {
    let written = now
        .write_count
        .bytes
        .saturating_sub(since.write_count.bytes);
    let other_processes = now.write_count.other_processes > since.write_count.other_processes;
    let most = if is_counted && now.write_count.is_whole && !other_processes {
        written
    } else {
        // What a process wrote is forgotten with it, unless its parent waits for it. The space that is gone is not.
        written.max(since.free.saturating_sub(now.free))
    };
    let lost_sight_of = since.unlinked.saturating_sub(now.unlinked);
    most.saturating_sub(now.seen.saturating_sub(since.seen))
        .max(lost_sight_of)
}

/// The counter of all bytes that a session's processes have written. It only grows.
#[derive(Debug, Default)]
struct WriteCounter {
    processes: HashMap<(u32, u64), u64>,
    total: WriteCount,
}

/// A tally at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriteCount {
    /// The bytes written. Too many rather than too few: what a child wrote counts again when its parent has waited for it.
    pub(crate) bytes: u64,
    /// How often a process that is not the host's own came or went.
    pub(crate) other_processes: u64,
    /// Whether the kernel told it of all processes that are there now.
    pub(crate) is_whole: bool,
}

impl Default for WriteCount {
    fn default() -> WriteCount {
        WriteCount {
            bytes: 0,
            other_processes: 0,
            is_whole: true,
        }
    }
}

impl WriteCounter {
    /// `own` are those that the host has made: the head and its standbys.
    fn take(&mut self, written: &[Written], own: &[u32]) -> WriteCount {
        let before = std::mem::take(&mut self.processes);
        self.total.is_whole = written.iter().all(|one| one.bytes.is_some());
        for one in written {
            let bytes = one.bytes.unwrap_or(0);
            let known = before.get(&one.process);
            self.total.bytes += bytes.saturating_sub(known.copied().unwrap_or(0));
            if known.is_none() && !own.contains(&one.inside) {
                self.total.other_processes += 1;
            }
            self.processes.insert(one.process, bytes);
        }
        let is_gone = |process: &&(u32, u64)| !self.processes.contains_key(process);
        self.total.other_processes += before.keys().filter(is_gone).count() as u64;
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: [u32; 1] = [2];

    fn process(pid: u32, bytes: u64) -> Written {
        Written {
            process: (pid, 0),
            inside: pid,
            bytes: Some(bytes),
        }
    }

    fn open<const N: usize>(files: [(u64, Size); N]) -> UnlinkedFiles {
        UnlinkedFiles {
            unlinked: files.into(),
            in_flight: 0,
        }
    }

    fn waiting() -> UnlinkedFiles {
        UnlinkedFiles {
            in_flight: 1,
            ..UnlinkedFiles::default()
        }
    }

    /// On a file system of which nothing is told; the free space is not known.
    fn bytes(
        hidden: &mut UnlinkedFileTracker,
        holdings: &UnlinkedFiles,
        written: &[Written],
        named: u64,
    ) -> u64 {
        hidden.take(holdings, written, &OWN, named, None).bytes
    }

    #[test]
    fn what_is_seen_counts_once() {
        let mut hidden = UnlinkedFileTracker::default();
        let holdings = open([(1, Size::Exactly(10)), (2, Size::Exactly(5))]);
        assert_eq!(bytes(&mut hidden, &holdings, &[process(2, 100)], 50), 15);
        assert!(!hidden.is_nothing());
        assert_eq!(bytes(&mut hidden, &open([]), &[process(2, 200)], 50), 0);
        assert!(hidden.is_nothing());
    }

    #[test]
    fn a_file_that_is_only_mapped_is_as_large_as_it_was_when_it_was_open() {
        let mut hidden = UnlinkedFileTracker::default();
        bytes(&mut hidden, &open([(1, Size::Exactly(70))]), &[], 0);
        assert_eq!(
            bytes(&mut hidden, &open([(1, Size::AtLeast(4))]), &[], 0),
            70
        );
        assert_eq!(
            bytes(&mut hidden, &open([(2, Size::AtLeast(4))]), &[], 0),
            70
        );
    }

    #[test]
    fn what_is_written_while_descriptors_wait_counts_as_kept_there() {
        let mut hidden = UnlinkedFileTracker::default();
        bytes(&mut hidden, &open([]), &[process(2, 1000)], 0);
        // It may only be on its way.
        assert_eq!(bytes(&mut hidden, &waiting(), &[process(2, 1010)], 0), 0);
        assert_eq!(bytes(&mut hidden, &waiting(), &[process(2, 1010)], 0), 10);
        // What is seen elsewhere is not there.
        assert_eq!(bytes(&mut hidden, &waiting(), &[process(2, 1050)], 30), 20);
        assert_eq!(bytes(&mut hidden, &open([]), &[process(2, 1060)], 30), 0);
        assert_eq!(bytes(&mut hidden, &waiting(), &[process(2, 1060)], 30), 0);
    }

    #[test]
    fn a_file_that_was_open_and_waits_now_still_counts() {
        let mut hidden = UnlinkedFileTracker::default();
        let holdings = open([(1, Size::Exactly(40))]);
        bytes(&mut hidden, &holdings, &[process(2, 40)], 0);
        bytes(&mut hidden, &waiting(), &[process(2, 40)], 0);
        assert_eq!(bytes(&mut hidden, &waiting(), &[process(2, 40)], 0), 40);
    }

    #[test]
    fn processes_that_come_and_go_are_noticed_and_the_hosts_own_are_not() {
        let mut tally = WriteCounter::default();
        let start = tally.take(&[process(2, 5), process(7, 5)], &OWN);
        let same = tally.take(&[process(2, 6), process(7, 5)], &OWN);
        assert_eq!(
            (
                same.bytes - start.bytes,
                same.other_processes - start.other_processes
            ),
            (1, 0)
        );
        let gone = tally.take(&[process(2, 6)], &OWN);
        let come = tally.take(&[process(2, 6), process(8, 30)], &OWN);
        assert_eq!(gone.other_processes - same.other_processes, 1);
        assert_eq!(
            (
                come.other_processes - gone.other_processes,
                come.bytes - gone.bytes
            ),
            (1, 30)
        );
    }
}
