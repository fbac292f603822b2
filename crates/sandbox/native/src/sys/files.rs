//! Files and directories.

use super::{Errno, Result, nr, syscall, unlink_at};
use crate::arch::{StatWords, mode_and_names};
use core::ffi::CStr;

/// A file descriptor. It is not closed when it is dropped: these processes close by range.
pub type Fd = i32;

/// "Relative to the working directory."
pub const AT_FDCWD: Fd = -100;
/// Operate on the descriptor itself.
pub const AT_EMPTY_PATH: usize = 0x1000;
/// Flags of `open`.
pub mod open_flags {
    #![allow(missing_docs)]
    pub use crate::arch::open_flags::*;

    pub const RDONLY: usize = 0;
    pub const WRONLY: usize = 1;
    pub const RDWR: usize = 2;
    pub const CREAT: usize = 0o100;
    pub const EXCL: usize = 0o200;
    pub const NOCTTY: usize = 0o400;
    pub const TRUNC: usize = 0o1000;
    pub const APPEND: usize = 0o2000;
    pub const NONBLOCK: usize = 0o4000;
    pub const ASYNC: usize = 0o20_000;
    pub const NOATIME: usize = 0o1_000_000;
    pub const CLOEXEC: usize = 0o2_000_000;
    pub const PATH: usize = 0o10_000_000;
    pub const TMPFILE: usize = 0o20_000_000;
}

/// `open`
pub fn open(path: &CStr, flags: usize, mode: usize) -> Result<Fd> {
    open_at(AT_FDCWD, path, flags, mode)
}

/// `openat`
pub fn open_at(directory: Fd, path: &CStr, flags: usize, mode: usize) -> Result<Fd> {
    // SAFETY: the path is a C string.
    let fd = unsafe {
        syscall(
            nr::OPENAT,
            [
                directory as usize,
                path.as_ptr() as usize,
                flags | open_flags::CLOEXEC,
                mode,
            ],
        )
    }?;
    Ok(fd as Fd)
}

/// `readlinkat`: how many bytes the target has. One that fills the buffer may be cut, and is an error.
pub fn read_link_at(directory: Fd, path: &CStr, buffer: &mut [u8]) -> Result<usize> {
    let words = [
        directory as usize,
        path.as_ptr() as usize,
        buffer.as_mut_ptr() as usize,
        buffer.len(),
    ];
    // SAFETY: the path is a C string; the buffer is ours and its length is told.
    match unsafe { syscall(nr::READLINKAT, words) }? {
        length if length >= buffer.len() => Err(Errno::OVERFLOW),
        length => Ok(length),
    }
}

/// `close`. There is nothing to do about an error.
pub fn close(fd: Fd) {
    // SAFETY: closing a number harms no memory.
    let _ = unsafe { syscall(nr::CLOSE, [fd as usize]) };
}

/// Closes `first..=last`.
pub fn close_range(first: u32, last: u32) {
    if first <= last {
        // SAFETY: closing numbers harms no memory.
        let _ = unsafe { syscall(nr::CLOSE_RANGE, [first as usize, last as usize, 0]) };
    }
}

/// Marks every descriptor from `first` up to be closed on `exec`.
pub fn close_on_exec_from(first: u32) {
    const CLOEXEC: usize = 4;
    // SAFETY: only flags of descriptors change.
    let _ = unsafe {
        syscall(
            nr::CLOSE_RANGE,
            [first as usize, u32::MAX as usize, CLOEXEC],
        )
    };
}

/// Closes every descriptor from 3 up that is not in `kept`, which must be sorted.
pub fn close_all_but(kept: &[Fd]) {
    let mut next = 3;
    for &fd in kept.iter().filter(|fd| **fd >= 3) {
        if fd as u32 > next {
            close_range(next, fd as u32 - 1);
        }
        next = fd as u32 + 1;
    }
    close_range(next, u32::MAX);
}

