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

/// Writes both maps of a process that just entered a new user namespace.
///
/// `setgroups` is denied first: without that an unprivileged writer may not map groups, and with it nobody inside can drop
/// a group that denies access.
pub fn map_users(pid: Pid, users: Mapping, groups: Mapping) -> Result<()> {
    let path = |file: &str| Text::<64>::new(format_args!("/proc/{pid}/{file}"));
    let line = |map: Mapping| Text::<64>::new(format_args!("{} {} {}", map.inside, map.outside, map.count));
    // An older kernel or a nested namespace may have it denied already.
    let _ = write_file(path("setgroups")?.as_c_str(), b"deny");
    write_file(path("gid_map")?.as_c_str(), line(groups)?.as_bytes())?;
    write_file(path("uid_map")?.as_c_str(), line(users)?.as_bytes())
}
