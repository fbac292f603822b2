//! What can be done with the files of one place.

use super::MAX_LISTED;
use cellblock_protocol::{FileKind, FileStat};
use cellblock_sandbox::{Confined, Links, Listed, Stat};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The deepest level that a listing goes down to.
const MAX_DEPTH: u32 = 64;

pub(super) fn stat(directory: &Confined, path: &Path, shown: &str) -> io::Result<FileStat> {
    let entry = directory.find(path, Links::AreNotFollowed);
    // A link on the way is followed, one at the end is not.
    let entry = match (entry, path.parent(), path.file_name()) {
        (Err(_), Some(parent), Some(name)) if !parent.as_os_str().is_empty() => {
            let parent = directory.find(parent, Links::AreFollowedInside)?;
            directory.find(
                &directory.place_of(&parent)?.join(name),
                Links::AreNotFollowed,
            )?
        }
        (entry, ..) => entry?,
    };
    let mut found = describe(PathBuf::from(shown), entry.stat());
    if found.kind == FileKind::Link {
        let target = entry.read_link()?;
        found.target = Some(target.to_string_lossy().into_owned());
    }
    Ok(found)
}

pub(super) fn list(
    directory: &Confined,
    path: &Path,
    shown: &str,
    depth: u32,
) -> io::Result<Vec<FileStat>> {
    let mut found = Vec::new();
    let mut open = vec![(
        path.to_owned(),
        PathBuf::from(shown),
        depth.clamp(1, MAX_DEPTH),
    )];
    while let Some((path, shown, depth)) = open.pop() {
        let room = MAX_LISTED - found.len();
        let listed = match directory.list(&path, room) {
            // A directory below that is closed to the session's user, or gone, is listed without its contents.
            Err(error) if !found.is_empty() && room > 0 && error.raw_os_error().is_some() => {
                continue;
            }
            listed => listed?,
        };
        for Listed { name, stat, target } in listed {
            let mut entry = describe(shown.join(&name), &stat);
            entry.target = target.map(|target| target.to_string_lossy().into_owned());
            if entry.kind == FileKind::Directory && depth > 1 {
                open.push((path.join(&name), shown.join(&name), depth - 1));
            }
            found.push(entry);
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

pub(super) fn make_directory(directory: &Confined, path: &Path) -> io::Result<()> {
    directory.make_directories(path, Links::AreFollowedInside)?;
    match directory.find(path, Links::AreFollowedInside) {
        Ok(entry) if describe(PathBuf::new(), entry.stat()).kind == FileKind::Directory => Ok(()),
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(error) => Err(error),
    }
}

pub(super) fn remove(directory: &Confined, path: &Path) -> io::Result<()> {
    match directory.remove(path) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
            directory.remove_tree(path)
        }
        outcome => outcome,
    }
}

/// Opens a file for writing, or makes it. What is in it stays.
pub(super) fn open_to_write(directory: &Confined, path: &Path) -> io::Result<File> {
    let links = Links::AreFollowedInside;
    match directory.find(path, links) {
        Ok(entry) => entry.write(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => directory.create(path, links),
        Err(error) => Err(error),
    }
}

fn describe(path: PathBuf, stat: &Stat) -> FileStat {
    const TYPE: u32 = 0o170_000;
    let kind = match stat.st_mode & TYPE {
        0o100_000 => FileKind::File,
        0o040_000 => FileKind::Directory,
        0o120_000 => FileKind::Link,
        _ => FileKind::Other,
    };
    let name = path.file_name().unwrap_or_default();
    FileStat {
        name: name.to_string_lossy().into_owned(),
        path: path.to_string_lossy().into_owned(),
        kind,
        bytes: u64::try_from(stat.st_size).unwrap_or_default(),
        mode: stat.st_mode & 0o7777,
        modified: stat.st_mtime as f64 + stat.st_mtime_nsec as f64 / 1e9,
        target: None,
    }
}
