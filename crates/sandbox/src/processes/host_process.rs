//! Settings of the host's own process, and of programs that it starts.

use cellblock_native::sys::{nr, syscall};
use rustix::process::{Signal, set_parent_process_death_signal};
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
