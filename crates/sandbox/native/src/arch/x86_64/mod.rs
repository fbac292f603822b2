//! x86-64.

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
use numbers as nr;

#[cfg(standalone)]
pub use start::RELATIVE_RELOCATION;
pub use threads::{clone_onto_stack, resume_context, return_from_signal, start_thread};

/// The kernel's name of this kind of processor in what the filter sees (`AUDIT_ARCH_X86_64`). Calls of 32-bit programs have another.
pub const AUDIT_ARCHITECTURE: u32 = 0xC000_003E;

/// The signature before the code that a restartable sequence is left by, as glibc registers it.
pub const SEQUENCE_SIGNATURE: usize = 0x5305_3053;

/// Flags of `open` that differ between kinds of processors.
pub mod open_flags {
    #![allow(missing_docs)]
    pub const DIRECT: usize = 0o40_000;
    pub const DIRECTORY: usize = 0o200_000;
    pub const NOFOLLOW: usize = 0o400_000;
}

/// The words of `struct stat`, which has 144 bytes.
pub type StatWords = [u64; 18];

/// The mode of a file, and how many names it has.
pub fn mode_and_names(words: &StatWords) -> (u32, u64) {
    // The mode is the low half of the fourth word.
    (words[3] as u32, words[2])
}

/// `struct epoll_event`: the events that are waited for, and the number that the code gave with them.
#[repr(C, packed)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpollEvent {
    /// Which events.
    pub events: u32,
    /// The code's own number.
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
    // SAFETY: the caller vouches for the arguments; the clobbers are the kernel's calling convention.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => outcome,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            in("r10") fourth,
            in("r8") fifth,
            in("r9") sixth,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    outcome
}

/// The arguments of `clone` in the order of this processor: flags, stack, where the parent is told the id, where the child is, thread pointer.
pub const fn clone_arguments(
    flags: usize,
    stack: usize,
    parent_id: usize,
    child_id: usize,
    thread_pointer: usize,
) -> [usize; 5] {
    [flags, stack, parent_id, child_id, thread_pointer]
}

/// The thread pointer of the calling thread: the base of `fs`.
pub fn thread_pointer() -> Result<usize> {
    const GET_FS: usize = 0x1003;
    let mut address = 0usize;
    // SAFETY: a word that lives through the call.
    unsafe { syscall(nr::ARCH_PRCTL, [GET_FS, &raw mut address as usize]) }.map(|_| address)
}

/// The size of a page of memory.
pub const fn page_bytes() -> usize {
    4096
}

/// The addresses at which this library begins and ends, and where the stack is.
#[cfg(standalone)]
#[inline(always)]
pub fn own_image() -> (usize, usize, usize) {
    let (start, end, stack): (usize, usize, usize);
    // SAFETY: only addresses are computed.
    unsafe {
        asm!(
            "lea {start}, [rip + __ehdr_start]",
            "lea {end}, [rip + _end]",
            "mov {stack}, rsp",
            start = out(reg) start,
            end = out(reg) end,
            stack = out(reg) stack,
            options(nomem, nostack, preserves_flags),
        );
    }
    (start, end, stack)
}

/// What a function that runs on another stack is given, and returns: 0 in the child that it has forked, another number in itself.
pub type OnStack = extern "C" fn(usize) -> Pid;
