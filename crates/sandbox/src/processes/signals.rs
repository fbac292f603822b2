//! Signals that would end the host for something that is an ordinary error.

use cellblock_native::sys::{nr, syscall};

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
