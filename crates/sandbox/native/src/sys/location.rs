//! Where a file lies: its mount, its file system, and ways to open a path that cannot lead elsewhere.

use super::{AT_EMPTY_PATH, Errno, Fd, Result, nr, open_flags, syscall};
use core::ffi::CStr;

/// The file system of pipes without a name (`PIPEFS_MAGIC`).
pub const PIPE_FILE_SYSTEM: u64 = 0x5049_5045;

const NO_XDEV: u64 = 1;
const NO_MAGICLINKS: u64 = 2;
const BENEATH: u64 = 8;

/// The mount that a file is on, and what kind of file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// The number of the mount. No other mount has it as long as this one is there.
    pub mount: u64,
    mode: u32,
    device: (u32, u32),
}

impl Location {
    /// The major and minor number of a character device; `None` for any other file.
    pub fn character_device(self) -> Option<(u32, u32)> {
        (self.mode & 0o170_000 == 0o020_000).then_some(self.device)
    }

    /// Whether the file is a socket, or the name of one.
    pub fn is_socket(self) -> bool {
        self.mode & 0o170_000 == 0o140_000
    }

    /// Whether the file is a pipe.
    pub fn is_pipe(self) -> bool {
        self.mode & 0o170_000 == 0o010_000
    }
}

/// `statx`: where the file of a descriptor lies. The file system itself is not asked, so a slow one does not matter.
pub fn location(fd: Fd) -> Result<Location> {
    const DONT_SYNC: usize = 0x4000;
    const TYPE: u32 = 1;
    const MOUNT_ID: u32 = 0x1000;
    // `struct statx` has 256 bytes: the mask in the first word, mode at 28, device at 128, mount at 144.
    let mut words = [0u32; 64];
    let arguments = [
        fd as usize,
        c"".as_ptr() as usize,
        AT_EMPTY_PATH | DONT_SYNC,
        (TYPE | MOUNT_ID) as usize,
        words.as_mut_ptr() as usize,
    ];
    // SAFETY: a C string, and memory for the structure.
    unsafe { syscall(nr::STATX, arguments) }?;
    if words[0] & MOUNT_ID == 0 {
        return Err(Errno::NOSYS);
    }
    Ok(Location {
        mount: u64::from(words[36]) | u64::from(words[37]) << 32,
        mode: words[7] & 0xFFFF,
        device: (words[32], words[33]),
    })
}

/// `fstatfs`: the kind of file system that a file is on, by its magic number.
pub fn file_system_of(fd: Fd) -> Result<u64> {
    Ok(file_system(fd)?.kind)
}

/// What the kernel tells of the file system that a file is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// The magic number of its kind.
    pub kind: u64,
    /// Whether the file system, or the mount through which the file is open, can only be read.
    pub is_read_only: bool,
}

/// `fstatfs`
pub fn file_system(fd: Fd) -> Result<FileSystem> {
    const FLAGS: usize = 10;
    const READ_ONLY: u64 = 1;
    let mut words = [0u64; 15];
    // SAFETY: `struct statfs` is 120 bytes.
    unsafe { syscall(nr::FSTATFS, [fd as usize, words.as_mut_ptr() as usize]) }?;
    Ok(FileSystem {
        kind: words[0],
        is_read_only: words[FLAGS] & READ_ONLY != 0,
    })
}

/// Opens what is on the same mount as `directory`; links of `/proc` that lead anywhere are not followed.
pub fn open_on_one_file_system(directory: Fd, path: &CStr, flags: usize) -> Result<Fd> {
    open_resolved(directory, path, flags, NO_XDEV | NO_MAGICLINKS)
}

/// Opens what is below `directory`: `XDEV` when a link or `..` leads out of it.
pub fn open_beneath(directory: Fd, path: &CStr, flags: usize) -> Result<Fd> {
    open_resolved(directory, path, flags, BENEATH | NO_MAGICLINKS)
}

fn open_resolved(directory: Fd, path: &CStr, flags: usize, resolve: u64) -> Result<Fd> {
    let how = [(flags | open_flags::CLOEXEC) as u64, 0, resolve];
    let words = [
        directory as usize,
        path.as_ptr() as usize,
        how.as_ptr() as usize,
        size_of_val(&how),
    ];
    // SAFETY: a C string, and a structure whose size is told.
    unsafe { syscall(nr::OPENAT2, words) }.map(|fd| fd as Fd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{close, open};

    #[test]
    fn a_mount_a_device_and_a_pipe_are_told_from_each_other() {
        let look = |path: &CStr| {
            let fd = open(path, open_flags::PATH, 0).unwrap();
            let found = location(fd).unwrap();
            close(fd);
            found
        };
        let (proc, root) = (look(c"/proc"), look(c"/"));
        assert_ne!(proc.mount, root.mount);
        assert_eq!(look(c"/proc/self/status").mount, proc.mount);
        assert_eq!(look(c"/dev/null").character_device(), Some((1, 3)));
        assert_eq!(proc.character_device(), None);
        let (reader, _writer) = std::io::pipe().unwrap();
        let reader = std::os::fd::AsRawFd::as_raw_fd(&reader);
        assert!(location(reader).unwrap().is_pipe());
        assert_eq!(file_system_of(reader), Ok(PIPE_FILE_SYSTEM));
    }
}
