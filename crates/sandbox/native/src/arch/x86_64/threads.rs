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
            "mov r12, rsp",
            "syscall",
            "test rax, rax",
            "jnz 2f",
            // The helper.
            "mov rdi, r14",
            "call r13",
            "test eax, eax",
            "jz 3f",
            // Still the helper: the call is done.
            "mov edi, 0",
            "mov eax, {exit}",
            "syscall",
            // The helper's child: back to our own frame.
            "3:",
            "mov rsp, r12",
            "xor eax, eax",
            "2:",
            exit = const nr::EXIT,
            inlateout("rax") nr::CLONE as isize => outcome,
            inlateout("rdi") flags => _,
            inlateout("rsi") top => _,
            inlateout("rdx") 0usize => _,
            inlateout("r10") 0usize => _,
            inlateout("r8") 0usize => _,
            in("r13") function,
            in("r14") argument,
            out("r12") _,
            lateout("r9") _,
            lateout("rcx") _,
            lateout("r11") _,
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
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "mov rdi, r12",
            "call r13",
            "ud2",
            "2:",
            inlateout("rax") nr::CLONE as isize => outcome,
            inlateout("rdi") first => _,
            inlateout("rsi") second => _,
            inlateout("rdx") third => _,
            inlateout("r10") fourth => _,
            inlateout("r8") fifth => _,
            in("r12") argument,
            in("r13") function,
            lateout("r9") _,
            lateout("rcx") _,
            lateout("r11") _,
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
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "lock inc dword ptr [{count}]",
            "mov rsp, {context}",
            "mov eax, {sigreturn}",
            "syscall",
            "ud2",
            count = in(reg) count,
            context = in(reg) context,
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
    naked_asm!("mov eax, {sigreturn}", "syscall", "ud2", sigreturn = const nr::RT_SIGRETURN)
}
