//! The shadow: private memory with the contents of shared pages, one slot for each.

use crate::arch::page_bytes;
use crate::sys::{Errno, nr, syscall};
use crate::walls::data_limit;
use core::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// The most that is noted, for one session.
pub(super) const MAX_BYTES: usize = 64 << 20;
/// The part of the memory limit that may be noted.
const SHARE_OF_MEMORY: u64 = 8;
/// How much of the shadow is made usable at once.
const STEP_BYTES: usize = 1 << 20;

const READ_WRITE: usize = 3;

static BASE: AtomicUsize = AtomicUsize::new(0);
/// How many bytes of it can be used.
static USABLE: AtomicUsize = AtomicUsize::new(0);
/// How many of its slots hold something.
static FILLED: AtomicUsize = AtomicUsize::new(0);

/// How many pages can be noted.
pub(super) fn most_slots() -> usize {
    let bytes = match data_limit::limit() {
        0 => MAX_BYTES as u64,
        limit => (limit / SHARE_OF_MEMORY).min(MAX_BYTES as u64),
    };
    bytes as usize / page_bytes()
}

/// The address of a slot, which is made usable. `None` if there is no memory for it.
pub(super) fn slot(number: usize) -> Option<usize> {
    if BASE.load(SeqCst) == 0 {
        reserve()?;
    }
    let end = (number + 1) * page_bytes();
    while USABLE.load(SeqCst) < end {
        grow()?;
    }
    Some(BASE.load(SeqCst) + number * page_bytes())
}

/// The address of a slot that is usable.
pub(super) fn present_slot(number: usize) -> Option<usize> {
    let is_there = (number + 1) * page_bytes() <= USABLE.load(SeqCst);
    is_there.then(|| BASE.load(SeqCst) + number * page_bytes())
}

/// Addresses alone: what cannot be written does not count as data.
fn reserve() -> Option<()> {
    const PRIVATE_ANONYMOUS_NORESERVE: usize = 0x4022;
    let words = [0, MAX_BYTES, 0, PRIVATE_ANONYMOUS_NORESERVE, usize::MAX, 0];
    // SAFETY: a fresh mapping.
    let base = unsafe { syscall(nr::MMAP, words) }.ok()?;
    BASE.store(base, SeqCst);
    Some(())
}

fn grow() -> Option<()> {
    let usable = USABLE.load(SeqCst);
    if usable + STEP_BYTES > MAX_BYTES {
        return None;
    }
    let words = [BASE.load(SeqCst) + usable, STEP_BYTES, READ_WRITE];
    // SAFETY: a part of our own mapping.
    let protect = || unsafe { syscall(nr::MPROTECT, words) };
    let outcome = match protect() {
        // The limit counts what is only mapped.
        Err(Errno::NOMEM)
            if data_limit::make_room(nr::MPROTECT, STEP_BYTES as u64, READ_WRITE as u64, 0)
                == 1 =>
        {
            protect()
        }
        outcome => outcome,
    };
    outcome.ok()?;
    USABLE.store(usable + STEP_BYTES, SeqCst);
    Some(())
}

/// Lets a slot hold what a page holds. A slot that holds it already is not written to: a copy of this process shares it.
///
/// # Safety
/// Both must be pages that can be read, and the slot one of the shadow.
pub(super) unsafe fn refresh(slot: usize, page: usize, number: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if number >= FILLED.load(SeqCst) || !is_same(slot, page) {
            copy_page(slot, page);
        }
    }
    FILLED.fetch_max(number + 1, SeqCst);
}

/// From now on so many slots are in use. The memory of the others is given back.
pub(super) fn keep(count: usize) {
    const DONT_NEED: usize = 4;
    let filled = FILLED.load(SeqCst);
    if filled > count {
        let start = BASE.load(SeqCst) + count * page_bytes();
        // SAFETY: slots that nothing uses.
        let _ = unsafe {
            syscall(
                nr::MADVISE,
                [start, (filled - count) * page_bytes(), DONT_NEED],
            )
        };
        FILLED.store(count, SeqCst);
    }
}

/// Whether two pages hold the same. In blocks, so that the compiler uses wide registers.
///
/// # Safety
/// Both must be pages that can be read.
pub(super) unsafe fn is_same(one: usize, other: usize) -> bool {
    const BLOCK: usize = 32;
    let (one, other) = (one as *const u64, other as *const u64);
    let words = page_bytes() / size_of::<u64>();
    let mut at = 0;
    while at < words {
        let mut difference = 0;
        for index in at..at + BLOCK {
            // SAFETY: the caller's promise. A page is a whole number of blocks.
            difference |= unsafe { *one.add(index) ^ *other.add(index) };
        }
        if difference != 0 {
            return false;
        }
        at += BLOCK;
    }
    true
}

/// Copies one page over another.
///
/// # Safety
/// The first must be a page that can be written, the second one that can be read.
pub(super) unsafe fn copy_page(to: usize, from: usize) {
    // SAFETY: the caller's promise; pages do not overlap.
    unsafe { core::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, page_bytes()) };
}
