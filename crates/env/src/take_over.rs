//! Taking out of a room what was made there. Whoever made it had to do with files of strangers, so it is looked at first.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Component, Path, PathBuf},
};

use crate::{Error, Interpreter};

/// Looks at a tree from a closed room. Refused is anything in it but files, directories, and links that stay inside or lead to the
/// interpreter: through another link, we would read or write files of the user's.
pub(crate) fn look_through(made: &Path, interpreter: &Interpreter) -> Result<(), Error> {
    let is_directory = made.symlink_metadata().is_ok_and(|found| found.is_dir());
    if !is_directory {
        return Err(odd(made, "is no directory"));
    }
    look_below(made, Path::new(""), &interpreter.directories())
}

fn look_below(tree: &Path, below: &Path, leading: &[PathBuf]) -> Result<(), Error> {
    let directory = tree.join(below);
    let failed = |source| Error::io("look through", &directory, source);
    for entry in fs::read_dir(&directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(failed)?;
        let path = below.join(entry.file_name());
        if kind.is_dir() {
            look_below(tree, &path, leading)?;
        } else if kind.is_symlink() {
            let target = fs::read_link(entry.path()).map_err(failed)?;
            let is_known = leading.iter().any(|place| target.starts_with(place));
            let climbs = target.components().any(|part| part == Component::ParentDir);
            if !stays(below, &target) && (!is_known || climbs) {
                return Err(odd(&entry.path(), "is a link that leads out of it"));
            }
        } else if !kind.is_file() {
            return Err(odd(&entry.path(), "is neither a file nor a directory"));
        }
    }
    Ok(())
}

/// Whether a relative link in a directory leads to something in the same tree. Up is only believed at its beginning: after a name,
/// which may be a link itself, nobody knows where up leads.
fn stays(directory: &Path, target: &Path) -> bool {
    let mut above = directory.components().count();
    for part in target.components() {
        match part {
            Component::Normal(_) => above = 0,
            Component::CurDir => {}
            Component::ParentDir if above > 0 => above -= 1,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    true
}

/// Lets every user read the tree, only the owner write, and nobody become another by it, whatever the umask was, and returns its size. A session that root starts
/// runs as an unprivileged user; who may come near the tree is decided by the directories above it.
pub(crate) fn make_readable(path: &Path) -> Result<u64, Error> {
    let failed = |source| Error::io("make readable", path, source);
    let metadata = path.symlink_metadata().map_err(failed)?;
    if metadata.is_symlink() {
        return Ok(0);
    }
    let mode = metadata.permissions().mode();
    let readable = if metadata.is_dir() || mode & 0o100 != 0 {
        0o555
    } else {
        0o444
    };
    let wanted = (mode | readable) & !0o6022;
    if wanted != mode {
        fs::set_permissions(path, fs::Permissions::from_mode(wanted)).map_err(failed)?;
    }
    let mut bytes = metadata.len();
    if metadata.is_dir() {
        for entry in fs::read_dir(path).map_err(failed)? {
            bytes += make_readable(&entry.map_err(failed)?.path())?;
        }
    }
    Ok(bytes)
}

fn odd(path: &Path, what: &str) -> Error {
    let why = std::io::Error::other(format!("what the installer left there {what}"));
    Error::io("use", path, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_over_is_readable_and_makes_nobody_another() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("program");
        fs::write(&program, "x").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o6772)).unwrap();
        make_readable(directory.path()).unwrap();
        let mode = program.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o755, "{mode:o}");
    }

    #[test]
    fn links_stay_or_do_not() {
        let directory = Path::new("lib/python");
        assert!(stays(directory, Path::new("../../bin/python")));
        assert!(stays(Path::new(""), Path::new("lib")));
        assert!(!stays(directory, Path::new("../../../home")));
        assert!(!stays(directory, Path::new("/etc/passwd")));
        assert!(!stays(directory, Path::new("link/../..")));
    }
}
