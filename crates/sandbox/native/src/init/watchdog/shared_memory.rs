//! Shared memory without a name, where init counts.
//!
//! Its pages stay as long as any part of it is mapped. A process that unmaps the rest, or says that it does not need the pages, shows them no more,
//! and no call tells init how many there are. So the filter asks init before such memory is mapped, and the length is in a register: what is allowed
//! in all is bounded, until the session is seen to have none. What the head shows does not count here: the watchdog counts it.

use crate::arch::page_bytes;
use crate::sys::text::{Text, leading_number};
use crate::sys::{Fd, Pid, Result, each_line_while_at};

/// The part of the memory limit that shared memory without a name may take.
const PART_OF_LIMIT: u64 = 2;

/// An area of no more than this is small. The guest has one, so that a session is never without any.
const SMALL_BYTES: u64 = 64 << 10;
const MAX_SMALL_INODES: usize = 8;

/// Inodes of small areas; 0 marks a free slot.
pub type SmallInodes = [u64; MAX_SMALL_INODES];

/// What one session was allowed.
#[derive(Debug, Default)]
pub struct SharedMemory {
    /// Bytes of small areas, ever.
    small_bytes: u64,
    /// Bytes of other areas, since the session was last seen to have none.
    bytes: u64,
    /// Areas that were there when the first of the others was allowed.
    small_inodes: SmallInodes,
    /// The last standby, by its number, that may have some of the others.
    last_holder: u64,
}

/// What tells which areas a session has.
pub trait Areas {
    /// The areas of the head. None where they are too many, or cannot be seen.
    fn of_head(&self) -> SmallInodes;

    /// Bytes of shared memory that the head shows, every page counted once.
    fn shown_by_head(&self) -> u64;

    /// Whether no process, and no standby up to the number `holder`, has other areas than these small ones.
    fn are_all_small(&self, small: &SmallInodes, holder: u64) -> bool;
}

impl SharedMemory {
    /// Whether a mapping of this length may be made.
    pub fn allow(&mut self, length: u64, limit: u64, areas: &impl Areas) -> bool {
        let hidden = limit / PART_OF_LIMIT;
        let fits = |bytes: u64, most: u64| {
            let whole = length.checked_next_multiple_of(page_bytes() as u64)?;
            bytes.checked_add(whole).filter(|sum| *sum <= most)
        };
        if length <= SMALL_BYTES {
            let sum = fits(self.small_bytes, hidden);
            self.small_bytes = sum.unwrap_or(self.small_bytes);
            return sum.is_some();
        }
        if fits(self.bytes, hidden).is_none() {
            self.forget_if(|small, holder| areas.are_all_small(small, holder));
        }
        if self.bytes == 0 {
            // There are no others yet, so whatever is there is small.
            self.small_inodes = areas.of_head();
        }
        let sum = fits(self.bytes, hidden)
            .or_else(|| fits(self.bytes, hidden + areas.shown_by_head().min(limit)));
        self.bytes = sum.unwrap_or(self.bytes);
        sum.is_some()
    }

    /// A standby with this number is made, and has what the head has. `is_small` says whether it has only these areas.
    pub fn is_copied(
        &mut self,
        standby: u64,
        areas: &impl Areas,
        is_small: impl FnOnce(&SmallInodes) -> bool,
    ) {
        self.forget_if(|small, holder| is_small(small) && areas.are_all_small(small, holder));
        if self.bytes > 0 {
            self.last_holder = standby;
        }
    }

    fn forget_if(&mut self, are_all_small: impl FnOnce(&SmallInodes, u64) -> bool) {
        if self.bytes > 0 && are_all_small(&self.small_inodes, self.last_holder) {
            self.bytes = 0;
        }
    }
}

/// The areas of a process. None where they are too many, or cannot be seen.
pub fn inodes_of(proc_directory: Fd, pid: Pid) -> SmallInodes {
    let mut inodes = SmallInodes::default();
    for index in 0..MAX_SMALL_INODES {
        match other_inode(proc_directory, pid, &inodes) {
            Ok(Some(inode)) => inodes[index] = inode,
            Ok(None) => return inodes,
            Err(_) => break,
        }
    }
    SmallInodes::default()
}

