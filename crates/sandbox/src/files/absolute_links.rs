//! Links to absolute paths, followed inside a directory that code of a session knows by an absolute path of its own.
//!
//! The kernel refuses each absolute link below a directory that is not to be left. Code of a session writes such links all the time
//! (`os.symlink(os.path.abspath(…))`), and means the place inside. So the path is resolved here, part by part, to one without links. The
//! caller opens that path with all links refused: code that exchanges names meanwhile gains nothing.

use crate::files::confined::{Confined, Links};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The most links on the way to a file, as the kernel has it.
const MAX_LINKS: usize = 40;
/// The most parts on the way, those of links included: each is looked up from the beginning.
const MAX_PARTS: usize = 4096;

/// The path below `directory`, which code knows as `name`, that `path` leads to. What is not there yet is taken as it is written.
pub(super) fn resolve(directory: &Confined, name: &Path, path: &Path) -> io::Result<PathBuf> {
    let mut plain = PathBuf::new();
    let mut waiting = parts_of(path);
    let mut links = 0;
    let mut parts = 0;
    while let Some(part) = waiting.pop_front() {
        parts += 1;
        if parts > MAX_PARTS {
            return Err(Errno::NAMETOOLONG.into());
        }
        if part == ".." {
            if !plain.pop() {
                return Err(Errno::XDEV.into());
            }
            continue;
        }
        let next = plain.join(part);
        let found = match directory.find(&next, Links::AreNotFollowed) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            found => Some(found?),
        };
        let is_link = |mode| FileType::from_raw_mode(mode) == FileType::Symlink;
        let Some(link) = found.filter(|found| is_link(found.stat().st_mode)) else {
            plain = next;
            continue;
        };
        links += 1;
        if links > MAX_LINKS {
            return Err(Errno::LOOP.into());
        }
        let mut target = link.read_link()?;
        if target.is_absolute() {
            target = target.strip_prefix(name).map_err(|_| Errno::XDEV)?.into();
            plain.clear();
        }
        for part in parts_of(&target).into_iter().rev() {
            waiting.push_front(part);
        }
    }
    Ok(plain)
}

fn parts_of(path: &Path) -> VecDeque<OsString> {
    let is_part =
        |part: &Component<'_>| matches!(part, Component::Normal(_) | Component::ParentDir);
    let parts = path.components().filter(is_part);
    parts.map(|part| part.as_os_str().to_owned()).collect()
}
