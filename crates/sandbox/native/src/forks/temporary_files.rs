//! The temporary files of the parent, which a fork has too.
//!
//! Init copies them: code of the session that had directories of the parent's and those of the fork at once could pass on what it has in one to the
//! other.

use crate::sys::text::Text;
use crate::sys::{
    Errno, Fd, Result, Status, change_mode, change_times, close, copy_bytes, link_at,
    link_status_at, make_directory_at, make_link_at, open, open_at, open_flags, read_directory,
    read_link_at, seek, seek_contents, seek_hole, status, truncate,
};
use core::ffi::CStr;

/// Where a session has temporary files.
const PLACES: [&CStr; 2] = [c"/tmp", c"/dev/shm"];

/// Below this many other directories there are none.
const MAX_DEPTH: usize = 100;
/// More names than a temporary directory can have at once: some were seen again and again under other names.
const MAX_NAMES: usize = 1 << 18;
const MAX_LINK_BYTES: usize = 4096;

/// The temporary directories of the parent.
pub(super) struct TemporaryFiles([Fd; PLACES.len()]);

impl TemporaryFiles {
    /// Of the session whose mounts this process still has.
    pub(super) fn of_parent() -> Result<TemporaryFiles> {
        let mut directories = [-1; PLACES.len()];
        for (slot, place) in directories.iter_mut().zip(PLACES) {
            *slot = open(place, DIRECTORY, 0)?;
        }
        Ok(TemporaryFiles(directories))
    }

    /// Copies everything to where this session has its own. What is no file, directory or link, or may not be read, is left out. Fails with
    /// `NOSPC` where there is no room, with `NAME_TOO_LONG` where directories are too deep, and with `OVERFLOW` where names never end.
    pub(super) fn copy(&self) -> Result<()> {
        let places = self.0.into_iter().zip(PLACES);
        let copied = places.map(|(from, place)| {
            let copied = open(place, DIRECTORY, 0).and_then(|to| {
                let copied = Copying::new().directory(from, to, 0);
                close(to);
                copied
            });
            close(from);
            copied
        });
        // The second directory is closed also when the first one fails.
        copied.fold(Ok(()), Result::and)
    }
}

const DIRECTORY: usize = open_flags::RDONLY | open_flags::DIRECTORY | open_flags::NOFOLLOW;

/// The copy of one temporary directory.
struct Copying {
    names: usize,
    several: SeveralNames,
}

impl Copying {
    fn new() -> Copying {
        Copying {
            names: 0,
            several: SeveralNames {
                known: [Known::NONE; MAX_SEVERAL],
            },
        }
    }

    fn directory(&mut self, from: Fd, to: Fd, depth: usize) -> Result<()> {
        const NAME: usize = 19;
        let mut buffer = [0u8; 1024];
        while let Ok(length @ 1..) = read_directory(from, &mut buffer) {
            let mut entries = &buffer[..length];
            while entries.len() > NAME {
                let size = usize::from(u16::from_le_bytes([entries[16], entries[17]]));
                if let Ok(name) = CStr::from_bytes_until_nul(&entries[NAME..])
                    && name != c"."
                    && name != c".."
                {
                    self.names += 1;
                    if self.names > MAX_NAMES {
                        return Err(Errno::OVERFLOW);
                    }
                    match self.entry(from, to, name, depth) {
                        Err(error) if is_about_the_copy(error) => return Err(error),
                        // One that was removed meanwhile, or may not be read.
                        _ => {}
                    }
                }
                entries = entries.get(size.max(NAME)..).unwrap_or(&[]);
            }
        }
        Ok(())
    }

    fn entry(&mut self, from: Fd, to: Fd, name: &CStr, depth: usize) -> Result<()> {
        let found = link_status_at(from, name)?;
        if found.is_link() {
            copy_link(from, to, name)
        } else if found.is_directory() {
            if depth == MAX_DEPTH {
                return Err(Errno::NAME_TOO_LONG);
            }
            // One that is there already shows something of the system.
            make_directory_at(to, name, 0o700)?;
            let copied = |from, to| self.directory(from, to, depth + 1);
            with_both(from, to, name, [DIRECTORY; 2], copied)
        } else if found.is_file() {
            if found.names > 1 && self.several.give(found.inode, to, name) {
                return Ok(());
            }
            let source = open_flags::RDONLY | open_flags::NOFOLLOW | open_flags::NONBLOCK;
            let target = open_flags::WRONLY | open_flags::CREAT | open_flags::EXCL;
            let copied = |from, to| {
                copy_contents(from, to)?;
                self.several.note(status(from)?, to);
                Ok(())
            };
            with_both(from, to, name, [source, target], copied)
        } else {
            Ok(())
        }
    }
}

/// Whether an error says that the copy cannot be complete.
fn is_about_the_copy(error: Errno) -> bool {
    matches!(
        error,
        Errno::NOSPC | Errno::NOMEM | Errno::NAME_TOO_LONG | Errno::OVERFLOW
    )
}

/// The most files of which further names are waited for.
const MAX_SEVERAL: usize = 256;

/// Copies of files that have several names: the next name leads to the same copy. Where they are too many, it leads to one of its own.
struct SeveralNames {
    known: [Known; MAX_SEVERAL],
}

#[derive(Clone, Copy)]
struct Known {
    inode: u64,
    /// How many names are still to come; 0 for none at all.
    left: u64,
    copy: Fd,
}

