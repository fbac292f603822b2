//! What the kernel knows of the calling thread, and waiting for a number to change (`futex`).

use crate::sys::{Pid, Result, nr, syscall};
use core::sync::atomic::AtomicU32;

pub(super) fn own_id() -> Pid {
    // SAFETY: no arguments.
    unsafe { syscall(nr::GETTID, []) }.unwrap_or(0) as Pid
}

pub(super) fn own_id_address() -> Result<usize> {
    const GET_TID_ADDRESS: usize = 40;
    let mut address = 0usize;
    let words = [GET_TID_ADDRESS, &raw mut address as usize, 0, 0, 0];
    // SAFETY: a word that lives through the call.
    unsafe { syscall(nr::PRCTL, words) }.map(|_| address)
}

pub(super) fn robust_list() -> Result<(usize, usize)> {
    let (mut list, mut bytes) = (0usize, 0usize);
    let words = [0, &raw mut list as usize, &raw mut bytes as usize];
    // SAFETY: two words that live through the call.
    unsafe { syscall(nr::GET_ROBUST_LIST, words) }.map(|_| (list, bytes))
}

pub(super) fn own_name() -> [u8; 16] {
    const GET_NAME: usize = 16;
    let mut name = [0; 16];
    // SAFETY: a buffer of the size that the kernel fills.
    let _ = unsafe { syscall(nr::PRCTL, [GET_NAME, name.as_mut_ptr() as usize, 0, 0, 0]) };
    name
}

/// Fills in the processors that the calling thread may run on, and says how many bytes that took; 0 if the kernel has more of them.
pub(super) fn own_processors(mask: &mut [u8; 128]) -> usize {
    let words = [0, mask.len(), mask.as_mut_ptr() as usize];
    // SAFETY: the buffer is ours and its length is told.
    unsafe { syscall(nr::SCHED_GETAFFINITY, words) }.unwrap_or(0)
}

/// Waits until a number is not `seen` any more, at most a millisecond.
pub(super) fn wait_for_change(number: &AtomicU32, seen: u32) {
    const WAIT: usize = 0;
    let time = [0u64, 1_000_000];
    let words = [
        number.as_ptr() as usize,
        WAIT,
        seen as usize,
        time.as_ptr() as usize,
    ];
    // SAFETY: the number is static; the time lives through the call.
    let _ = unsafe { syscall(nr::FUTEX, words) };
}

pub(super) fn wake_all(number: &AtomicU32) {
    const WAKE: usize = 1;
    // SAFETY: the number is static.
    let _ = unsafe {
        syscall(
            nr::FUTEX,
            [number.as_ptr() as usize, WAKE, i32::MAX as usize],
        )
    };
}
