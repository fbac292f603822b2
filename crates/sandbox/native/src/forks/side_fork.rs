//! A fork whose child is init's, not the head's.
//!
//! A child of the head would be seen by the user's `os.wait()`. So a helper that shares our memory, and raises no signal
//! when it ends, calls libc's `fork` and is gone; its child is adopted by init at once. A bare `clone(CLONE_PARENT)` would
//! skip the fork handlers that BLAS libraries need.

use crate::arch::clone_onto_stack;
use crate::launch::spawn::LibcFork;
use crate::sys::{self, Errno, Pid, Result, clone_flags, nr, syscall};
use core::ffi::c_void;

const STACK_BYTES: usize = 512 << 10;

/// What the helper is told, and where it leaves its answer. It shares our memory.
struct HelperCall {
    task: Task,
    data: *mut c_void,
    /// The child's id, 0 in the child, or a negative error number.
    outcome: Pid,
}

/// The parent of a helper, which reaps it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum HelperParent {
    /// The process that starts the helper.
    Caller,
    /// Init, the parent of the process that starts the helper.
    Init,
}

/// What a helper does: it returns twice, as `fork` does, or once with a negative error number.
pub type Task = unsafe fn(data: *mut c_void) -> Pid;

/// Forks to the side. The parent gets the child's id.
///
/// # Safety
/// The caller must be the only running thread that uses libc, and have prepared Python for a fork.
pub unsafe fn side_fork(fork: LibcFork) -> Result<sys::Forked> {
    unsafe fn call(fork: *mut c_void) -> Pid {
        // SAFETY: what `side_fork` passed, which lives through the call.
        match unsafe { (*fork.cast::<LibcFork>())() } {
            -1 => -Errno::AGAIN.0,
            pid => pid,
        }
    }
    let mut fork = fork;
    // SAFETY: the caller's promise.
    unsafe { fork_by_helper(HelperParent::Caller, call, (&raw mut fork).cast()) }
}

/// Starts a helper that shares our memory and forks; `data` is what its task is given.
///
/// # Safety
/// As for [`side_fork`]; `data` must be what `task` expects.
pub unsafe fn fork_by_helper(
    parent: HelperParent,
    task: Task,
    data: *mut c_void,
) -> Result<sys::Forked> {
    let stack = Stack::new()?;
    let mut call = HelperCall {
        task,
        data,
        outcome: -Errno::AGAIN.0,
    };
    // SAFETY: the stack is ours, the call outlives the helper: VFORK holds us until it has gone.
    let helper = unsafe { run_on(stack.top(), parent, &raw mut call) };
    if call.outcome == 0 {
        // The child came back on the helper's stack and then onto a copy of ours, see `clone_onto_stack`. The mapping is a copy too.
        drop(stack);
        return Ok(sys::Forked::Child);
    }
    let helper = helper?;
    if parent == HelperParent::Caller {
        // The helper raises no signal when it ends; it must be asked for by this flag.
        const CLONE_CHILDREN: usize = 0x8000_0000;
        // SAFETY: no status is wanted.
        let _ = unsafe { syscall(nr::WAIT4, [helper as usize, 0, CLONE_CHILDREN, 0]) };
    }
    if call.outcome < 0 {
        Err(Errno(-call.outcome))
    } else {
        Ok(sys::Forked::Parent(call.outcome))
    }
}

/// Starts the helper on another stack and waits until it is gone. The helper's child comes back from here as well, with 0.
unsafe fn run_on(top: usize, parent: HelperParent, call: *mut HelperCall) -> Result<Pid> {
    let flags = clone_flags::VM
        | clone_flags::VFORK
        | match parent {
            HelperParent::Caller => 0,
            HelperParent::Init => clone_flags::PARENT,
        };
    // SAFETY: the helper starts with a stack of its own, aligned to 16, and is given the call.
    let outcome = unsafe { clone_onto_stack(flags, top, run_helper_call, call as usize) };
    if outcome < 0 {
        Err(Errno(-outcome as i32))
    } else {
        Ok(outcome as Pid)
    }
}

/// Runs in the helper; returns twice, in the helper with the child's id and in the child with 0.
extern "C" fn run_helper_call(call: usize) -> Pid {
    let call = call as *mut HelperCall;
    // SAFETY: the call outlives the helper.
    unsafe {
        let outcome = ((*call).task)((*call).data);
        (*call).outcome = outcome;
        outcome
    }
}

struct Stack(usize);

impl Stack {
    fn new() -> Result<Stack> {
        const READ_WRITE: usize = 3;
        const PRIVATE_ANONYMOUS_NORESERVE: usize = 0x4022;
        // SAFETY: a fresh mapping.
        let base = unsafe {
            syscall(
                nr::MMAP,
                [
                    0,
                    STACK_BYTES,
                    READ_WRITE,
                    PRIVATE_ANONYMOUS_NORESERVE,
                    usize::MAX,
                    0,
                ],
            )
        }?;
        Ok(Stack(base))
    }

    fn top(&self) -> usize {
        self.0 + STACK_BYTES
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: our own mapping, on which no code runs any more.
        let _ = unsafe { syscall(nr::MUNMAP, [self.0, STACK_BYTES]) };
    }
}
