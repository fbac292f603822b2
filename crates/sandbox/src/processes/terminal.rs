//! Pseudo-terminals: the host holds the master, a process of a session has the other end.
//!
//! They are the host's own, so a session needs no terminals of its own in its view.

use crate::Error;
use cellblock_native::sys::{nr, syscall};
use rustix::fs::{Mode, OFlags};
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

/// The size of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    /// Columns.
    pub columns: u16,
    /// Rows.
    pub rows: u16,
}

/// Makes a terminal of this size. Returns the host's end, which does not block, and the end for a process.
pub fn open_terminal(size: TerminalSize) -> Result<(OwnedFd, OwnedFd), Error> {
    const UNLOCK: usize = 0x4004_5431;
    const OPEN_OTHER_END: usize = 0x5441;
    let failed = |error: rustix::io::Errno| Error::system("making a terminal", error);
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let master = rustix::fs::open("/dev/ptmx", flags, Mode::empty()).map_err(failed)?;
    let locked = 0i32;
    // SAFETY: the request reads one number.
    unsafe { control(&master, UNLOCK, &raw const locked as usize) }.map_err(failed)?;
    let flags = (OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC).bits() as usize;
    // SAFETY: the flags are passed by value.
    let opened = unsafe { control(&master, OPEN_OTHER_END, flags) }.map_err(failed)?;
    // SAFETY: the kernel has just made this descriptor for us alone.
    let end = unsafe { OwnedFd::from_raw_fd(opened as RawFd) };
    resize_terminal(&master, size)?;
    Ok((master, end))
}

/// Gives a terminal another size. The processes in its foreground are told by a signal.
pub fn resize_terminal(master: impl AsFd, size: TerminalSize) -> Result<(), Error> {
    const SET_SIZE: usize = 0x5414;
    let words = [size.rows, size.columns, 0, 0];
    // SAFETY: `struct winsize` is four numbers of 16 bits.
    unsafe { control(&master, SET_SIZE, words.as_ptr() as usize) }
        .map(drop)
        .map_err(|error| Error::system("changing the size of a terminal", error))
}

/// # Safety
/// The argument must be what the request expects.
unsafe fn control(
    terminal: &impl AsFd,
    request: usize,
    argument: usize,
) -> Result<usize, rustix::io::Errno> {
    let fd = terminal.as_fd().as_raw_fd() as usize;
    // SAFETY: the caller vouches for the argument.
    unsafe { syscall(nr::IOCTL, [fd, request, argument]) }
        .map_err(|errno| rustix::io::Errno::from_raw_os_error(errno.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};

    #[test]
    fn what_is_typed_at_one_end_is_read_at_the_other() {
        let (master, end) = open_terminal(TerminalSize {
            columns: 80,
            rows: 24,
        })
        .unwrap();
        let (mut master, mut end) = (std::fs::File::from(master), std::fs::File::from(end));
        master.write_all(b"hello\n").unwrap();
        let mut line = [0; 16];
        let read = end.read(&mut line).unwrap();
        assert_eq!(&line[..read], b"hello\n");
        resize_terminal(
            &master,
            TerminalSize {
                columns: 100,
                rows: 30,
            },
        )
        .unwrap();
    }
}
