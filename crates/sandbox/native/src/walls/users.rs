//! User and group ids across user namespaces.

use crate::sys::text::Text;
use crate::sys::{Fd, Pid, Result, write_file, write_file_at};

/// The user and group id that a session sees as its own.
pub const SESSION_ID: u32 = 1000;

/// One line of an id map: `count` ids from `inside` on are those from `outside` on in the parent namespace.
#[derive(Clone, Copy)]
pub struct Mapping {
    /// First id inside.
    pub inside: u32,
    /// First id outside.
    pub outside: u32,
    /// How many.
    pub count: u32,
}

/// How many of the kernel's objects that are counted per user a namespace may hold.
pub struct KernelObjects {
    inotify_instances: u64,
    inotify_watches: u64,
}

/// What one session may have.
pub const OF_ONE_SESSION: KernelObjects = KernelObjects {
    inotify_instances: 8,
    inotify_watches: 4096,
};
/// What all sessions of one host may have together. The host's own user is charged for them as well, and has 128 instances on
/// most machines: without this bound, sessions could take all of them from him.
pub const OF_ALL_SESSIONS: KernelObjects = KernelObjects {
    inotify_instances: 64,
    inotify_watches: 65_536,
};

/// Bounds them in the user namespace of the caller. Kernels that do not count them have nothing to bound.
pub fn limit_kernel_objects(most: KernelObjects) {
    let set = |path, value: u64| {
        if let Ok(text) = Text::<24>::new(format_args!("{value}")) {
            let _ = write_file(path, text.as_bytes());
        }
    };
    set(
        c"/proc/sys/user/max_inotify_instances",
        most.inotify_instances,
    );
    set(c"/proc/sys/user/max_inotify_watches", most.inotify_watches);
}

/// Writes both maps of a process that just entered a new user namespace.
///
/// `setgroups` is denied first: without that an unprivileged writer may not map groups, and with it no process inside can drop
/// a group that denies access.
pub fn map_users(pid: Pid, users: Mapping, groups: Mapping) -> Result<()> {
    let processes = crate::walls::mounts::open_proc()?;
    let outcome = map_users_at(processes, pid, users, groups);
    crate::sys::close(processes);
    outcome
}

/// Writes both maps through `processes`, a `/proc` that shows the process.
pub fn map_users_at(processes: Fd, pid: Pid, users: Mapping, groups: Mapping) -> Result<()> {
    let path = |file: &str| Text::<64>::new(format_args!("{pid}/{file}"));
    let line = |map: Mapping| {
        Text::<64>::new(format_args!("{} {} {}", map.inside, map.outside, map.count))
    };
    let write = |file: &str, text: &[u8]| write_file_at(processes, path(file)?.as_c_str(), text);
    // An older kernel or a nested namespace may have it denied already.
    let _ = write("setgroups", b"deny");
    write("gid_map", line(groups)?.as_bytes())?;
    write("uid_map", line(users)?.as_bytes())
}
