//! Sessions for the security tests: one async runtime and one host for each test binary, on the bare standard library.
//!
//! These tests run as root and as an ordinary user, and from any directory: everything they need is in the binary or made in a
//! temporary directory.
#![allow(
    dead_code,
    unused_imports,
    reason = "each test binary uses a part of it"
)]

use cellblock_env::Dirs;
use cellblock_host::{Error, Host, PythonChoice, SessionBuilder};
use cellblock_protocol::{Cell, CellResult, Isolation, Limits, Wall};
use cellblock_session::{Preload, Session};
use serde_json::{Map, Value};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

pub(crate) use cellblock_test_support::*;

/// The host of this test binary.
pub(crate) fn host() -> &'static Host {
    static HOST: LazyLock<Host> = LazyLock::new(|| new_host(test_directory()));
    &HOST
}

/// A host that keeps everything below `directory`.
pub(crate) fn new_host(directory: &Path) -> Host {
    let dirs = Dirs {
        cache: directory.join("cache"),
        state: directory.join("state"),
    };
    let host = Host::builder()
        .interpreter(python())
        .python(PythonChoice::StandardLibrary);
    host.preload(Preload::None).dirs(dirs).build().unwrap()
}

/// A session with the defaults.
pub(crate) fn builder() -> SessionBuilder {
    SessionBuilder::new().host(host())
}

pub(crate) fn open(builder: SessionBuilder) -> Session {
    wait(builder.start()).unwrap()
}

/// A session behind these walls that knows these variables.
pub(crate) fn behind(isolation: Isolation, limits: Limits, seeds: &Map<String, Value>) -> Session {
    let seeded = seeds.iter().fold(builder(), |builder, (name, value)| {
        builder.variable(name, value.clone())
    });
    // Started by root, sessions are another user. Without a view of their own they reach only what that user can reach.
    let has_view = !isolation.without.contains(&Wall::Files);
    let placed = if has_view {
        seeded
    } else {
        seeded.workspace(open_directory())
    };
    open(placed.isolation(isolation).limits(limits))
}

/// A directory that every user can work in.
fn open_directory() -> PathBuf {
    let directory = new_directory().keep();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
    directory
}

/// Runs a cell; whatever the code does, there is a result.
pub(crate) fn run(session: &Session, cell: impl Into<Cell>) -> CellResult {
    wait(session.run(cell)).unwrap()
}

/// The next cell of a session that may or may not have survived the one before.
pub(crate) fn run_if_alive(session: &Session, cell: impl Into<Cell>) -> Option<CellResult> {
    match wait(session.run(cell)) {
        Ok(result) => Some(result),
        Err(error) => {
            assert_eq!(error.code(), "ended", "{error}");
            None
        }
    }
}

pub(crate) fn refusal(builder: SessionBuilder) -> Error {
    wait(builder.start()).unwrap_err()
}

/// The short of a result, for the message of a failed test: some are megabytes.
pub(crate) fn short(result: &CellResult) -> String {
    let output: String = result.output.chars().take(300).collect();
    let error = result
        .error
        .as_ref()
        .map(|error| error.repr.as_str())
        .unwrap_or_default();
    let CellResult {
        status,
        exit_code,
        signal,
        state,
        ..
    } = result;
    format!(
        "{status} (exit {exit_code:?}, signal {signal:?}, {:?}) {error} {output:?}",
        state.outcome
    )
}

/// The permission bits of a file, with those that run it as someone else.
pub(crate) fn permissions_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

/// A text that nobody can guess.
pub(crate) fn token() -> String {
    use std::hash::{BuildHasher as _, RandomState};
    format!(
        "{:016x}{:016x}",
        RandomState::new().hash_one(0),
        RandomState::new().hash_one(1)
    )
}
