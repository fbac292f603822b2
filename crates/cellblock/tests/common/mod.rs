//! Sessions for the security tests: one async runtime and one host for each test binary, on the bare standard library.
//!
//! These tests run as root and as an ordinary user, and from any directory: everything they need is in the binary or made in a
//! temporary directory.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use cellblock::env::Dirs;
use cellblock::{
    Cell, CellResult, Error, Host, Isolation, Limits, Preload, PythonChoice, Session,
    SessionBuilder, Wall,
};
use cellblock_sandbox::{ProcEntry, ProcStat};
use serde_json::{Map, Value};
use std::future::Future;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::Command;
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use std::{env, fs, io, thread};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

mod busy;
pub(crate) use busy::under_load;

pub(crate) static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
});

/// A test that waits longer than this is stuck.
pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// Waits for anything that is asynchronous, but not for ever.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    RUNTIME.block_on(async {
        let begin = Instant::now();
        let mut future = pin!(future);
        loop {
            match tokio::time::timeout(MINUTE, &mut future).await {
                Ok(output) => return output,
                Err(_) => assert!(
                    begin.elapsed() < under_load(MINUTE),
                    "it did not end within a minute, or as much longer as the machine is busy"
                ),
            }
        }
    })
}

/// The host of this test binary.
pub(crate) fn host() -> &'static Host {
    static HOST: LazyLock<Host> = LazyLock::new(|| new_host(ground()));
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

/// The Python of the system, unless the test is told otherwise: one in root's home would be out of reach where a session has
/// no view of its own.
pub(crate) fn python() -> PathBuf {
    env::var_os("CELLBLOCK_PYTHON").map_or_else(|| "/usr/bin/python3".into(), PathBuf::from)
}

/// A directory that every user can enter, for all that this test binary leaves on disk. Nothing runs at the end of a test
/// binary, so each removes what earlier ones left.
pub(crate) fn ground() -> &'static Path {
    static GROUND: LazyLock<PathBuf> = LazyLock::new(|| {
        remove_old_grounds();
        let path = env::temp_dir().join(format!("{GROUND_PREFIX}{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    });
    &GROUND
}

const GROUND_PREFIX: &str = "cellblock-test-";

fn remove_old_grounds() {
    for entry in fs::read_dir(env::temp_dir()).unwrap().flatten() {
        let name = entry.file_name();
        let pid = name
            .to_str()
            .and_then(|name| name.strip_prefix(GROUND_PREFIX)?.parse().ok());
        if pid.is_some_and(|pid| process(pid).is_none()) {
            // Those of another user stay.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// A new directory on the ground.
pub(crate) fn new_directory() -> TempDir {
    let directory = tempfile::tempdir_in(ground()).unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    directory
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

/// Waits until something is so that is bound to become so.
pub(crate) fn eventually(what: &str, so: impl Fn() -> bool) {
    assert!(within(MINUTE, so), "not within a minute: {what}");
}

pub(crate) fn within(time: Duration, so: impl Fn() -> bool) -> bool {
    let begin = Instant::now();
    while !so() {
        if begin.elapsed() > under_load(time) {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}

/// The permission bits of a file, with those that run it as someone else.
pub(crate) fn permissions_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Whether the longer versions of the tests are wanted.
pub(crate) fn is_long() -> bool {
    env::var_os("CELLBLOCK_LONG").is_some()
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

/// One process of this machine, seen from outside of every wall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    pub(crate) state: char,
    pub(crate) name: String,
}

/// Every process of this machine that is not yet reaped.
pub(crate) fn processes() -> Vec<Process> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| process(entry.file_name().to_str()?.parse().ok()?))
        .collect()
}

/// One process, if it is there.
pub(crate) fn process(pid: u32) -> Option<Process> {
    let ProcStat {
        name,
        state,
        parent,
        ..
    } = ProcEntry::of(pid).stat()?;
    Some(Process {
        pid,
        parent,
        state,
        name,
    })
}

/// Everything that a process started, and what that started, and so on; the dead that nobody reaped included.
pub(crate) fn descendants(pid: u32) -> Vec<Process> {
    let all = processes();
    let mut found: Vec<Process> = Vec::new();
    let mut open = vec![pid];
    while let Some(parent) = open.pop() {
        for process in all.iter().filter(|process| process.parent == parent) {
            open.push(process.pid);
            found.push(process.clone());
        }
    }
    found
}

/// The processes whose process namespace is this one. A session's processes are found by it wherever they went.
pub(crate) fn in_process_namespace(namespace: &str) -> Vec<Process> {
    let inside =
        |process: &Process| process_namespace(process.pid).is_ok_and(|found| found == namespace);
    processes().into_iter().filter(inside).collect()
}

/// The memory of them all.
pub(crate) fn memory_in_process_namespace(namespace: &str) -> u64 {
    memory_of(&in_process_namespace(namespace))
}

/// The memory of these processes together: a page that n processes share counts one n-th in each.
pub(crate) fn memory_of(processes: &[Process]) -> u64 {
    let share = |process: &Process| {
        let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", process.pid)).ok()?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("Pss_Anon:"))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    processes.iter().filter_map(share).sum::<u64>() << 10
}

/// How many of them have this name.
pub(crate) fn in_process_namespace_named(namespace: &str, name: &str) -> usize {
    in_process_namespace(namespace)
        .iter()
        .filter(|process| process.name == name)
        .count()
}

/// The command lines of all processes, their words ended by zero bytes.
pub(crate) fn command_lines() -> impl Iterator<Item = String> {
    let read = |process: Process| fs::read(format!("/proc/{}/cmdline", process.pid)).ok();
    processes()
        .into_iter()
        .filter_map(read)
        .map(|line| String::from_utf8_lossy(&line).into_owned())
}

pub(crate) fn process_namespace(pid: u32) -> io::Result<String> {
    Ok(fs::read_link(format!("/proc/{pid}/ns/pid"))?
        .to_string_lossy()
        .into_owned())
}

/// A process that must live or die; ended when it is dropped.
pub(crate) struct Child(pub(crate) std::process::Child);

impl Child {
    pub(crate) fn start(command: &mut Command) -> Child {
        Child(command.spawn().unwrap())
    }

    /// A process of the host's that does nothing, in a group of its own.
    pub(crate) fn sleeping() -> Child {
        use std::os::unix::process::CommandExt as _;
        Child::start(Command::new("/bin/sleep").arg("600").process_group(0))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
