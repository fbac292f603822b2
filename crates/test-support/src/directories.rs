//! Directories for what a test program leaves on disk.

use crate::process;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::{env, fs};
use tempfile::TempDir;

/// A directory of this test program that every user can enter. Nothing runs at the end of a test
/// program, so each removes the directories of those that ended.
pub fn test_directory() -> &'static Path {
    static DIRECTORY: LazyLock<PathBuf> = LazyLock::new(|| {
        remove_old_directories();
        let path = env::temp_dir().join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        let_everyone_enter(&path);
        path
    });
    &DIRECTORY
}

/// A new directory below [`test_directory`], removed when it is dropped.
pub fn new_directory() -> TempDir {
    let directory = tempfile::tempdir_in(test_directory()).unwrap();
    let_everyone_enter(directory.path());
    directory
}

const PREFIX: &str = "cellblock-test-";

fn let_everyone_enter(directory: &Path) {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
}

fn remove_old_directories() {
    for entry in fs::read_dir(env::temp_dir()).unwrap().flatten() {
        let name = entry.file_name();
        let pid = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.parse().ok());
        if pid.is_some_and(|pid| process(pid).is_none()) {
            // The directories of another user stay.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
