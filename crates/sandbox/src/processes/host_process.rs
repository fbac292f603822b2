//! Settings of the host's own process, and of programs that it starts.

use cellblock_native::sys::{nr, syscall};
use rustix::process::{Signal, getpriority_process, set_parent_process_death_signal};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// The kernel ends the program when the thread that starts it is gone, however that happened.
pub fn end_with_parent(command: &mut Command) {
    let tie = || Ok(set_parent_process_death_signal(Some(Signal::TERM))?);
    // SAFETY: between `fork` and `exec` it makes one system call, which touches no memory.
    unsafe {
        command.pre_exec(tie);
    }
}

/// Lets the calling thread run before the processes of sessions when processors are short.
///
/// The kernel gives it a processor soon after it wakes (a short slice, from Linux 6.12 on), which needs no privilege and takes no time from
/// others. With the privilege (`CAP_SYS_NICE`) it has a higher priority as well. What the thread starts has neither.
pub fn run_before_sessions() {
    /// `struct sched_attr`: size and policy, flags, niceness, slice, deadline, period.
    const BYTES: u64 = 48;
    const RESET_ON_FORK: u64 = 1;
    const SLICE_NANOSECONDS: u64 = 100_000;
    const NICER_BY: i32 = 10;
    let now = getpriority_process(None).unwrap_or(0);
    for niceness in [(now - NICER_BY).max(-20), now] {
        let niceness = u64::from(niceness.cast_unsigned());
        let attributes = [BYTES, RESET_ON_FORK, niceness, SLICE_NANOSECONDS, 0, 0];
        // SAFETY: the kernel reads as many bytes as the first word says, and they live through the call.
        let done = unsafe { syscall(nr::SCHED_SETATTR, [0, attributes.as_ptr() as usize, 0]) };
        if done.is_ok() {
            break;
        }
    }
}

/// Ignores `SIGXFSZ` in this process, for good.
///
/// A write beyond the limit of a file's size (`ulimit -f`) then fails with `EFBIG`, instead of ending the process. For
/// programs: a library leaves signals alone.
pub fn ignore_file_size_signal() {
    const SIGXFSZ: usize = 25;
    const IGNORE: u64 = 1;
    const MASK_BYTES: usize = 8;
    let action = [IGNORE, 0, 0, 0];
    // SAFETY: the kernel's `struct sigaction` is four words with an empty mask; it lives through the call, and "ignore" needs
    // no handler.
    let _ = unsafe {
        syscall(
            nr::RT_SIGACTION,
            [SIGXFSZ, action.as_ptr() as usize, 0, MASK_BYTES],
        )
    };
}
