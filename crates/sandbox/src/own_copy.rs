//! Files that several directories have in common until one of them changes its own: the same inode under a name in each.

use crate::files::{Confined, Parent};
use rustix::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, StatxFlags, Timespec, Timestamps, Uid, fchmod, fchown, fstat,
    futimens, linkat, openat, renameat, statat, statx, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// What tells an inode from all others. The number alone does not: it is given out anew when the file is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    device: (u32, u32),
    inode: u64,
    born: (i64, u32),
}

impl Confined {
    /// Which inode is at a path; a link at its end is not followed.
    pub fn identity(&self, path: &Path) -> io::Result<Identity> {
        let (parent, name) = self.split(path)?;
        let wanted = StatxFlags::INO | StatxFlags::BTIME;
        let found = statx(&parent, name, AtFlags::SYMLINK_NOFOLLOW, wanted)?;
        Ok(Identity {
            device: (found.stx_dev_major, found.stx_dev_minor),
            inode: found.stx_ino,
            born: (found.stx_btime.tv_sec, found.stx_btime.tv_nsec),
        })
    }

    /// Gives a file of this directory a second name in another one, on the same file system.
    pub fn share(&self, path: &Path, other: &Confined) -> io::Result<()> {
        let (parent, name) = self.split(path)?;
        let (other_parent, other_name) = other.split(path)?;
        let done = linkat(&parent, name, &other_parent, other_name, AtFlags::empty());
        Ok(done?)
    }

    /// Puts a copy in the place of a file. Who has the file under another name, or has it open, keeps it as it is. Returns how many
    /// names that one has left.
    ///
    /// The copy has no name until it is whole.
    pub fn replace_by_copy(&self, path: &Path) -> io::Result<u64> {
        let (parent, name) = self.split(path)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let source = openat(&parent, name, flags, Mode::empty())?;
        let stat = fstat(&source)?;
        let mut draft = Draft::new(&parent)?;
        let mut source = File::from(source);
        // The kernel shares the blocks where the file system can.
        io::copy(&mut source, &mut draft.file)?;
        if geteuid().is_root() {
            let (owner, group) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
            fchown(&draft.file, Some(owner), Some(group))?;
        }
        fchmod(&draft.file, Mode::from_raw_mode(stat.st_mode & 0o777))?;
        let time = |seconds: i64, rest: u64| Timespec {
            tv_sec: seconds,
            tv_nsec: rest.cast_signed(),
        };
        let times = Timestamps {
            last_access: time(stat.st_atime, stat.st_atime_nsec),
            last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
        };
        futimens(&draft.file, &times)?;
        let now = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if (now.st_dev, now.st_ino) == (stat.st_dev, stat.st_ino) {
            draft.move_to(name)?;
        }
        Ok(fstat(&source)?.st_nlink)
    }
}

/// A copy that is not finished.
struct Draft<'a> {
    parent: &'a Parent<'a>,
    file: File,
    /// Where there are no files without a name.
    name: Option<PathBuf>,
}

impl<'a> Draft<'a> {
    fn new(parent: &'a Parent<'a>) -> io::Result<Draft<'a>> {
        let mode = Mode::from_raw_mode(0o600);
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        match openat(parent, ".", flags | OFlags::TMPFILE, mode) {
            Ok(file) => Ok(Draft {
                parent,
                file: File::from(file),
                name: None,
            }),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                let name = unused_name();
                let new = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
                let file: OwnedFd = openat(parent, &name, new, mode)?;
                Ok(Draft {
                    parent,
                    file: File::from(file),
                    name: Some(name),
                })
            }
            Err(error) => Err(error.into()),
        }
    }

    fn move_to(mut self, name: &OsStr) -> io::Result<()> {
        let draft = match self.name.take() {
            Some(draft) => draft,
            None => {
                let draft = unused_name();
                let itself = format!("/proc/self/fd/{}", self.file.as_fd().as_raw_fd());
                linkat(CWD, itself, self.parent, &draft, AtFlags::SYMLINK_FOLLOW)?;
                draft
            }
        };
        let renamed = renameat(self.parent, &draft, self.parent, name);
        if renamed.is_err() {
            self.name = Some(draft);
        }
        Ok(renamed?)
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = unlinkat(self.parent, name, AtFlags::empty());
        }
    }
}

fn unused_name() -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    PathBuf::from(format!(".cellblock-copy-{}-{number}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    #[test]
    fn a_shared_file_is_one_until_it_is_replaced_by_a_copy() {
        let [one, two] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let [here, there] = [&one, &two].map(|place| Confined::open(place.path()).unwrap());
        let path = Path::new("d/file");
        let [mine, theirs] = [&one, &two].map(|place| place.path().join(path));
        for file in [&mine, &theirs] {
            fs::create_dir(file.parent().unwrap()).unwrap();
        }
        fs::write(&mine, "text").unwrap();
        fs::set_permissions(&mine, fs::Permissions::from_mode(0o640)).unwrap();
        let before = fs::metadata(&mine).unwrap();
        here.share(path, &there).unwrap();
        assert_eq!(here.identity(path).unwrap(), there.identity(path).unwrap());
        assert_eq!(there.replace_by_copy(path).unwrap(), 1);
        assert_ne!(here.identity(path).unwrap(), there.identity(path).unwrap());
        fs::write(&mine, "changed").unwrap();
        assert_eq!(fs::read_to_string(&theirs).unwrap(), "text");
        let copy = fs::metadata(&theirs).unwrap();
        let look = |of: &fs::Metadata| (of.mode(), of.mtime_nsec(), of.mtime());
        assert_eq!(look(&copy), look(&before));
        assert_eq!(
            fs::read_dir(theirs.parent().unwrap()).unwrap().count(),
            1,
            "the draft is gone"
        );
    }

    #[test]
    fn a_link_is_not_followed() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("file"), "text").unwrap();
        std::os::unix::fs::symlink("file", place.path().join("link")).unwrap();
        let here = Confined::open(place.path()).unwrap();
        assert!(here.replace_by_copy(Path::new("link")).is_err());
    }
}
