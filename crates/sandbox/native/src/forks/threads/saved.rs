//! What is kept of the stopped threads: an entry for each, and the counters that threads wait for.

use super::MAX_THREADS;
use core::cell::UnsafeCell;
use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicIsize, AtomicU32, AtomicUsize, Ordering::SeqCst,
};

/// What is needed to make a thread anew.
#[repr(C)]
pub(super) struct SavedThread {
    /// The address of its `ucontext`, in the signal frame on its stack.
    pub(super) context: usize,
    /// Its thread pointer.
    pub(super) thread_pointer: usize,
    /// Where libc keeps its id, which the kernel clears when the thread ends.
    pub(super) id_address: usize,
    pub(super) robust_list: usize,
    pub(super) robust_bytes: usize,
    /// Written last: an entry whose id is 0 is not complete.
    pub(super) id: AtomicI32,
    pub(super) new_id: AtomicI32,
    pub(super) name: [u8; 16],
    /// On which processors it may run; how many bytes of it the kernel filled in.
    pub(super) processors: [u8; 128],
    pub(super) processors_bytes: usize,
}

pub(super) struct Entries(UnsafeCell<[SavedThread; MAX_THREADS]>);

// SAFETY: each stopped thread writes to the entry that it claimed, and the thread that stopped it reads them only after that.
unsafe impl Sync for Entries {}

pub(super) static ENTRIES: Entries = Entries(UnsafeCell::new(
    [const {
        SavedThread {
            context: 0,
            thread_pointer: 0,
            id_address: 0,
            robust_list: 0,
            robust_bytes: 0,
            id: AtomicI32::new(0),
            new_id: AtomicI32::new(0),
            name: [0; 16],
            processors: [0; 128],
            processors_bytes: 0,
        }
    }; MAX_THREADS],
));

/// Whether threads that get the signal shall stop.
pub(super) static IS_STOPPING: AtomicBool = AtomicBool::new(false);
/// How many entries are taken.
pub(super) static CLAIMED: AtomicU32 = AtomicU32::new(0);
/// How many threads have stopped.
pub(super) static PARKED: AtomicU32 = AtomicU32::new(0);
/// Changes when the stopped threads shall go on.
pub(super) static RELEASES: AtomicU32 = AtomicU32::new(0);
/// Changes when the stopped threads shall part from a fork before they go on.
pub(super) static SEPARATIONS: AtomicU32 = AtomicU32::new(0);
/// How many threads of a copy run again.
pub(super) static RESTARTED: AtomicU32 = AtomicU32::new(0);
pub(super) static SEQUENCE_OFFSET: AtomicIsize = AtomicIsize::new(0);
pub(super) static SEQUENCE_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Empties the entries of the last stop.
pub(super) fn forget_entries() {
    let count = (CLAIMED.swap(0, SeqCst) as usize).min(MAX_THREADS);
    for index in 0..count {
        // SAFETY: no thread is stopped, so none writes to an entry; the id is atomic.
        unsafe { &(*entry(index)).id }.store(0, SeqCst);
    }
    PARKED.store(0, SeqCst);
}

pub(super) fn entry(index: usize) -> *mut SavedThread {
    ENTRIES.0.get().cast::<SavedThread>().wrapping_add(index)
}
