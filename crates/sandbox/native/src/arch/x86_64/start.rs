//! The first instructions when this shared object is executed.

use crate::launch::start::start;
use core::arch::global_asm;

/// The kind of relocation that adds the base (`R_X86_64_RELATIVE`).
pub const RELATIVE_RELOCATION: usize = 8;

global_asm!(
    ".globl _start",
    ".type _start, @function",
    "_start:",
    "xor ebp, ebp",
    "mov rdi, rsp",
    "lea rsi, [rip + _DYNAMIC]",
    "lea rdx, [rip + __ehdr_start]",
    "and rsp, -16",
    "call {start}",
    "ud2",
    ".hidden _DYNAMIC",
    ".hidden __ehdr_start",
    start = sym start,
);
