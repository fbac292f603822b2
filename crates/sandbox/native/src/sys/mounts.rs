//! Mounts.

use super::{AT_EMPTY_PATH, AT_FDCWD, Fd, Result, nr, open_flags, syscall};
use core::ffi::CStr;

/// Include everything mounted below.
pub const AT_RECURSIVE: usize = 0x8000;

/// Flags of `mount`.
pub mod mount_flags {
    #![allow(missing_docs)]
    pub const RDONLY: usize = 1;
    pub const NOSUID: usize = 2;
    pub const NODEV: usize = 4;
    pub const NOEXEC: usize = 8;
    pub const BIND: usize = 4096;
    pub const REC: usize = 16384;
    pub const PRIVATE: usize = 1 << 18;
    pub const SLAVE: usize = 1 << 19;
    /// For `umount2`: let go now, finish when no process uses it.
    pub const DETACH: usize = 2;
}

/// Attributes of `mount_setattr`.
pub mod mount_attributes {
    #![allow(missing_docs)]
    pub const RDONLY: u64 = 0x1;
    pub const NOSUID: u64 = 0x2;
    pub const NODEV: u64 = 0x4;
    pub const IDMAP: u64 = 0x0010_0000;
}

/// `mount`
pub fn mount(
    source: &CStr,
    target: &CStr,
    kind: &CStr,
    flags: usize,
    options: &CStr,
) -> Result<()> {
    let words = [
        source.as_ptr() as usize,
        target.as_ptr() as usize,
        kind.as_ptr() as usize,
        flags,
        options.as_ptr() as usize,
    ];
    // SAFETY: four C strings and flags.
    unsafe { syscall(nr::MOUNT, words) }.map(drop)
}

/// `umount2`
pub fn unmount(target: &CStr, flags: usize) -> Result<()> {
    // SAFETY: the path is a C string.
    unsafe { syscall(nr::UMOUNT2, [target.as_ptr() as usize, flags]) }.map(drop)
}

/// `pivot_root`
pub fn pivot_root(new: &CStr, old: &CStr) -> Result<()> {
    // SAFETY: both paths are C strings.
    unsafe {
        syscall(
            nr::PIVOT_ROOT,
            [new.as_ptr() as usize, old.as_ptr() as usize],
        )
    }
    .map(drop)
}

/// A detached copy of the mount at `path`, with what is mounted below it.
pub fn clone_tree(path: &CStr) -> Result<Fd> {
    const OPEN_TREE_CLONE: usize = 1;
    let flags = OPEN_TREE_CLONE | open_flags::CLOEXEC | AT_RECURSIVE;
    // SAFETY: the path is a C string.
    unsafe {
        syscall(
            nr::OPEN_TREE,
            [AT_FDCWD as usize, path.as_ptr() as usize, flags],
        )
    }
    .map(|fd| fd as Fd)
}

/// Puts a detached mount in place.
pub fn attach_mount(mount: Fd, target: &CStr) -> Result<()> {
    const F_EMPTY_PATH: usize = 4;
    let words = [
        mount as usize,
        c"".as_ptr() as usize,
        AT_FDCWD as usize,
        target.as_ptr() as usize,
        F_EMPTY_PATH,
    ];
    // SAFETY: C strings and descriptors.
    unsafe { syscall(nr::MOVE_MOUNT, words) }.map(drop)
}

#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// `mount_setattr`, on the mount at `path` below `fd` and all below it.
pub fn set_mount_attributes(
    fd: Fd,
    path: &CStr,
    set: u64,
    user_namespace: Option<Fd>,
) -> Result<()> {
    let attributes = MountAttributes {
        set,
        clear: 0,
        propagation: 0,
        user_namespace: user_namespace.unwrap_or(0) as u64,
    };
    let flags = AT_RECURSIVE | if path.is_empty() { AT_EMPTY_PATH } else { 0 };
    let words = [
        fd as usize,
        path.as_ptr() as usize,
        flags,
        &raw const attributes as usize,
        size_of::<MountAttributes>(),
    ];
    // SAFETY: the structure lives through the call and its size is told.
    unsafe { syscall(nr::MOUNT_SETATTR, words) }.map(drop)
}
