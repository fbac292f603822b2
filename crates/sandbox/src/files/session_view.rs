//! The host's access to the files that a session sees, as the session's own user.
//!
//! The way leads through `/proc/PID/root` of the session's init: its mounts are those of the session, so what is read-only there is
//! read-only for the host too, and nothing in the session has to run for it: it works while a cell runs, and code of the session has no
//! part in it. The kernel checks permissions for the user of the thread, so a thread that becomes the session's user for good does the
//! work: it can open and make what the session's user can, and what it makes belongs to that user.

use crate::SessionProcesses;
use crate::files::confined::Confined;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, PROC_SUPER_MAGIC, Stat, Uid, fstatfs, openat,
    readlinkat, statat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use super::Links;

/// Does something with a directory of a session, such as `tmp`, as the session's user. `directory` is relative to the session's root,
/// and its parts are the host's own: code of the session cannot replace them.
pub fn in_view_of<T: Send>(
    processes: SessionProcesses,
    directory: &Path,
    work: impl FnOnce(&Confined) -> io::Result<T> + Send,
) -> io::Result<T> {
    let init = processes.init();
    let root = format!("/proc/{init}/root");
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat(CWD, Path::new(&root).join(directory), flags, Mode::empty())?;
    let user = user_of(init)?;
    // Both were found by a number, which another process has when init is gone: then they are that process's.
    if !processes.is_there() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let confined = Confined::of(opened)?;
    // Absolute links of the whole root may lead into `/proc`, of which the host sees more than the session: they stay refused.
    if !directory.as_os_str().is_empty() {
        confined.set_name(&Path::new("/").join(directory));
    }
    as_user(user, || work(&confined))
}

/// Does something as this user, where the host is root: in a thread of its own.
pub(super) fn as_user<T: Send>(
    user: (Uid, Gid),
    work: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    let as_user = move || {
        if geteuid().is_root() {
            become_user(user)?;
        }
        work()
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, as_user)?;
        let panicked = |_| Err(io::Error::other("the work with the files panicked"));
        thread.join().unwrap_or_else(panicked)
    })
}

/// The user and the group of a process, as the host numbers them.
fn user_of(pid: u32) -> io::Result<(Uid, Gid)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let effective = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let word = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
        word.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    };
    Ok((
        Uid::from_raw(effective("Uid:")?),
        Gid::from_raw(effective("Gid:")?),
    ))
}

/// Makes this thread, and no other, one of that user. There is no way back, so the thread ends with its work.
fn become_user((user, group): (Uid, Gid)) -> io::Result<()> {
    if user.is_root() {
        return Err(io::Error::other("the session's user is root"));
    }
    set_thread_groups(&[group])?;
    set_thread_res_gid(group, group, group)?;
    Ok(set_thread_res_uid(user, user, user)?)
}

/// An entry of a directory.
#[derive(Debug)]
pub struct Listed {
    /// Its name in the directory.
    pub name: OsString,
    /// Its `stat`; that of a link is the link's own.
    pub stat: Stat,
    /// The target of a link.
    pub target: Option<PathBuf>,
}

impl Confined {
    /// What is in a directory, at most `most` entries. Links on the way are followed inside; those in the directory are not.
    pub fn list(&self, path: &Path, most: usize) -> io::Result<Vec<Listed>> {
        let directory = self
            .find(path, Links::AreFollowedInside)?
            .read_directory()?;
        // The host may see more of processes than the session.
        if fstatfs(&directory)?.f_type == PROC_SUPER_MAGIC {
            return Err(Errno::ACCESS.into());
        }
        let mut found = Vec::new();
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            if found.len() >= most {
                return Err(io::Error::other(format!(
                    "there are more than {most} entries"
                )));
            }
            // What was removed meanwhile is not there.
            if let Ok(stat) = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                let is_link = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
                let target = is_link.then(|| readlinkat(&directory, name, Vec::new()).ok());
                found.push(Listed {
                    name: OsString::from_vec(name.to_bytes().to_vec()),
                    stat,
                    target: target
                        .flatten()
                        .map(|target| PathBuf::from(OsString::from_vec(target.into_bytes()))),
                });
            }
        }
        Ok(found)
    }
}
