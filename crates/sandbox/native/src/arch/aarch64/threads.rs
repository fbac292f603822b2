//! Processes and threads that begin on another stack, and the return from signals.

use super::numbers as nr;
use super::{OnStack, clone_arguments};
use core::arch::{asm, naked_asm};

/// `clone` of a helper that shares the caller's memory, begins at the top of another stack with `function(argument)`, and ends when that
/// returns. Returns as `clone` does.
///
/// There are two ways back here: the caller, with the helper's id; and a child that `function` has forked and in which it returned 0. That child
/// switches from its copy of the helper's stack to its copy of the caller's, and returns 0 as if it had called.
///
/// # Safety
/// `top` is the end of a stack of its own, aligned to 16, that lives until the helper has ended. The flags have `CLONE_VM` and `CLONE_VFORK`.
pub unsafe fn clone_onto_stack(
    flags: usize,
    top: usize,
    function: OnStack,
    argument: usize,
) -> isize {
    let outcome: isize;
    // SAFETY: the caller's promise. Function and argument are in registers that `clone` keeps, the caller's stack pointer in one that the
    // called function preserves.
    unsafe {
        asm!(
            "mov x22, sp",
            "svc #0",
            "cbnz x0, 2f",
            // The helper.
            "mov x0, x20",
            "blr x21",
            "cbz w0, 3f",
            // Still the helper: the call is done.
            "mov x0, #0",
            "mov x8, #{exit}",
            "svc #0",
            // The helper's child: back to our own frame.
            "3:",
            "mov sp, x22",
            "mov x0, #0",
            "2:",
            exit = const nr::EXIT,
            inlateout("x8") nr::CLONE => _,
            inlateout("x0") flags as isize => outcome,
            inlateout("x1") top => _,
            inlateout("x2") 0usize => _,
            inlateout("x3") 0usize => _,
            inlateout("x4") 0usize => _,
            in("x20") argument,
            in("x21") function,
            out("x22") _,
            clobber_abi("C"),
        );
    }
    outcome
}

/// `clone` of a thread that begins at the top of another stack with `function(argument)`, which never returns. `id_address` is where the kernel
/// writes its id, and clears it when the thread ends. Returns as `clone` does.
///
/// # Safety
/// `stack` is the end of a stack of its own, aligned to 16; the thread pointer and the address are those that the thread shall have.
pub unsafe fn start_thread(
    flags: usize,
    stack: usize,
    id_address: usize,
    thread_pointer: usize,
    function: unsafe extern "C" fn(usize) -> !,
    argument: usize,
) -> isize {
    let [first, second, third, fourth, fifth] =
        clone_arguments(flags, stack, id_address, id_address, thread_pointer);
    let outcome: isize;
    // SAFETY: the caller's promise. Function and argument are in registers that `clone` keeps; the new thread never returns here.
    unsafe {
        asm!(
            "svc #0",
            "cbnz x0, 2f",
            "mov x0, x20",
            "blr x21",
            "brk #1",
            "2:",
            inlateout("x8") nr::CLONE => _,
            inlateout("x0") first as isize => outcome,
            inlateout("x1") second => _,
            inlateout("x2") third => _,
            inlateout("x3") fourth => _,
            inlateout("x4") fifth => _,
            in("x20") argument,
            in("x21") function,
            clobber_abi("C"),
        );
    }
    outcome
}

/// Adds one to `count`, then returns from the signal whose `ucontext` is at `context`. After the count the caller's stack may be used by others, so
/// everything is in registers.
///
/// # Safety
/// The context lies in the frame that the kernel made for a signal; from there it takes all registers.
pub unsafe fn resume_context(count: *const u32, context: usize) -> ! {
    /// `siginfo`, which the frame begins with.
    const INFORMATION_BYTES: usize = 128;
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "2:",
            "ldaxr w9, [x1]",
            "add w9, w9, #1",
            "stlxr w10, w9, [x1]",
            "cbnz w10, 2b",
            "mov sp, x2",
            "mov x8, #{sigreturn}",
            "svc #0",
            "brk #1",
            in("x1") count,
            in("x2") context.wrapping_sub(INFORMATION_BYTES),
            sigreturn = const nr::RT_SIGRETURN,
            options(noreturn),
        )
    }
}

/// Where a handler returns to.
///
/// # Safety
/// Only the handler of a signal returns to it.
#[unsafe(naked)]
pub unsafe extern "C" fn return_from_signal() {
    naked_asm!("mov x8, #{sigreturn}", "svc #0", "brk #1", sigreturn = const nr::RT_SIGRETURN)
}