impl Known {
    const NONE: Known = Known {
        inode: 0,
        left: 0,
        copy: -1,
    };
}

impl SeveralNames {
    fn note(&mut self, found: Status, copy: Fd) {
        let Some(slot) = self.known.iter_mut().find(|known| known.left == 0) else {
            return;
        };
        if found.names > 1
            && let Ok(copy) = again(copy)
        {
            *slot = Known {
                inode: found.inode,
                left: found.names - 1,
                copy,
            };
        }
    }

    /// Gives the copy one more name, if there is one.
    fn give(&mut self, inode: u64, to: Fd, name: &CStr) -> bool {
        let mut known = self.known.iter_mut();
        let Some(known) = known.find(|known| known.left > 0 && known.inode == inode) else {
            return false;
        };
        let path = Text::<32>::new(format_args!("/proc/self/fd/{}", known.copy));
        let outcome = path.and_then(|path| link_at(-1, path.as_c_str(), to, name));
        known.left -= 1;
        if known.left == 0 {
            close(known.copy);
        }
        outcome.is_ok()
    }
}

impl Drop for SeveralNames {
    fn drop(&mut self) {
        let open = self.known.iter().filter(|known| known.left > 0);
        open.for_each(|known| close(known.copy));
    }
}

/// A second descriptor, which only stands for the file.
fn again(file: Fd) -> Result<Fd> {
    let path = Text::<32>::new(format_args!("/proc/self/fd/{file}"))?;
    open(path.as_c_str(), open_flags::PATH, 0)
}

#[inline(never)]
fn copy_link(from: Fd, to: Fd, name: &CStr) -> Result<()> {
    let mut target = [0; MAX_LINK_BYTES];
    read_link_at(from, name, &mut target)?;
    let target = CStr::from_bytes_until_nul(&target).map_err(|_| Errno::INVAL)?;
    make_link_at(target, to, name)
}

/// Opens what has this name on both sides, copies it, and lets the copy have the permissions and times.
fn with_both(
    from: Fd,
    to: Fd,
    name: &CStr,
    flags: [usize; 2],
    copy: impl FnOnce(Fd, Fd) -> Result<()>,
) -> Result<()> {
    let from = open_at(from, name, flags[0], 0)?;
    let to = open_at(to, name, flags[1], 0o600);
    let outcome = to.and_then(|to| {
        let outcome = status(from).and_then(|found: Status| {
            let copied = copy(from, to);
            change_mode(to, found.permissions())?;
            change_times(to, Some(&found.times))?;
            copied
        });
        close(to);
        outcome
    });
    close(from);
    outcome
}

/// What has no contents in the parent has none in the copy: a large file may hold nearly nothing.
fn copy_contents(from: Fd, to: Fd) -> Result<()> {
    let found = status(from)?;
    if !found.is_file() {
        return Err(Errno::INVAL);
    }
    // A file that grows meanwhile has no end.
    let end = found.size as usize;
    let mut at = 0;
    while at < end {
        let start = match seek_contents(from, at) {
            Ok(start) if start < end => start,
            Ok(_) | Err(Errno::NXIO) => break,
            Err(error) => return Err(error),
        };
        at = seek_hole(from, start)?.clamp(start, end);
        seek(from, start)?;
        seek(to, start)?;
        let mut left = at - start;
        while left > 0 {
            match copy_bytes(from, to, left)? {
                // It was made shorter.
                0 => return Ok(()),
                copied => left -= copied.min(left),
            }
        }
    }
    truncate(to, end as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::Path;

    fn opened(path: &Path) -> Fd {
        let path = CString::new(path.to_str().unwrap()).unwrap();
        open(&path, DIRECTORY, 0).unwrap()
    }

    #[test]
    fn files_directories_and_links_are_copied_with_their_permissions_and_times() {
        let place =
            std::env::temp_dir().join(std::format!("cellblock-copied-{}", std::process::id()));
        let (source, target) = (place.join("source"), place.join("target"));
        fs::create_dir_all(source.join("a/b")).unwrap();
        fs::create_dir_all(target.join("there")).unwrap();
        fs::create_dir_all(source.join("there/not")).unwrap();
        let text = std::vec![7u8; 300_000];
        fs::write(source.join("a/b/file"), &text).unwrap();
        let executable = fs::Permissions::from_mode(0o750);
        fs::set_permissions(source.join("a/b/file"), executable).unwrap();
        symlink("a/b", source.join("link")).unwrap();
        for number in 0..100 {
            fs::write(source.join(std::format!("small {number}")), "x").unwrap();
        }
        let (from, to) = (opened(&source), opened(&target));
        Copying::new().directory(from, to, 0).unwrap();
        close(from);
        close(to);
        assert_eq!(fs::read(target.join("a/b/file")).unwrap(), text);
        let metadata = |place: &Path| fs::metadata(place.join("a/b/file")).unwrap();
        let (before, after) = (metadata(&source), metadata(&target));
        assert_eq!(after.permissions(), before.permissions());
        assert_eq!(after.modified().unwrap(), before.modified().unwrap());
        let link = fs::read_link(target.join("link")).unwrap();
        assert_eq!(link, Path::new("a/b"));
        assert!(!target.join("there/not").exists());
        assert_eq!(fs::read_dir(&target).unwrap().count(), 103);
        fs::remove_dir_all(place).unwrap();
    }
}
