//! System calls, and the errors that they return.

use crate::arch::enter_kernel;

/// A kernel error number, as in `errno.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// Operation not permitted.
    pub const PERM: Errno = Errno(1);
    /// No such file.
    pub const NOENT: Errno = Errno(2);
    /// No such process.
    pub const SRCH: Errno = Errno(3);
    /// Interrupted by a signal.
    pub const INTR: Errno = Errno(4);
    /// Input or output failed.
    pub const IO: Errno = Errno(5);
    /// No such device, or no process reads from a pipe.
    pub const NXIO: Errno = Errno(6);
    /// There is no such descriptor.
    pub const BAD_DESCRIPTOR: Errno = Errno(9);
    /// No child processes.
    pub const CHILD: Errno = Errno(10);
    /// Try again.
    pub const AGAIN: Errno = Errno(11);
    /// Too much at once.
    pub const TOO_BIG: Errno = Errno(7);
    /// Access denied.
    pub const ACCES: Errno = Errno(13);
    /// No such memory.
    pub const FAULT: Errno = Errno(14);
    /// It is there already.
    pub const EXIST: Errno = Errno(17);
    /// On another file system.
    pub const XDEV: Errno = Errno(18);
    /// It is a directory.
    pub const ISDIR: Errno = Errno(21);
    /// Not a directory.
    pub const NOT_DIRECTORY: Errno = Errno(20);
    /// Invalid argument.
    pub const INVAL: Errno = Errno(22);
    /// Not enough memory.
    pub const NOMEM: Errno = Errno(12);
    /// Too many open files.
    pub const MFILE: Errno = Errno(24);
    /// The file would be too large.
    pub const FBIG: Errno = Errno(27);
    /// The file system is full.
    pub const NOSPC: Errno = Errno(28);
    /// The other side has gone.
    pub const PIPE: Errno = Errno(32);
    /// A name or a path is too long.
    pub const NAME_TOO_LONG: Errno = Errno(36);
    /// Not implemented by this kernel.
    pub const NOSYS: Errno = Errno(38);
    /// Too many links on the way.
    pub const LOOP: Errno = Errno(40);
    /// There is no such attribute.
    pub const NO_DATA: Errno = Errno(61);
    /// A message of ours that makes no sense.
    pub const PROTO: Errno = Errno(71);
    /// The answer does not fit.
    pub const OVERFLOW: Errno = Errno(75);
    /// The address is taken.
    pub const ADDRINUSE: Errno = Errno(98);
}

/// What a system call gives back.
pub type Result<T> = core::result::Result<T, Errno>;

/// Enters the kernel with up to six arguments.
///
/// # Safety
/// The arguments must be what the numbered call expects; pointers must be valid for what it does with them.
#[inline(always)]
pub unsafe fn syscall<const N: usize>(number: usize, arguments: [usize; N]) -> Result<usize> {
    let at = |index: usize| if index < N { arguments[index] } else { 0 };
    let all = [at(0), at(1), at(2), at(3), at(4), at(5)];
    // SAFETY: the caller vouches for the arguments.
    let outcome = unsafe { enter_kernel(number, all) };
    if (-4095..0).contains(&outcome) {
        Err(Errno(-outcome as i32))
    } else {
        Ok(outcome as usize)
    }
}
