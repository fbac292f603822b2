//! Programs of the host's own that must not outlive it.

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
