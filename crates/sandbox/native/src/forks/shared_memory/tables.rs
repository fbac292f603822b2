//! What is known of the shared memory of this process at its last checkpoint.

use super::maps::MemoryPlace;
use super::names::NamedFile;
use crate::arch::page_bytes;
use crate::sys::{Fd, nr, syscall};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering::SeqCst};

/// The most maps that are noted. Those beyond are left out.
pub(super) const MAX_MAPS: usize = 512;
const MAX_RUNS: usize = 8192;
/// The most files in `/dev/shm` that are noted.
pub(super) const MAX_NAMES: usize = 256;

/// A map of shared memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct SharedMap {
    /// The addresses at which it begins and ends.
    pub(super) start: usize,
    pub(super) end: usize,
    /// What the process may do there (`PROT_`).
    pub(super) protection: usize,
    /// Where it begins in the memory, in bytes.
    pub(super) offset: u64,
    pub(super) place: MemoryPlace,
    /// A descriptor that leads to the memory, and how large the memory was; -1 where there is none.
    pub(super) file: Fd,
    pub(super) size: u64,
    /// The first page that no earlier map of the same memory has.
    pub(super) begin: usize,
    /// Which runs of pages are its own: the first, and the one after the last.
    pub(super) runs: (usize, usize),
    /// Whether its contents are noted.
    pub(super) is_kept: bool,
    /// Whether it was made for the copy, and is not the code's.
    pub(super) is_temporary: bool,
}

impl SharedMap {
    /// No map.
    pub(super) const NONE: SharedMap = SharedMap {
        start: 0,
        end: 0,
        protection: 0,
        offset: 0,
        place: MemoryPlace {
            device: 0,
            inode: 0,
        },
        file: -1,
        size: 0,
        begin: 0,
        runs: (0, 0),
        is_kept: false,
        is_temporary: false,
    };

    /// The page of the memory that it begins with.
    pub(super) fn first_page(&self) -> usize {
        self.offset as usize / page_bytes()
    }

    /// The page after its last one.
    pub(super) fn last_page(&self) -> usize {
        self.first_page() + (self.end - self.start) / page_bytes()
    }

    /// Where a page of the memory is mapped by it.
    pub(super) fn address_of(&self, page: usize) -> usize {
        self.start + (page - self.first_page()) * page_bytes()
    }
}

/// Pages with contents, one after the other, and the slots of the shadow that they are in.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) first: usize,
    pub(super) count: usize,
    pub(super) slot: usize,
}

/// All that is known. It lies in memory of its own, which is zero at first.
pub(super) struct Tables {
    pub(super) maps: [SharedMap; MAX_MAPS],
    pub(super) map_count: usize,
    pub(super) runs: [Run; MAX_RUNS],
    pub(super) run_count: usize,
    pub(super) names: [NamedFile; MAX_NAMES],
    pub(super) name_count: usize,
    /// Whether `/dev/shm` had more files than are noted.
    pub(super) has_more_names: bool,
    /// How many slots of the shadow are in use.
    pub(super) slot_count: usize,
}

static TABLES: AtomicPtr<Tables> = AtomicPtr::new(null_mut());

impl Tables {
    /// The tables of this process, if it ever had shared memory. One thread uses them: the others have stopped, or are not there yet.
    pub(super) fn of_process() -> Option<&'static mut Tables> {
        // SAFETY: memory that `of_process_or_new` has mapped, or null; no second reference is made while this one is used.
        unsafe { TABLES.load(SeqCst).as_mut() }
    }

    pub(super) fn of_process_or_new() -> Option<&'static mut Tables> {
        const READ_WRITE: usize = 3;
        const PRIVATE_ANONYMOUS: usize = 0x22;
        if TABLES.load(SeqCst).is_null() {
            let words = [
                0,
                size_of::<Tables>(),
                READ_WRITE,
                PRIVATE_ANONYMOUS,
                usize::MAX,
                0,
            ];
            // SAFETY: a fresh mapping.
            let base = unsafe { syscall(nr::MMAP, words) }.ok()?;
            TABLES.store(base as *mut Tables, SeqCst);
        }
        Tables::of_process()
    }

    pub(super) fn forget(&mut self) {
        (self.map_count, self.run_count) = (0, 0);
        (self.name_count, self.slot_count) = (0, 0);
        self.has_more_names = false;
    }

    pub(super) fn maps_and_runs(&mut self) -> (&mut [SharedMap], &[Run]) {
        (
            &mut self.maps[..self.map_count],
            &self.runs[..self.run_count],
        )
    }

    /// Maps of the same memory come one after the other, from its beginning to its end; new memory comes last, as its numbers are higher. So
    /// what was there before keeps its slots.
    pub(super) fn sort_maps(&mut self) {
        self.maps[..self.map_count]
            .sort_unstable_by_key(|map| (map.place, map.offset, !map.protection & 2, map.start));
    }

    pub(super) fn add_map(&mut self, map: SharedMap) -> bool {
        match self.maps.get_mut(self.map_count) {
            Some(slot) => {
                *slot = map;
                self.map_count += 1;
                true
            }
            None => false,
        }
    }

    /// Adds a page to the last run, or begins a new one. `first_run` is the first that may be added to. Its slot is the next one.
    pub(super) fn add_page(&mut self, first_run: usize, page: usize) -> bool {
        let last = self.runs[first_run..self.run_count].last_mut();
        if let Some(run) = last
            && run.first + run.count == page
        {
            run.count += 1;
            return true;
        }
        let Some(run) = self.runs.get_mut(self.run_count) else {
            return false;
        };
        *run = Run {
            first: page,
            count: 1,
            slot: self.slot_count,
        };
        self.run_count += 1;
        true
    }
}
