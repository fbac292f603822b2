//! Pythons that cannot be used. Little scripts play them.

use super::words;
use crate::support::wait;
use cellblock_host::Host;
use cellblock_session::Preload;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// A little script that plays an interpreter.
struct Fake {
    directory: tempfile::TempDir,
}

impl Fake {
    fn new(script: &str) -> Fake {
        let fake = Fake {
            directory: tempfile::tempdir().unwrap(),
        };
        fs::write(fake.path(), format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(fake.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fake
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("python3")
    }
}

/// Why this Python cannot be used, and what to do about it.
fn refused(path: &Path) -> (&'static str, String) {
    let error = Host::builder().interpreter(path).build().unwrap_err();
    assert!(error.hint().is_some(), "{error}");
    words(error)
}

fn sentence(path: &Path, problem: &str) -> (&'static str, String) {
    (
        "python",
        format!(
            "the Python that was asked for cannot be used: {}: {problem}",
            path.display()
        ),
    )
}

#[test]
fn none_at_all() {
    let path = Path::new("/nowhere/python3");
    assert_eq!(refused(path), sentence(path, "there is no such file"));
}

#[test]
fn a_directory() {
    assert_eq!(
        refused(Path::new("/usr")),
        sentence(Path::new("/usr"), "it is a directory, not an executable")
    );
}

#[test]
fn one_that_is_too_old() {
    let fake = Fake::new(r#"echo '{"version": [3, 8, 10], "implementation": "cpython"}'"#);
    assert_eq!(
        refused(&fake.path()),
        sentence(&fake.path(), "3.8.10 is too old, 3.10 or newer is needed")
    );
}

#[test]
fn one_that_fails_to_start() {
    let fake = Fake::new("echo 'libpython3.so: cannot open shared object file' >&2\nexit 127");
    let (code, message) = refused(&fake.path());
    assert_eq!(code, "python");
    assert!(
        message.contains("did not start") && message.contains("cannot open shared object file"),
        "{message}"
    );
}

#[test]
fn one_that_may_not_be_executed() {
    let fake = Fake::new("exit 0");
    fs::set_permissions(fake.path(), fs::Permissions::from_mode(0o000)).unwrap();
    let (code, message) = refused(&fake.path());
    assert_eq!(code, "python");
    assert!(message.contains("permission denied"), "{message}");
}

#[test]
fn one_that_answers_and_then_does_not_start_behind_the_walls() {
    let real = Host::builder()
        .build()
        .unwrap()
        .environment()
        .interpreter
        .clone();
    let fake = Fake::new("echo 'Fatal Python error: no luck today' >&2\nexit 3");
    let mut environment = cellblock_env::Environment::standard_library(&real);
    environment.python = fake.path();
    let host = Host::builder()
        .environment(environment)
        .preload(Preload::None)
        .build()
        .unwrap();
    let (code, message) = words(wait(host.session().start()).unwrap_err());
    assert_eq!(code, "python");
    let beginning = format!("Python at {} did not start: ", fake.path().display());
    assert!(message.starts_with(&beginning), "{message}");
}

#[test]
fn one_that_ends_while_it_imports_says_what_it_said() {
    let real = Host::builder()
        .build()
        .unwrap()
        .environment()
        .interpreter
        .clone();
    let mut environment = cellblock_env::Environment::standard_library(&real);
    environment.python = PathBuf::from("/bin/sh");
    let host = Host::builder()
        .environment(environment)
        .preload(Preload::None)
        .build()
        .unwrap();
    let (code, message) = words(wait(host.session().start()).unwrap_err());
    assert_eq!(code, "python");
    assert!(
        message.contains("did not start: it ended with exit code 2; it said: "),
        "{message}"
    );
}
