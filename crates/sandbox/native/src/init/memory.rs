//! The memory of init, which came from Python and is nearly all of no use to it.

use crate::sys::{Result, nr, syscall};
use core::mem::MaybeUninit;

/// Memory for one `T`, for as long as this process lives. For what would be too much on a stack that the inits of forks of forks share.
pub fn allocate<T>() -> Result<&'static mut MaybeUninit<T>> {
    const READ_WRITE: usize = 3;
    const PRIVATE_ANONYMOUS: usize = 0x22;
    const { assert!(align_of::<T>() <= 4096) };
    let words = [
        0,
        size_of::<T>(),
        READ_WRITE,
        PRIVATE_ANONYMOUS,
        usize::MAX,
        0,
    ];
    // SAFETY: fresh memory, large enough and aligned to a page, that no other code knows of; it need not be initialised.
    unsafe { syscall(nr::MMAP, words).map(|address| &mut *(address as *mut MaybeUninit<T>)) }
}

/// A value that this process has in common with the children that it forks.
pub fn allocate_shared<T: Copy>(value: T) -> Result<&'static mut T> {
    const READ_WRITE: usize = 3;
    const SHARED_ANONYMOUS: usize = 0x21;
    const { assert!(align_of::<T>() <= 4096) };
    let words = [
        0,
        size_of::<T>(),
        READ_WRITE,
        SHARED_ANONYMOUS,
        usize::MAX,
        0,
    ];
    // SAFETY: fresh memory, large enough and aligned to a page, that no other code knows of.
    let place =
        unsafe { syscall(nr::MMAP, words).map(|address| &mut *(address as *mut MaybeUninit<T>)) }?;
    Ok(place.write(value))
}

/// From now on a child of init has only what native code needs. To copy the tables of all the rest would take milliseconds.
#[cfg(standalone)]
pub fn keep_what_init_needs() {
    use crate::arch::{own_image, page_bytes, thread_pointer};
    const NOT_IN_CHILDREN: usize = 10;
    const IN_CHILDREN: usize = 11;
    /// What is below the frame that this runs in.
    const STACK_BYTES: usize = 512 << 10;

    let page = page_bytes();
    let (start, end, stack) = own_image();
    let advise = |from: usize, to: usize, advice: usize| {
        if from < to {
            // Gaps are no mistake: what is mapped in between is dealt with.
            // SAFETY: no memory changes, only what a fork copies.
            let _ = unsafe { syscall(nr::MADVISE, [from, to - from, advice]) };
        }
    };
    let below_stack = (stack - STACK_BYTES) & !(page - 1);
    advise(16 * page, start & !(page - 1), NOT_IN_CHILDREN);
    advise(end.next_multiple_of(page), below_stack, NOT_IN_CHILDREN);
    if let Ok(thread) = thread_pointer() {
        // The kernel writes there which processor a thread is on.
        let around = thread & !(page - 1);
        advise(around - page, around + 2 * page, IN_CHILDREN);
    }
}

/// The host's own copy of this code never becomes an init.
#[cfg(not(standalone))]
pub fn keep_what_init_needs() {}
