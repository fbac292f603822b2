//! The temporary files of the parent, which a fork has too.
//!
//! Init copies them: code of the session that had directories of the parent's and those of the fork at once could pass on what it has in one to the
//! other.

use crate::sys::{
    Errno, Fd, Result, Status, change_mode, change_times, close, copy_bytes, link_status_at,
    make_directory_at, make_link_at, open, open_at, open_flags, read_directory, read_link_at,
    status,
};
use core::ffi::CStr;

/// Where a session has temporary files.
const PLACES: [&CStr; 2] = [c"/tmp", c"/dev/shm"];

/// Directories below this many others are left out.
const MAX_DEPTH: usize = 100;
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

    /// Copies everything to where this session has its own. What is no file, directory or link, or cannot be copied, is left out.
    pub(super) fn copy(&self) {
        for (from, place) in self.0.into_iter().zip(PLACES) {
            if let Ok(to) = open(place, DIRECTORY, 0) {
                copy_directory(from, to, 0);
                close(to);
            }
            close(from);
        }
    }
}

const DIRECTORY: usize = open_flags::RDONLY | open_flags::DIRECTORY | open_flags::NOFOLLOW;

fn copy_directory(from: Fd, to: Fd, depth: usize) {
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
                let _ = copy_entry(from, to, name, depth);
            }
            entries = entries.get(size.max(NAME)..).unwrap_or(&[]);
        }
    }
}

fn copy_entry(from: Fd, to: Fd, name: &CStr, depth: usize) -> Result<()> {
    let found = link_status_at(from, name)?;
    if found.is_link() {
        copy_link(from, to, name)
    } else if found.is_directory() && depth < MAX_DEPTH {
        // One that is there already shows something of the system.
        make_directory_at(to, name, 0o700)?;
        let copied = |from, to| {
            copy_directory(from, to, depth + 1);
            Ok(())
        };
        with_both(from, to, name, [DIRECTORY; 2], copied)
    } else if found.is_file() {
        let source = open_flags::RDONLY | open_flags::NOFOLLOW | open_flags::NONBLOCK;
        let target = open_flags::WRONLY | open_flags::CREAT | open_flags::EXCL;
        with_both(from, to, name, [source, target], copy_contents)
    } else {
        Ok(())
    }
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

fn copy_contents(from: Fd, to: Fd) -> Result<()> {
    let found = status(from)?;
    if !found.is_file() {
        return Err(Errno::INVAL);
    }
    // A file that grows meanwhile has no end.
    let mut left = found.size as usize;
    while left > 0 {
        match copy_bytes(from, to, left)? {
            0 => break,
            copied => left -= copied.min(left),
        }
    }
    Ok(())
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
        copy_directory(from, to, 0);
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
