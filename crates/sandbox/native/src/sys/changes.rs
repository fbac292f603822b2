//! Changes to files: their size, their names and their metadata.

use super::{AT_EMPTY_PATH, Fd, Result, nr, syscall};
use core::ffi::CStr;

/// Follow a link at the end of the path.
const AT_SYMLINK_FOLLOW: usize = 0x400;

/// `ftruncate`
pub fn truncate(fd: Fd, length: u64) -> Result<()> {
    // SAFETY: no pointers.
    unsafe { syscall(nr::FTRUNCATE, [fd as usize, length as usize]) }.map(drop)
}

/// `fcntl(F_SETFL)`: the flags that an open file can change.
pub fn set_file_flags(fd: Fd, flags: usize) -> Result<()> {
    const F_SETFL: usize = 4;
    // SAFETY: no pointers.
    unsafe { syscall(nr::FCNTL, [fd as usize, F_SETFL, flags]) }.map(drop)
}

/// `fchmodat`
pub fn change_mode_at(directory: Fd, path: &CStr, mode: u64) -> Result<()> {
    let words = [directory as usize, path.as_ptr() as usize, mode as usize];
    // SAFETY: the path is a C string.
    unsafe { syscall(nr::FCHMODAT, words) }.map(drop)
}

/// `fchownat` of what a descriptor stands for.
pub fn change_owner(fd: Fd, user: u64, group: u64) -> Result<()> {
    let words = [
        fd as usize,
        c"".as_ptr() as usize,
        user as u32 as usize,
        group as u32 as usize,
        AT_EMPTY_PATH,
    ];
    // SAFETY: the path is a C string.
    unsafe { syscall(nr::FCHOWNAT, words) }.map(drop)
}

/// `utimensat` of what a descriptor stands for: seconds and nanoseconds of both times, or now.
pub fn change_times(fd: Fd, times: Option<&[u64; 4]>) -> Result<()> {
    let words = [
        fd as usize,
        c"".as_ptr() as usize,
        times.map_or(0, |times| times.as_ptr() as usize),
        AT_EMPTY_PATH,
    ];
    // SAFETY: the path is a C string; two times are four words.
    unsafe { syscall(nr::UTIMENSAT, words) }.map(drop)
}

/// `setxattr`
pub fn set_attribute(path: &CStr, name: &CStr, value: &[u8], flags: u64) -> Result<()> {
    let words = [
        path.as_ptr() as usize,
        name.as_ptr() as usize,
        value.as_ptr() as usize,
        value.len(),
        flags as usize,
    ];
    // SAFETY: two C strings, and a value whose length is told.
    unsafe { syscall(nr::SETXATTR, words) }.map(drop)
}

/// `removexattr`
pub fn remove_attribute(path: &CStr, name: &CStr) -> Result<()> {
    let words = [path.as_ptr() as usize, name.as_ptr() as usize];
    // SAFETY: two C strings.
    unsafe { syscall(nr::REMOVEXATTR, words) }.map(drop)
}

/// `getxattr`: how long the value is. With an empty buffer, nothing else is returned.
pub fn get_attribute(path: &CStr, name: &CStr, value: &mut [u8]) -> Result<usize> {
    let words = [
        path.as_ptr() as usize,
        name.as_ptr() as usize,
        value.as_mut_ptr() as usize,
        value.len(),
    ];
    // SAFETY: two C strings, and a buffer whose length is told.
    unsafe { syscall(nr::GETXATTR, words) }
}

/// `listxattr`: how long the list is. With an empty buffer, nothing else is returned.
pub fn list_attributes(path: &CStr, list: &mut [u8]) -> Result<usize> {
    let words = [
        path.as_ptr() as usize,
        list.as_mut_ptr() as usize,
        list.len(),
    ];
    // SAFETY: a C string, and a buffer whose length is told.
    unsafe { syscall(nr::LISTXATTR, words) }
}

/// `linkat`; a link at the end of the first path is followed.
pub fn link_at(from: Fd, path: &CStr, to: Fd, name: &CStr) -> Result<()> {
    let words = [
        from as usize,
        path.as_ptr() as usize,
        to as usize,
        name.as_ptr() as usize,
        AT_SYMLINK_FOLLOW,
    ];
    // SAFETY: two C strings.
    unsafe { syscall(nr::LINKAT, words) }.map(drop)
}

/// `unlinkat`
pub fn unlink_at(directory: Fd, name: &CStr) -> Result<()> {
    let words = [directory as usize, name.as_ptr() as usize, 0];
    // SAFETY: a C string.
    unsafe { syscall(nr::UNLINKAT, words) }.map(drop)
}

/// `prlimit64`: how large a file of this process may become.
pub fn largest_file_of(pid: super::Pid) -> Result<u64> {
    const FILE_SIZE: usize = 1;
    let mut limit = [0u64; 2];
    let words = [pid as usize, FILE_SIZE, 0, limit.as_mut_ptr() as usize];
    // SAFETY: memory for both limits.
    unsafe { syscall(nr::PRLIMIT64, words) }?;
    Ok(limit[0])
}

/// `mkdirat`; a directory that is there already is an error.
pub fn make_directory_at(directory: Fd, name: &CStr, mode: usize) -> Result<()> {
    // SAFETY: the name is a C string.
    unsafe {
        syscall(
            nr::MKDIRAT,
            [directory as usize, name.as_ptr() as usize, mode],
        )
    }
    .map(drop)
}

/// `symlinkat`
pub fn make_link_at(target: &CStr, directory: Fd, name: &CStr) -> Result<()> {
    let words = [
        target.as_ptr() as usize,
        directory as usize,
        name.as_ptr() as usize,
    ];
    // SAFETY: both are C strings.
    unsafe { syscall(nr::SYMLINKAT, words) }.map(drop)
}

/// `fchmod`
pub fn change_mode(fd: Fd, mode: u32) -> Result<()> {
    // SAFETY: no pointers.
    unsafe { syscall(nr::FCHMOD, [fd as usize, mode as usize]) }.map(drop)
}

/// `sendfile`: copies from where one file stands to where the other does. Returns how many bytes; 0 at the end.
pub fn copy_bytes(from: Fd, to: Fd, most: usize) -> Result<usize> {
    // SAFETY: no pointers: both offsets move on.
    unsafe { syscall(nr::SENDFILE, [to as usize, from as usize, 0, most]) }
}

/// `lseek` to the next byte at or after this offset that a file really holds: `NXIO` where there is none.
pub fn seek_contents(fd: Fd, offset: usize) -> Result<usize> {
    const DATA: usize = 3;
    // SAFETY: numbers only.
    unsafe { syscall(nr::LSEEK, [fd as usize, offset, DATA]) }
}

/// `lseek` to the next hole, or to the end.
pub fn seek_hole(fd: Fd, offset: usize) -> Result<usize> {
    const HOLE: usize = 4;
    // SAFETY: numbers only.
    unsafe { syscall(nr::LSEEK, [fd as usize, offset, HOLE]) }
}
