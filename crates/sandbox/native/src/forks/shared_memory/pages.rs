//! Pages of shared memory: which have contents, and putting them back.
//!
//! Memory can be shorter than a map of it, and to touch what lies beyond ends the process. So a page that may not be there is touched by the
//! kernel first, which returns an error.

use super::shadow::{copy_page, is_same};
use super::tables::SharedMap;
use crate::arch::page_bytes;
use crate::sys::{nr, syscall};
use core::ops::Range;

const READ: usize = 1;
const WRITE: usize = 2;

/// How many pages the kernel is asked about at once.
const CHUNK: usize = 2048;
/// A map that is larger is left out: to look at all its pages takes too long.
const MAX_MAP_BYTES: usize = 4 << 30;

/// Whether all shared memory of the machine is resident, as nothing was swapped out. Then a page that is not resident has no contents.
pub(crate) fn are_all_resident() -> bool {
    // `struct sysinfo`: uptime, three loads, total and free memory, shared, buffers, total and free swap, …
    let mut words = [0u64; 32];
    // SAFETY: the structure has 112 bytes.
    let outcome = unsafe { syscall(nr::SYSINFO, [words.as_mut_ptr() as usize]) };
    outcome.is_ok() && words[8] == words[9]
}

/// Calls `visit` with every page that has contents, from the page `begin` on, until `visit` says no. Says whether all were visited.
pub(super) fn each_with_contents(
    map: &SharedMap,
    begin: usize,
    are_all_resident: bool,
    mut visit: impl FnMut(usize) -> bool,
) -> bool {
    if map.end - map.start > MAX_MAP_BYTES {
        return false;
    }
    let mut resident = [0u8; CHUNK];
    let mut page = begin;
    while page < map.last_page() {
        let count = CHUNK.min(map.last_page() - page);
        if !look(map, page, &mut resident[..count]) {
            return false;
        }
        for (index, is_resident) in resident[..count].iter().enumerate() {
            let address = map.address_of(page + index);
            let has_contents = is_resident & 1 != 0 || !are_all_resident && reads(address);
            if has_contents && !visit(page + index) {
                return false;
            }
        }
        page += count;
    }
    true
}

/// `mincore`
fn look(map: &SharedMap, page: usize, resident: &mut [u8]) -> bool {
    let words = [
        map.address_of(page),
        resident.len() * page_bytes(),
        resident.as_mut_ptr() as usize,
    ];
    // SAFETY: one byte for each page.
    unsafe { syscall(nr::MINCORE, words) }.is_ok()
}

fn is_resident(map: &SharedMap, page: usize) -> bool {
    let mut resident = [0];
    look(map, page, &mut resident) && resident[0] & 1 != 0
}

/// Whether a page can be read. All signals are blocked, so the kernel reads a signal mask there that changes nothing.
fn reads(address: usize) -> bool {
    const BLOCK: usize = 0;
    // SAFETY: the kernel reads eight bytes, or returns an error.
    unsafe { syscall(nr::RT_SIGPROCMASK, [BLOCK, address, 0, 8]) }.is_ok()
}

/// Whether a page can be written: the kernel writes eight bytes to it.
fn writes(address: usize) -> bool {
    const BLOCK: usize = 0;
    // SAFETY: what is there is written over next.
    unsafe { syscall(nr::RT_SIGPROCMASK, [BLOCK, 0, address, 8]) }.is_ok()
}

/// What may be done with a map. Where that is too little, it is changed until this goes out of scope.
pub(super) struct MapAccess {
    start: usize,
    bytes: usize,
    own: usize,
    present: usize,
}

impl MapAccess {
    pub(super) fn to(map: &SharedMap) -> MapAccess {
        MapAccess {
            start: map.start,
            bytes: map.end - map.start,
            own: map.protection,
            present: map.protection,
        }
    }

    pub(super) fn can_read(&mut self) -> bool {
        self.present & READ != 0 || self.protect(self.own | READ)
    }

    pub(super) fn can_write(&mut self) -> bool {
        self.present & WRITE != 0 || self.protect(self.own | READ | WRITE)
    }

    fn protect(&mut self, protection: usize) -> bool {
        // SAFETY: a map of this process, whose threads have stopped. What it may do is put back.
        let outcome = unsafe { syscall(nr::MPROTECT, [self.start, self.bytes, protection]) };
        if outcome.is_ok() {
            self.present = protection;
        }
        outcome.is_ok()
    }
}

impl Drop for MapAccess {
    fn drop(&mut self) {
        if self.present != self.own {
            let _ = self.protect(self.own);
        }
    }
}

/// Lets a page hold what a slot of the shadow holds. Returns how many bytes are lost: none, or a page.
pub(super) fn put_page_back(
    map: &SharedMap,
    page: usize,
    slot: usize,
    access: &mut MapAccess,
) -> u64 {
    let address = map.address_of(page);
    // SAFETY: a page that is there and can be read, and a slot of the shadow.
    if is_resident(map, page) && access.can_read() && unsafe { is_same(address, slot) } {
        return 0;
    }
    if !access.can_write() || !writes(address) {
        return page_bytes() as u64;
    }
    // SAFETY: the page can be written; nothing else runs in this process.
    unsafe { copy_page(address, slot) };
    0
}

/// Lets pages hold nothing, as before. Returns how many bytes are lost.
pub(super) fn clear(map: &SharedMap, pages: Range<usize>, access: &mut MapAccess) -> u64 {
    const REMOVE: usize = 9;
    if pages.is_empty() {
        return 0;
    }
    let bytes = pages.len() * page_bytes();
    let words = [map.address_of(pages.start), bytes, REMOVE];
    // SAFETY: pages of shared memory that held nothing when this process was copied.
    let remove = || unsafe { syscall(nr::MADVISE, words) }.is_ok();
    if remove() || access.can_write() && remove() {
        return 0;
    }
    // Without that call they are filled with zeros.
    pages
        .filter(|page| is_resident(map, *page))
        .map(|page| {
            let address = map.address_of(page);
            if !access.can_write() || !writes(address) {
                return page_bytes() as u64;
            }
            // SAFETY: the page can be written; nothing else runs in this process.
            unsafe { core::ptr::write_bytes(address as *mut u8, 0, page_bytes()) };
            0
        })
        .sum()
}
