//! The first instructions when this shared object is executed.

use crate::launch::start::start;
use core::arch::global_asm;

/// The kind of relocation that adds the base (`R_AARCH64_RELATIVE`).
pub const RELATIVE_RELOCATION: usize = 1027;

global_asm!(
    ".globl _start",
    ".type _start, %function",
    "_start:",
    "mov x29, #0",
    "mov x30, #0",
    "mov x0, sp",
    "adrp x1, _DYNAMIC",
    "add x1, x1, :lo12:_DYNAMIC",
    "adrp x2, __ehdr_start",
    "add x2, x2, :lo12:__ehdr_start",
    "bl {start}",
    "brk #1",
    ".hidden _DYNAMIC",
    ".hidden __ehdr_start",
    start = sym start,
);