/// `dup3` without close-on-exec; `from == to` only clears the flag.
pub fn move_to(from: Fd, to: Fd) -> Result<()> {
    const F_SETFD: usize = 2;
    // SAFETY: descriptors only.
    unsafe {
        if from == to {
            syscall(nr::FCNTL, [from as usize, F_SETFD, 0])?;
        } else {
            syscall(nr::DUP3, [from as usize, to as usize, 0])?;
        }
    }
    Ok(())
}

/// `dup3`, close-on-exec: what was open under that number is closed.
pub fn duplicate_over(fd: Fd, number: Fd) -> Result<()> {
    let words = [fd as usize, number as usize, open_flags::CLOEXEC];
    // SAFETY: descriptors only.
    unsafe { syscall(nr::DUP3, words) }.map(drop)
}

/// Duplicates to the lowest free number from `least` up, close-on-exec.
pub fn duplicate_above(fd: Fd, least: Fd) -> Result<Fd> {
    const F_DUPFD_CLOEXEC: usize = 1030;
    // SAFETY: descriptors only.
    unsafe { syscall(nr::FCNTL, [fd as usize, F_DUPFD_CLOEXEC, least as usize]) }.map(|fd| fd as Fd)
}

/// `read`, again when a signal came.
pub fn read(fd: Fd, buffer: &mut [u8]) -> Result<usize> {
    loop {
        // SAFETY: the buffer is ours and its length is told.
        match unsafe {
            syscall(
                nr::READ,
                [fd as usize, buffer.as_mut_ptr() as usize, buffer.len()],
            )
        } {
            Err(Errno::INTR) => {}
            outcome => return outcome,
        }
    }
}

