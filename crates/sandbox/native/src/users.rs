//! User and group ids across user namespaces.

use crate::sys::{Pid, Result, write_file};
use crate::text::Text;

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
/// `setgroups` is denied first: without that an unprivileged writer may not map groups, and with it nobody inside can drop
/// a group that denies access.
pub fn map_users(pid: Pid, users: Mapping, groups: Mapping) -> Result<()> {
    let path = |file: &str| Text::<64>::new(format_args!("/proc/{pid}/{file}"));
    let line = |map: Mapping| {
        Text::<64>::new(format_args!("{} {} {}", map.inside, map.outside, map.count))
    };
    // An older kernel or a nested namespace may have it denied already.
    let _ = write_file(path("setgroups")?.as_c_str(), b"deny");
    write_file(path("gid_map")?.as_c_str(), line(groups)?.as_bytes())?;
    write_file(path("uid_map")?.as_c_str(), line(users)?.as_bytes())
}
