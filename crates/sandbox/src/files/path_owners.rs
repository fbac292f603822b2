//! Who could lead a path to another place: the owners of the directories and links on its way, and everyone who may write to one of them.

use super::private::refused;
use rustix::process::{getegid, geteuid};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{Metadata, read_link, read_to_string, symlink_metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf, absolute};

/// As many links as the kernel follows in one path.
const MAX_LINKS: usize = 40;

/// Looks at each directory that is searched on the way to `path`, also through links, and at the links: none may be in the hands of another user.
pub(super) fn check(path: &Path) -> io::Result<()> {
    let mut ahead: VecDeque<OsString> = names(&absolute(path)?).collect();
    let mut reached = PathBuf::from("/");
    let mut links = 0;
    while let Some(name) = ahead.pop_front() {
        if name == ".." {
            reached.pop();
            continue;
        }
        check_directory(&reached)?;
        let next = reached.join(&name);
        let found = symlink_metadata(&next)?;
        if !found.is_symlink() {
            reached = next;
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(refused("there are too many links in it".to_owned()));
        }
        check_owner(&next, &found)?;
        let target = read_link(&next)?;
        if target.is_absolute() {
            reached = PathBuf::from("/");
        }
        for name in names(&target).collect::<Vec<_>>().into_iter().rev() {
            ahead.push_front(name);
        }
    }
    Ok(())
}

/// The names in a path, with `..`, which means something else behind a link.
fn names(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(_) | Component::ParentDir => Some(part.as_os_str().to_owned()),
        _ => None,
    })
}

fn check_directory(directory: &Path) -> io::Result<()> {
    let found = symlink_metadata(directory)?;
    check_owner(directory, &found)?;
    let is_sticky = found.mode() & 0o1000 != 0;
    // With a group of one's own, which is usual, a directory for the group is one's own.
    let by_group = found.mode() & 0o020 != 0 && found.gid() != getegid().as_raw();
    if !is_sticky && (found.mode() & 0o002 != 0 || by_group) {
        return Err(refused(format!(
            "other users can write to {}, and so put another directory in its place; take that permission away (chmod go-w, or chmod +t), or use another directory",
            directory.display()
        )));
    }
    Ok(())
}

fn check_owner(path: &Path, found: &Metadata) -> io::Result<()> {
    let owner = found.uid();
    if owner == 0 || owner == geteuid().as_raw() || is_without_number(owner) {
        return Ok(());
    }
    Err(refused(format!(
        "{} belongs to the user with the number {owner}, who can put another directory in its place; use one whose path belongs to root and to you alone",
        path.display()
    )))
}

/// Whether this number stands for every user that has none in our user namespace. There, what belongs to the machine's root looks like this.
fn is_without_number(owner: u32) -> bool {
    let number = |text: String| text.trim().parse::<u32>().ok();
    let overflow = read_to_string("/proc/sys/kernel/overflowuid")
        .ok()
        .and_then(number);
    Some(owner) == overflow && read_to_string("/proc/self/uid_map").is_ok_and(|map| !maps_all(&map))
}

fn maps_all(map: &str) -> bool {
    let all = u64::from(u32::MAX);
    let counts = map
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2));
    counts
        .filter_map(|count| count.parse::<u64>().ok())
        .sum::<u64>()
        >= all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_with_all_users_has_none_without_a_number() {
        assert!(maps_all("         0          0 4294967295\n"));
        assert!(!maps_all(
            "         0       1000          1\n         1     100000      65536\n"
        ));
    }
}