/// An area of a process that is none of these. An error where init may not look.
pub fn other_inode(proc_directory: Fd, pid: Pid, known: &SmallInodes) -> Result<Option<u64>> {
    let mut found = None;
    let path = Text::<32>::new(format_args!("{pid}/maps"))?;
    each_line_while_at(proc_directory, path.as_c_str(), |line| {
        found = inode_in(line).filter(|inode| !known.contains(inode));
        found.is_none()
    })?;
    Ok(found)
}

/// The inode in a line of `maps`, if that is about shared memory without a name. Code can give it a title.
fn inode_in(line: &[u8]) -> Option<u64> {
    const INODE: usize = 4;
    const TITLE: &[u8] = b"[anon_shmem:";
    let has_title = || line.windows(TITLE.len()).any(|part| part == TITLE);
    if !line.ends_with(b"/dev/zero (deleted)") && !has_title() {
        return None;
    }
    let mut words = line.split(|byte| *byte == b' ');
    leading_number(words.nth(INODE)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 4 << 20;
    const MIB: u64 = 1 << 20;

    /// A session whose head has the area 5, and others or not.
    struct Session {
        has_others: bool,
        shown: u64,
    }

    impl Areas for Session {
        fn of_head(&self) -> SmallInodes {
            [5, 0, 0, 0, 0, 0, 0, 0]
        }

        fn shown_by_head(&self) -> u64 {
            self.shown
        }

        fn are_all_small(&self, small: &SmallInodes, holder: u64) -> bool {
            !self.has_others && holder == 0 && *small == self.of_head()
        }
    }

    const SOME: Session = Session {
        has_others: true,
        shown: 0,
    };
    const NONE: Session = Session {
        has_others: false,
        shown: 0,
    };

    #[test]
    fn half_of_the_limit_can_be_mapped_until_the_session_has_none() {
        let mut memory = SharedMemory::default();
        assert!(memory.allow(MIB + 1, LIMIT, &SOME));
        assert!(memory.allow(MIB - page_bytes() as u64, LIMIT, &SOME));
        assert!(!memory.allow(MIB, LIMIT, &SOME));
        assert!(memory.allow(2 * MIB, LIMIT, &NONE));
        assert!(!memory.allow(u64::MAX, LIMIT, &NONE));
        assert!(!memory.allow(2 * MIB + 1, LIMIT, &NONE));
        assert!((0..32).all(|_| memory.allow(SMALL_BYTES, LIMIT, &NONE)));
        assert!(!memory.allow(1, LIMIT, &NONE));
    }

    #[test]
    fn what_the_head_shows_does_not_count_up_to_the_limit() {
        let mut memory = SharedMemory::default();
        let showing = |shown| Session {
            has_others: true,
            shown,
        };
        assert!(memory.allow(2 * MIB, LIMIT, &SOME));
        assert!(!memory.allow(MIB, LIMIT, &showing(MIB - 1)));
        assert!(memory.allow(MIB, LIMIT, &showing(MIB)));
        assert!(memory.allow(3 * MIB, LIMIT, &showing(9 * MIB)));
        assert!(!memory.allow(MIB, LIMIT, &showing(9 * MIB)));
    }

    #[test]
    fn a_standby_may_hold_what_was_mapped_when_it_was_made() {
        let mut memory = SharedMemory::default();
        assert!(memory.allow(MIB, LIMIT, &SOME));
        memory.is_copied(7, &NONE, |_| true);
        assert_eq!((memory.bytes, memory.last_holder), (0, 0));
        assert!(memory.allow(MIB, LIMIT, &SOME));
        memory.is_copied(8, &NONE, |_| false);
        assert_eq!((memory.bytes, memory.last_holder), (MIB, 8));
        // As long as that standby lives.
        memory.is_copied(9, &NONE, |_| true);
        assert_eq!((memory.bytes, memory.last_holder), (MIB, 9));
    }

    #[test]
    fn lines_about_shared_memory_are_found_whatever_title_they_have() {
        let area = b"7f0000000000-7f0002000000 rw-s 00000000 00:01 1037 ";
        let inode = |name: &[u8]| inode_in(&[area, name].concat());
        assert_eq!(
            [
                inode(b"/dev/zero (deleted)"),
                inode(b"[anon_shmem:heap]"),
                inode(b"/workspace/file"),
                inode_in(b"7f0000000000-7f0002000000 rw-p 00000000 00:00 0"),
            ],
            [Some(1037), Some(1037), None, None]
        );
    }
}