/// Writes all of `bytes`.
pub fn write_all(fd: Fd, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        // SAFETY: the buffer is ours and its length is told.
        match unsafe {
            syscall(
                nr::WRITE,
                [fd as usize, bytes.as_ptr() as usize, bytes.len()],
            )
        } {
            Ok(written) => bytes = &bytes[written.min(bytes.len())..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// `pwrite`, all of it or an error: for the memory of another process.
pub fn write_at(fd: Fd, bytes: &[u8], offset: u64) -> Result<()> {
    let words = [
        fd as usize,
        bytes.as_ptr() as usize,
        bytes.len(),
        offset as usize,
    ];
    // SAFETY: the buffer is ours and its length is told.
    match unsafe { syscall(nr::PWRITE64, words) }? {
        written if written == bytes.len() => Ok(()),
        _ => Err(Errno::FAULT),
    }
}

/// Writes a file of the kernel's, such as `/proc/self/uid_map`, in one call.
pub fn write_file(path: &CStr, bytes: &[u8]) -> Result<()> {
    write_file_at(AT_FDCWD, path, bytes)
}

/// Writes a file below a directory, in one call.
pub fn write_file_at(directory: Fd, path: &CStr, bytes: &[u8]) -> Result<()> {
    let fd = open_at(directory, path, open_flags::WRONLY, 0)?;
    let outcome = write_all(fd, bytes);
    close(fd);
    outcome
}

/// Reads the start of a small file below a directory.
pub fn read_file_at<'a>(directory: Fd, path: &CStr, buffer: &'a mut [u8]) -> Result<&'a [u8]> {
    // SAFETY: the path is a C string.
    let fd = unsafe {
        syscall(
            nr::OPENAT,
            [
                directory as usize,
                path.as_ptr() as usize,
                open_flags::CLOEXEC,
            ],
        )
    }? as Fd;
    let outcome = read(fd, buffer);
    close(fd);
    Ok(&buffer[..outcome?])
}

/// Calls `visit` with what each reading of a file gives, at most 4 096 bytes.
pub fn each_part_at(directory: Fd, path: &CStr, mut visit: impl FnMut(&[u8])) -> Result<()> {
    let fd = open_at(directory, path, open_flags::CLOEXEC, 0)?;
    let mut buffer = [0u8; 4096];
    while let Ok(length @ 1..) = read(fd, &mut buffer) {
        visit(&buffer[..length]);
    }
    close(fd);
    Ok(())
}

/// Calls `visit` with every line of a file that may be longer than any buffer. Lines beyond 4 096 bytes are cut in pieces.
pub fn each_line_at(directory: Fd, path: &CStr, mut visit: impl FnMut(&[u8])) -> Result<()> {
    each_line_while_at(directory, path, |line| {
        visit(line);
        true
    })
}

/// Calls `visit` with every line of a file, until `visit` returns `false`.
pub fn each_line_while_at(
    directory: Fd,
    path: &CStr,
    mut visit: impl FnMut(&[u8]) -> bool,
) -> Result<()> {
    // SAFETY: the path is a C string.
    let fd = unsafe {
        syscall(
            nr::OPENAT,
            [
                directory as usize,
                path.as_ptr() as usize,
                open_flags::CLOEXEC,
            ],
        )
    }? as Fd;
    let mut buffer = [0u8; 4096];
    let (mut held, mut goes_on) = (0, true);
    while goes_on {
        let length = match read(fd, &mut buffer[held..]) {
            Ok(0) | Err(_) => break,
            Ok(length) => held + length,
        };
        let mut start = 0;
        while goes_on
            && let Some(end) = buffer[start..length].iter().position(|byte| *byte == b'\n')
        {
            goes_on = visit(&buffer[start..start + end]);
            start += end + 1;
        }
        held = length - start;
        buffer.copy_within(start..length, 0);
        if goes_on && held == buffer.len() {
            goes_on = visit(&buffer);
            held = 0;
        }
    }
    close(fd);
    if goes_on && held > 0 {
        visit(&buffer[..held]);
    }
    Ok(())
}

/// `getdents64`
pub fn read_directory(fd: Fd, buffer: &mut [u8]) -> Result<usize> {
    // SAFETY: the buffer is ours and its length is told.
    unsafe {
        syscall(
            nr::GETDENTS64,
            [fd as usize, buffer.as_mut_ptr() as usize, buffer.len()],
        )
    }
}

/// Where the next byte of a file is read or written.
pub fn offset(fd: Fd) -> Result<usize> {
    const FROM_HERE: usize = 1;
    // SAFETY: numbers only.
    unsafe { syscall(nr::LSEEK, [fd as usize, 0, FROM_HERE]) }
}

/// `lseek` from the start.
pub fn seek(fd: Fd, offset: usize) -> Result<usize> {
    // SAFETY: descriptors only.
    unsafe { syscall(nr::LSEEK, [fd as usize, offset, 0]) }
}

/// Takes a file's name away.
pub fn unlink(path: &CStr) -> Result<()> {
    unlink_at(AT_FDCWD, path)
}

/// `mkdir`; one that is there already is fine.
pub fn mkdir(path: &CStr, mode: usize) -> Result<()> {
    // SAFETY: the path is a C string.
    match unsafe {
        syscall(
            nr::MKDIRAT,
            [AT_FDCWD as usize, path.as_ptr() as usize, mode],
        )
    } {
        Ok(_) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error),
    }
}

/// `rmdir`
pub fn rmdir(path: &CStr) -> Result<()> {
    const AT_REMOVEDIR: usize = 0x200;
    let words = [AT_FDCWD as usize, path.as_ptr() as usize, AT_REMOVEDIR];
    // SAFETY: the path is a C string.
    unsafe { syscall(nr::UNLINKAT, words) }.map(drop)
}

/// What a file is, and when it was last written.
#[derive(Clone, Copy, Debug)]
pub struct Status {
    mode: u32,
    /// The file system that it is on.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
    /// In nanoseconds since 1970; 0 for anything before.
    pub modified: u64,
    /// Seconds and nanoseconds of the time when it was last read, then of the time when it was last written.
    pub times: [u64; 4],
    /// How many names it has.
    pub names: u64,
    /// How many bytes it has.
    pub size: u64,
}

impl Status {
    const KIND: u32 = 0o170_000;

    /// Who may do what with it, without special bits.
    pub fn permissions(self) -> u32 {
        self.mode & 0o777
    }

    /// A plain file.
    pub fn is_file(self) -> bool {
        self.mode & Self::KIND == 0o100_000
    }

