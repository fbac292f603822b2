//! Directories and files that the host keeps for its own user: no other user of the machine can read them or put something else in their
//! place.

use super::path_owners;
use rustix::fd::AsRawFd as _;
use rustix::fs::{CWD, Mode, OFlags, chmod, fstat, openat};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// The users that may enter a directory of the host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The owner alone.
    OwnerOnly,
    /// Every user may pass through to what is theirs below it, and only the owner may list it. For sessions of root's that have no view: they run
    /// as another user, and their directories are below ours.
    PassThrough,
}

impl Reach {
    fn mode(self) -> u32 {
        match self {
            Reach::OwnerOnly => 0o700,
            Reach::PassThrough => 0o711,
        }
    }
}

/// Makes a directory of the host's with those above it, whatever the umask is. One that is there must be ours and no link; what others may do
/// with it beyond `reach` is taken away.
pub fn private_directory(path: &Path, reach: Reach) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder
        .recursive(true)
        .mode(reach.mode())
        .create(path)
        .or_else(|error| match error.kind() {
            // Something is there. The next look says what.
            io::ErrorKind::AlreadyExists => Ok(()),
            _ => Err(error),
        })?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = openat(CWD, path, flags, Mode::empty()).map_err(|errno| match errno {
        Errno::LOOP | Errno::NOTDIR => {
            refused("it is a link or a file, and must be a directory".to_owned())
        }
        errno => errno.into(),
    })?;
    let found = fstat(&directory)?;
    if found.st_uid != geteuid().as_raw() {
        return Err(refused(format!(
            "it belongs to the user with the number {}, who could read and change what is kept there; use another directory",
            found.st_uid
        )));
    }
    let mode = found.st_mode & 0o7777;
    if mode & 0o777 != reach.mode() {
        let itself = format!("/proc/self/fd/{}", directory.as_raw_fd());
        chmod(itself, Mode::from_raw_mode(reach.mode()))?;
    }
    Ok(())
}

/// Makes or checks the directory that all others are in. No other user may be able to put another in its place: the directories on the way to it must
/// belong to root or to us, and must not be writable by others, unless they are sticky.
pub fn claim_directory(path: &Path, reach: Reach) -> io::Result<()> {
    private_directory(path, reach)?;
    path_owners::check(path)
}

/// Makes a file for its owner alone, whatever the umask is. Nothing may be at the path, not even a link.
pub fn private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    options.open(path)
}

pub(super) fn refused(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions, set_permissions};
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    fn open_to(path: &Path, bits: u32) {
        set_permissions(path, Permissions::from_mode(bits)).unwrap();
    }

    #[test]
    fn what_is_made_is_for_its_owner_and_what_was_open_is_closed() {
        let host = tempfile::tempdir().unwrap();
        let path = host.path().join("a/b");
        private_directory(&path, Reach::OwnerOnly).unwrap();
        assert_eq!([mode(&host.path().join("a")), mode(&path)], [0o700; 2]);
        open_to(&path, 0o777);
        private_directory(&path, Reach::OwnerOnly).unwrap();
        assert_eq!(mode(&path), 0o700);
        private_directory(&path, Reach::PassThrough).unwrap();
        assert_eq!(mode(&path), 0o711);
        private_file(&path.join("file")).unwrap();
        assert_eq!(mode(&path.join("file")), 0o600);
    }

    #[test]
    fn a_link_and_what_is_another_user_s_are_refused() {
        let host = tempfile::tempdir().unwrap();
        let (real, link) = (host.path().join("real"), host.path().join("link"));
        fs::create_dir(&real).unwrap();
        open_to(&real, 0o755);
        symlink(&real, &link).unwrap();
        private_directory(&link, Reach::OwnerOnly).unwrap_err();
        private_file(&link).unwrap_err();
        assert_eq!(mode(&real), 0o755);
        if geteuid().is_root() {
            chown(&real, Some(4711), None).unwrap();
            private_directory(&real, Reach::OwnerOnly).unwrap_err();
            assert_eq!(mode(&real), 0o755);
        }
    }

    #[test]
    fn a_directory_that_others_can_put_another_in_the_place_of_is_refused() {
        let host = tempfile::tempdir().unwrap();
        let above = host.path().join("above");
        let path = above.join("below/own");
        claim_directory(&path, Reach::OwnerOnly).unwrap();
        open_to(&above, 0o777);
        let error = claim_directory(&path, Reach::OwnerOnly).unwrap_err();
        assert!(error.to_string().contains("above"), "{error}");
        open_to(&above, 0o1777);
        claim_directory(&path, Reach::OwnerOnly).unwrap();
    }
    #[test]
    fn a_directory_on_whose_way_is_one_of_another_user_is_refused() {
        if !geteuid().is_root() {
            return;
        }
        let host = tempfile::tempdir().unwrap();
        let theirs = host.path().join("theirs");
        let path = theirs.join("below/own");
        claim_directory(&path, Reach::OwnerOnly).unwrap();
        chown(&theirs, Some(4711), None).unwrap();
        let error = claim_directory(&path, Reach::OwnerOnly).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("theirs") && text.contains("4711"), "{error}");
        // A sticky directory keeps its owner from nothing.
        open_to(&theirs, 0o1777);
        claim_directory(&path, Reach::OwnerOnly).unwrap_err();
    }

    #[test]
    fn a_link_on_the_way_that_another_user_could_lead_elsewhere_is_refused() {
        if !geteuid().is_root() {
            return;
        }
        let host = tempfile::tempdir().unwrap();
        let (theirs, ours) = (host.path().join("theirs"), host.path().join("ours"));
        fs::create_dir(&theirs).unwrap();
        fs::create_dir(&ours).unwrap();
        let link = theirs.join("link");
        symlink("../ours", &link).unwrap();
        let path = link.join("own");
        claim_directory(&path, Reach::OwnerOnly).unwrap();
        chown(&theirs, Some(4711), None).unwrap();
        claim_directory(&path, Reach::OwnerOnly).unwrap_err();
        chown(&theirs, Some(0), None).unwrap();
        open_to(&theirs, 0o1777);
        claim_directory(&path, Reach::OwnerOnly).unwrap();
        std::os::unix::fs::lchown(&link, Some(4711), None).unwrap();
        claim_directory(&path, Reach::OwnerOnly).unwrap_err();
    }
}
