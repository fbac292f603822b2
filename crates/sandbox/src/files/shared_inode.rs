//! Files that several directories have in common until one of them changes its own: the same inode under a name in each.

use crate::files::confined::{Access, Confined, Links};
use crate::files::entry::EntryHandle;
use crate::files::temporary_file::TemporaryFile;
use rustix::fd::AsFd as _;
use rustix::fs::{
    AtFlags, CWD, Gid, Mode, Timespec, Timestamps, Uid, fchmod, fchown, fstat, futimens, linkat,
    statat,
};
use rustix::process::geteuid;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

impl Confined {
    /// Gives something a second name in this directory, on the same file system.
    pub fn take_in(&self, entry: &EntryHandle, path: &Path) -> io::Result<()> {
        let (parent, name) = self.split(path, Links::AreNotFollowed)?;
        let flags = AtFlags::SYMLINK_FOLLOW;
        Ok(linkat(CWD, entry.itself(), &parent, name, flags)?)
    }

    /// Puts a copy in the place of a file that was found at this path. The file stays as it is under its other names,
    /// and for processes that have it open. A name that leads to another file by now is left alone.
    pub fn replace_by_copy(&self, path: &Path, found: &EntryHandle) -> io::Result<()> {
        let (parent, name) = self.split(path, Links::AreNotFollowed)?;
        let source = found.read()?;
        let stat = fstat(&source)?;
        let temporary_file = TemporaryFile::new(parent.as_fd())?;
        // The kernel shares the blocks where the file system can. One that grows as fast as it is copied has no end.
        io::copy(
            &mut (&source).take(stat.st_size.unsigned_abs()),
            &mut &temporary_file.file,
        )?;
        let time = |seconds: i64, rest: u64| Timespec {
            tv_sec: seconds,
            tv_nsec: rest.cast_signed(),
        };
        let times = Timestamps {
            last_access: time(stat.st_atime, stat.st_atime_nsec),
            last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
        };
        make_like(&temporary_file.file, Access::of(&stat), &times)?;
        let now = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if (now.st_dev, now.st_ino) == (stat.st_dev, stat.st_ino) {
            temporary_file.move_to(name)?;
        }
        Ok(())
    }

    /// Puts a new file in the place of a file or a link, with these contents, for whom it is and when it was written. Whoever has the old
    /// one keeps it. Returns the new file, which is held: its name may lead to another one by then.
    pub fn replace_by(
        &self,
        path: &Path,
        contents: &mut File,
        access: Access,
        modified: (i64, i64),
    ) -> io::Result<EntryHandle> {
        let (parent, name) = self.split(path, Links::AreNotFollowed)?;
        let temporary_file = TemporaryFile::new(parent.as_fd())?;
        io::copy(contents, &mut &temporary_file.file)?;
        let time = Timespec {
            tv_sec: modified.0,
            tv_nsec: modified.1,
        };
        let times = Timestamps {
            last_access: time,
            last_modification: time,
        };
        make_like(&temporary_file.file, access, &times)?;
        EntryHandle::of(temporary_file.move_to(name)?.into())
    }
}

fn make_like(file: &File, access: Access, times: &Timestamps) -> io::Result<()> {
    if geteuid().is_root() {
        let (owner, group) = (Uid::from_raw(access.owner), Gid::from_raw(access.group));
        fchown(file, Some(owner), Some(group))?;
    }
    fchmod(file, Mode::from_raw_mode(access.mode & 0o777))?;
    Ok(futimens(file, times)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Identity;
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    fn find(directory: &Confined, path: &Path) -> EntryHandle {
        directory.find(path, Links::AreNotFollowed).unwrap()
    }

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
        there.take_in(&find(&here, path), path).unwrap();
        let identities = || -> [Identity; 2] {
            [&here, &there].map(|directory| find(directory, path).identity().unwrap())
        };
        let [first, second] = identities();
        assert_eq!(first, second);
        there.replace_by_copy(path, &find(&there, path)).unwrap();
        assert_eq!(find(&here, path).stat().st_nlink, 1);
        let [first, second] = identities();
        assert_ne!(first, second);
        fs::write(&mine, "changed").unwrap();
        assert_eq!(fs::read_to_string(&theirs).unwrap(), "text");
        let copy = fs::metadata(&theirs).unwrap();
        let look = |of: &fs::Metadata| (of.mode(), of.mtime_nsec(), of.mtime());
        assert_eq!(look(&copy), look(&before));
        assert_eq!(
            fs::read_dir(theirs.parent().unwrap()).unwrap().count(),
            1,
            "the temporary file is gone"
        );
    }

    #[test]
    fn a_link_is_not_followed() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("file"), "text").unwrap();
        std::os::unix::fs::symlink("file", place.path().join("link")).unwrap();
        let here = Confined::open(place.path()).unwrap();
        let link = Path::new("link");
        assert!(here.replace_by_copy(link, &find(&here, link)).is_err());
    }

    #[test]
    fn a_name_that_leads_to_another_file_by_now_is_left_alone() {
        let place = tempfile::tempdir().unwrap();
        let name = |name: &str| place.path().join(name);
        fs::write(name("file"), "looked at").unwrap();
        let here = Confined::open(place.path()).unwrap();
        let path = Path::new("file");
        let found = find(&here, path);
        fs::rename(name("file"), name("moved")).unwrap();
        fs::write(name("file"), "another").unwrap();
        let before = fs::metadata(name("file")).unwrap().ino();
        here.replace_by_copy(path, &found).unwrap();
        assert_eq!(fs::metadata(name("file")).unwrap().ino(), before);
    }
}
