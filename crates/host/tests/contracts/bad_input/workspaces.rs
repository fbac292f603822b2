//! Workspaces that cannot be used.

use super::words;
use crate::support::{builder, is_root, open, refusal, session, wait};
use cellblock_host::{Host, PythonChoice};
use cellblock_protocol::Status;
use cellblock_session::Preload;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

fn refused(path: &Path, problem: &str) {
    let message = format!("the workspace {} cannot be used: {problem}", path.display());
    assert_eq!(
        words(refusal(builder().workspace(path))),
        ("workspace", message)
    );
}

#[test]
fn one_that_does_not_exist_is_refused() {
    refused(
        Path::new("/nowhere/at/all"),
        "it does not exist; create it first",
    );
}

#[test]
fn one_that_is_a_file_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    refused(file.path(), "it is not a directory");
}

#[test]
fn the_root_directory_is_refused() {
    refused(Path::new("/"), "the root directory is no workspace");
}

#[test]
fn one_that_this_user_cannot_write_is_refused() {
    if is_root() {
        return println!(
            "skipped: root can write everywhere; the test with a read-only file system stands for it"
        );
    }
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o555)).unwrap();
    refused(directory.path(), "it cannot be written by this user");
}

/// A file system of its own, for root; it goes with the test.
struct Mount(tempfile::TempDir);

impl Mount {
    fn new(options: &str) -> Option<Mount> {
        if !is_root() {
            println!("skipped: only root can mount a file system");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(directory.path())
            .status();
        if !mounted.is_ok_and(|status| status.success()) {
            println!("skipped: this root cannot mount a file system");
            return None;
        }
        Some(Mount(directory))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

#[test]
fn one_on_a_read_only_file_system_is_refused() {
    let Some(mount) = Mount::new("ro") else {
        return;
    };
    refused(mount.path(), "it is on a read-only file system");
}

#[test]
fn one_on_a_full_disk_is_refused() {
    let Some(mount) = Mount::new("size=64k") else {
        return;
    };
    let _ = fs::write(mount.path().join("full"), vec![1; 1 << 20]);
    refused(mount.path(), "its disk is full");
}

#[test]
fn a_disk_that_becomes_full_is_an_exception_and_the_session_lives() {
    let Some(mount) = Mount::new("size=1m") else {
        return;
    };
    let host = Host::builder()
        .python(PythonChoice::StandardLibrary)
        .preload(Preload::None)
        .build()
        .unwrap();
    let session = open(host.session().workspace(mount.path()));
    assert_eq!(
        session.exception("open('big', 'wb').write(bytes(4 << 20))"),
        "OSError(28, 'No space left on device')"
    );
    let error = wait(session.put_file("more", vec![1; 4 << 20])).unwrap_err();
    assert_eq!(error.code(), "file");
    assert_eq!(
        session.value("import os\nos.remove('big')\nopen('small', 'w').write('fits')"),
        "4"
    );
}

#[test]
fn one_on_a_disk_that_was_mounted_after_the_host_started_is_the_one_that_was_meant() {
    session();
    let Some(mount) = Mount::new("size=1m") else {
        return;
    };
    fs::write(mount.path().join("given.txt"), "given").unwrap();
    let session = open(builder().workspace(mount.path()));
    assert_eq!(session.value("open('given.txt').read()"), "'given'");
    session.good("open('made.txt', 'w').write('made')");
    assert_eq!(
        fs::read_to_string(mount.path().join("made.txt")).unwrap(),
        "made"
    );
}

#[test]
fn one_that_is_deleted_under_the_session_does_no_harm() {
    let directory = tempfile::tempdir().unwrap();
    let session = open(builder().workspace(directory.path()));
    session.good("x = 1");
    drop(directory);
    assert_eq!(session.value("x"), "1");
    assert_eq!(session.run("open('a', 'w')").status, Status::Failure);
    assert_eq!(wait(session.list_files()).unwrap(), []);
}