    /// A pipe with a name.
    pub fn is_pipe(self) -> bool {
        self.mode & Self::KIND == 0o010_000
    }

    /// A directory.
    pub fn is_directory(self) -> bool {
        self.mode & Self::KIND == 0o040_000
    }

    /// A socket, or the name of one.
    pub fn is_socket(self) -> bool {
        self.mode & Self::KIND == 0o140_000
    }

    /// A device that is no disk, such as `/dev/null` or a terminal.
    pub fn is_character_device(self) -> bool {
        self.mode & Self::KIND == 0o020_000
    }

    /// An object of the kernel's that is no file, such as an `eventfd`.
    pub fn is_anonymous(self) -> bool {
        self.mode & Self::KIND == 0
    }

    /// A symbolic link.
    pub fn is_link(self) -> bool {
        self.mode & Self::KIND == 0o120_000
    }
}

/// `fstat`, also of a descriptor that only stands for a path.
pub fn status(fd: Fd) -> Result<Status> {
    status_with(fd, c"", AT_EMPTY_PATH)
}

/// `fstatat`: of what a name in a directory leads to.
pub fn status_at(directory: Fd, name: &CStr) -> Result<Status> {
    status_with(directory, name, 0)
}

/// `fstatat`: of what has a name in a directory, which may be a link.
pub fn link_status_at(directory: Fd, name: &CStr) -> Result<Status> {
    const AT_SYMLINK_NOFOLLOW: usize = 0x100;
    status_with(directory, name, AT_SYMLINK_NOFOLLOW)
}

fn status_with(directory: Fd, name: &CStr, flags: usize) -> Result<Status> {
    let mut words = StatWords::default();
    // SAFETY: a C string; the structure lives through the call.
    unsafe {
        syscall(
            nr::NEWFSTATAT,
            [
                directory as usize,
                name.as_ptr() as usize,
                words.as_mut_ptr() as usize,
                flags,
            ],
        )
    }?;
    let (seconds, rest) = (words[11] as i64, words[12]);
    let (mode, names) = mode_and_names(&words);
    Ok(Status {
        mode,
        device: words[0],
        inode: words[1],
        times: [words[9], words[10], words[11], words[12]],
        modified: u64::try_from(seconds)
            .unwrap_or(0)
            .saturating_mul(1_000_000_000)
            .saturating_add(rest),
        names,
        size: words[6],
    })
}

/// Whether a descriptor is a directory's.
pub fn is_directory(fd: Fd) -> Result<bool> {
    status(fd).map(Status::is_directory)
}

/// `symlink`
pub fn symlink(target: &CStr, path: &CStr) -> Result<()> {
    let words = [
        target.as_ptr() as usize,
        AT_FDCWD as usize,
        path.as_ptr() as usize,
    ];
    // SAFETY: both paths are C strings.
    unsafe { syscall(nr::SYMLINKAT, words) }.map(drop)
}

/// `chdir`
pub fn chdir(path: &CStr) -> Result<()> {
    // SAFETY: the path is a C string.
    unsafe { syscall(nr::CHDIR, [path.as_ptr() as usize]) }.map(drop)
}

/// `fchdir`
pub fn fchdir(fd: Fd) -> Result<()> {
    // SAFETY: descriptors only.
    unsafe { syscall(nr::FCHDIR, [fd as usize]) }.map(drop)
}

/// `umask`
pub fn umask(mask: usize) {
    // SAFETY: no pointers.
    let _ = unsafe { syscall(nr::UMASK, [mask]) };
}

/// Bytes and inodes in use on the file system of `fd`.
pub fn used_on(path: &CStr) -> Result<(u64, u64)> {
    let mut words = [0u64; 15];
    // SAFETY: `struct statfs` is 120 bytes.
    unsafe {
        syscall(
            nr::STATFS,
            [path.as_ptr() as usize, words.as_mut_ptr() as usize],
        )
    }?;
    let [_, block, blocks, free, _, files, files_free, ..] = words;
    Ok((
        blocks.saturating_sub(free).saturating_mul(block),
        files.saturating_sub(files_free),
    ))
}
