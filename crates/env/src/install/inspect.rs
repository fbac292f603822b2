//! Checks of the files that an installer made: it worked with files of strangers.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Component, Path, PathBuf},
};

use crate::{Error, Interpreter};

/// Checks a tree that came out of a sandbox. Only files, directories, and links that stay inside the tree or
/// lead to the interpreter are allowed: through any other link this process would read or write the user's
/// files.
pub(crate) fn inspect_tree(tree: &Path, interpreter: &Interpreter) -> Result<(), Error> {
    let metadata = tree.symlink_metadata();
    if !metadata.is_ok_and(|metadata| metadata.is_dir()) {
        return Err(unexpected(tree, "is no directory"));
    }
    inspect_directory(tree, Path::new(""), &interpreter.directories())
}

fn inspect_directory(tree: &Path, below: &Path, allowed: &[PathBuf]) -> Result<(), Error> {
    let directory = tree.join(below);
    let failed = |source| Error::io("inspect", &directory, source);
    for entry in fs::read_dir(&directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(failed)?;
        let path = below.join(entry.file_name());
        if kind.is_dir() {
            inspect_directory(tree, &path, allowed)?;
        } else if kind.is_symlink() {
            let target = fs::read_link(entry.path()).map_err(failed)?;
            let is_allowed = allowed.iter().any(|place| target.starts_with(place));
            let has_parent_parts = target.components().any(|part| part == Component::ParentDir);
            if !stays_inside(below, &target) && (!is_allowed || has_parent_parts) {
                return Err(unexpected(&entry.path(), "is a link that leads out of it"));
            }
        } else if !kind.is_file() {
            return Err(unexpected(
                &entry.path(),
                "is neither a file nor a directory",
            ));
        }
    }
    Ok(())
}

/// Whether a relative link in a directory leads to a path in the same tree. `..` is allowed only at the
/// beginning: after a name, which may be a link itself, it may lead anywhere.
fn stays_inside(directory: &Path, target: &Path) -> bool {
    let mut levels_up = directory.components().count();
    for part in target.components() {
        match part {
            Component::Normal(_) => levels_up = 0,
            Component::CurDir => {}
            Component::ParentDir if levels_up > 0 => levels_up -= 1,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    true
}

/// Makes a tree readable for every user and writable for its owner only, and takes away set-user-id bits,
/// whatever the umask was. Returns the tree's size in bytes.
///
/// A session that root starts runs as an unprivileged user; the directories above the tree decide which
/// users can reach it.
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

fn unexpected(path: &Path, what: &str) -> Error {
    let why = std::io::Error::other(format!("the installer left a file there that {what}"));
    Error::io("use", path, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_becomes_readable_and_loses_its_set_user_id_bits() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("program");
        fs::write(&program, "x").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o6772)).unwrap();
        make_readable(directory.path()).unwrap();
        let mode = program.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o755, "{mode:o}");
    }

    #[test]
    fn a_link_stays_inside_or_leads_out() {
        let directory = Path::new("lib/python");
        assert!(stays_inside(directory, Path::new("../../bin/python")));
        assert!(stays_inside(Path::new(""), Path::new("lib")));
        assert!(!stays_inside(directory, Path::new("../../../home")));
        assert!(!stays_inside(directory, Path::new("/etc/passwd")));
        assert!(!stays_inside(directory, Path::new("link/../..")));
    }
}
