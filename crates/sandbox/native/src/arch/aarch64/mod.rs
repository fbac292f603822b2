//! What differs on AArch64: numbers of system calls, flags, structures and instructions. The module for x86-64 has the same names.

#[cfg(standalone)]
mod memory;
pub mod numbers;
pub mod registers;
pub mod restart_code;
#[cfg(standalone)]
mod start;
mod threads;

use crate::sys::{Pid, Result, syscall};
use core::arch::asm;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use numbers as nr;

#[cfg(standalone)]
pub use start::RELATIVE_RELOCATION;
pub use threads::{clone_onto_stack, resume_context, return_from_signal, start_thread};

/// The kernel's name of this kind of processor in what the filter sees (`AUDIT_ARCH_AARCH64`). Calls of 32-bit programs have another.
pub const AUDIT_ARCHITECTURE: u32 = 0xC000_00B7;

/// The signature before the code that a restartable sequence is left by, as glibc registers it.
pub const SEQUENCE_SIGNATURE: usize = 0xD428_BC00;

/// Flags of `open` that differ between kinds of processors.
pub mod open_flags {
    #![allow(missing_docs)]
    pub const DIRECT: usize = 0o200_000;
    pub const DIRECTORY: usize = 0o40_000;
    pub const NOFOLLOW: usize = 0o100_000;
}

/// The words of `struct stat`, which has 128 bytes.
pub type StatWords = [u64; 16];

/// The mode of a file, and how many names it has.
pub fn mode_and_names(words: &StatWords) -> (u32, u64) {
    // Both are halves of the third word.
    (words[2] as u32, words[2] >> 32)
}

/// `struct epoll_event`: the events that are waited for, and the number that the code gave with them.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpollEvent {
    /// The events that are waited for.
    pub events: u32,
    /// The number that the caller gave with the descriptor.
    pub data: u64,
}

/// Enters the kernel. Returns what the kernel does: an error is a negative number.
///
/// # Safety
/// The arguments must be what the numbered call expects; pointers must be valid for what it does with them.
#[inline(always)]
pub unsafe fn enter_kernel(number: usize, arguments: [usize; 6]) -> isize {
    let [first, second, third, fourth, fifth, sixth] = arguments;
    let outcome: isize;
    // SAFETY: the caller vouches for the arguments; the kernel keeps all registers but the first.
    unsafe {
        asm!(
            "svc #0",
            in("x8") number,
            inlateout("x0") first as isize => outcome,
            in("x1") second,
            in("x2") third,
            in("x3") fourth,
            in("x4") fifth,
            in("x5") sixth,
            options(nostack),
        );
    }
    outcome
}

/// The arguments of `clone` in the order of this processor: flags, stack, where the parent is told the id, thread pointer, where the child is told
/// the id.
pub const fn clone_arguments(
    flags: usize,
    stack: usize,
    parent_id: usize,
    child_id: usize,
    thread_pointer: usize,
) -> [usize; 5] {
    [flags, stack, parent_id, thread_pointer, child_id]
}

/// The thread pointer of the calling thread: `tpidr_el0`.
pub fn thread_pointer() -> Result<usize> {
    let address: usize;
    // SAFETY: only a register is read.
    unsafe {
        asm!("mrs {address}, tpidr_el0", address = out(reg) address, options(nomem, nostack, preserves_flags));
    }
    Ok(address)
}

/// The size of a page of memory: kernels of this processor are built for 4, 16 or 64 KiB. The kernel is asked once.
pub fn page_bytes() -> usize {
    static KNOWN: AtomicUsize = AtomicUsize::new(0);
    const SIZES: [usize; 3] = [4 << 10, 16 << 10, 64 << 10];
    match KNOWN.load(Relaxed) {
        0 => {
            // Advice about no memory at all is refused only for an address that is not at the start of a page.
            // SAFETY: the length is 0.
            let is_page = |size: &usize| unsafe { syscall(nr::MADVISE, [*size, 0, 0]) }.is_ok();
            let [.., largest] = SIZES;
            let bytes = SIZES.into_iter().find(is_page).unwrap_or(largest);
            KNOWN.store(bytes, Relaxed);
            bytes
        }
        bytes => bytes,
    }
}

/// The addresses at which this library begins and ends, and where the stack is.
#[cfg(standalone)]
#[inline(always)]
pub fn own_image() -> (usize, usize, usize) {
    let (start, end, stack): (usize, usize, usize);
    // SAFETY: only addresses are computed.
    unsafe {
        asm!(
            "adrp {start}, __ehdr_start",
            "add {start}, {start}, :lo12:__ehdr_start",
            "adrp {end}, _end",
            "add {end}, {end}, :lo12:_end",
            "mov {stack}, sp",
            ".hidden _end",
            start = out(reg) start,
            end = out(reg) end,
            stack = out(reg) stack,
            options(nomem, nostack, preserves_flags),
        );
    }
    (start, end, stack)
}

/// A function that runs on another stack, and forks there. It gets one word, and returns 0 in the child, another number in the parent.
pub type OnStack = extern "C" fn(usize) -> Pid;
