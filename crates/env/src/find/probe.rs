//! Asking one Python what it is, and keeping the answers on disk so that the next command starts no Python.

use std::{
    fs, io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};

use crate::{
    Cancel, Interpreter, MIN_PYTHON_VERSION, ProgramEnd, PythonVersion, RejectReason, Variables,
    dirs::{self, short_name},
    program::{self, ProgramStopped, Stream},
    variables::{blocking_directory, current_user, is_not_executable, is_trusted, is_unreadable},
};

/// A longer line is not an answer.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// The interpreter that a path starts, or why it cannot be used.
pub(crate) fn probe(
    candidate: &Path,
    variables: &Variables,
    timeout: Duration,
) -> Result<Interpreter, RejectReason> {
    let interpreter = start(candidate, variables, timeout)?;
    let real = &interpreter.executable;
    if fs::canonicalize(candidate).is_ok_and(|path| path == *real) {
        return Ok(interpreter);
    }
    // A shim or wrapper: sessions start the interpreter itself, so that must work without the shim.
    start(real, variables, timeout).map_err(|reason| RejectReason::Target {
        executable: real.clone(),
        reason: Box::new(reason),
    })
}

/// Options that keep a Python from the user's variables and packages.
const ISOLATED: &[&str] = &["-I", "-S"];
/// The same for Python 2, which has no `-I`.
const ISOLATED_IN_PYTHON_2: &[&str] = &["-E", "-s", "-S"];
/// The exit code of every Python that is given an option which it does not know.
const UNKNOWN_OPTION: ProgramEnd = ProgramEnd::Exit(2);

fn start(
    path: &Path,
    variables: &Variables,
    timeout: Duration,
) -> Result<Interpreter, RejectReason> {
    check_startable(path)?;
    match start_with(ISOLATED, path, variables, timeout) {
        Err(ProbeFailure::Ended(end, last_line)) => {
            if end == UNKNOWN_OPTION
                && let Err(ProbeFailure::Rejected(reason @ RejectReason::TooOld { .. })) =
                    start_with(ISOLATED_IN_PYTHON_2, path, variables, timeout)
            {
                return Err(reason);
            }
            Err(RejectReason::DidNotStart {
                status: end.to_string(),
                last_line,
            })
        }
        Err(ProbeFailure::Rejected(reason)) => Err(reason),
        Ok(interpreter) => Ok(interpreter),
    }
}

/// Why a Python gave no answer that can be used.
enum ProbeFailure {
    /// The program failed; the line that says why.
    Ended(ProgramEnd, Option<String>),
    Rejected(RejectReason),
}

fn start_with(
    options: &[&str],
    path: &Path,
    variables: &Variables,
    timeout: Duration,
) -> Result<Interpreter, ProbeFailure> {
    let mut command = variables.command(path);
    command
        .args(options)
        .args(["-c", include_str!("python/probe.py")]);
    let mut answer = String::new();
    let ended = program::run(
        command,
        Some(timeout),
        &Cancel::new(),
        &mut |stream, line| {
            if stream == Stream::Stdout && line.starts_with('{') && line.len() < MAX_ANSWER_BYTES {
                answer = line.to_owned();
            }
        },
    );
    let ended = match ended {
        Ok(ended) => ended,
        Err(ProgramStopped::TimedOut | ProgramStopped::Cancelled) => {
            return Err(ProbeFailure::Rejected(RejectReason::TimedOut { timeout }));
        }
        Err(ProgramStopped::DidNotStart(error)) => {
            return Err(ProbeFailure::Rejected(RejectReason::DidNotStart {
                status: error.to_string(),
                last_line: None,
            }));
        }
    };
    if !ended.status.success() {
        let last_line = error_line(&ended.stderr).or_else(|| error_line(&ended.tail));
        let end = program::program_end(ended.status);
        return Err(ProbeFailure::Ended(end, last_line));
    }
    read_answer(&answer).map_err(ProbeFailure::Rejected)
}

/// Refuses a path that the system could not start, with the reason.
fn check_startable(path: &Path) -> Result<(), RejectReason> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(RejectReason::Unreachable {
                user: current_user(),
                directory: blocking_directory_of_link(path),
            });
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(RejectReason::Missing),
        Err(error) => {
            return Err(RejectReason::DidNotStart {
                status: error.to_string(),
                last_line: None,
            });
        }
    };
    if metadata.is_dir() {
        Err(RejectReason::Directory)
    } else if is_not_executable(path) {
        Err(RejectReason::NotExecutable {
            user: current_user(),
        })
    } else if is_unreadable(path) {
        Err(RejectReason::Unreadable {
            user: current_user(),
        })
    } else {
        Ok(())
    }
}

/// The directory that this user may not enter on the way to the path, also where the path is a link.
fn blocking_directory_of_link(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..16 {
        if let Some(directory) = blocking_directory(&path) {
            return directory;
        }
        let Ok(target) = fs::read_link(&path) else {
            break;
        };
        path = match path.parent() {
            Some(parent) => parent.join(target),
            None => target,
        };
    }
    path
}

/// The line that says what is wrong: Python writes it last. pyenv begins it with its own name and goes on
/// with advice.
fn error_line(lines: &[String]) -> Option<String> {
    let pyenv = lines.iter().find(|line| line.starts_with("pyenv: "));
    pyenv.or(lines.last()).map(|line| line.trim().to_owned())
}

fn read_answer(line: &str) -> Result<Interpreter, RejectReason> {
    #[derive(Deserialize)]
    struct ProbeAnswer {
        version: (u32, u32, u32),
        implementation: String,
        interpreter: Option<Interpreter>,
    }
    let unclear = || RejectReason::UnclearAnswer;
    let answer: ProbeAnswer = serde_json::from_str(line).map_err(|_| unclear())?;
    let (major, minor, micro) = answer.version;
    if answer.implementation != "cpython" {
        return Err(RejectReason::NotCPython {
            implementation: answer.implementation,
        });
    }
    let version = PythonVersion {
        major,
        minor,
        micro,
    };
    if version < MIN_PYTHON_VERSION {
        return Err(RejectReason::TooOld { version });
    }
    let interpreter = answer.interpreter.ok_or_else(unclear)?;
    if interpreter.free_threaded {
        return Err(RejectReason::FreeThreaded { version });
    }
    Ok(interpreter)
}

/// The version of the cache's files. Goes up whenever the probe or the form of its answer changes.
const CACHE_FORMAT: u32 = 3;
/// How long a failure is kept. A failure may have causes that no file's time shows.
const FAILURE_LIFETIME: Duration = Duration::from_secs(600);
/// The files by which pyenv, asdf, mise and rye choose a version.
const PIN_FILES: [&str; 4] = [
    ".python-version",
    ".tool-versions",
    "mise.toml",
    ".mise.toml",
];
/// The variables by which they choose a version.
const PIN_VARIABLES: [&str; 3] = [
    "PYENV_VERSION",
    "ASDF_PYTHON_VERSION",
    "MISE_PYTHON_VERSION",
];

/// The results of probes in one directory, a file for each candidate.
#[derive(Debug, Clone)]
pub(crate) struct ProbeCache {
    directory: PathBuf,
    home: Option<PathBuf>,
    pin_variables: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct CacheEntry {
    format: u32,
    candidate: PathBuf,
    identity: FileIdentity,
    /// The pins that a shim's choice depends on; empty for a binary.
    pins: VersionPins,
    /// The time of the probe, since 1970.
    probed: Duration,
    result: CachedResult,
}

#[derive(Serialize, Deserialize)]
enum CachedResult {
    Usable(Box<Interpreter>, [FileIdentity; 2]),
    Rejected(RejectReason),
}

/// The identity of a file's contents: it changes when the file is written or replaced.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct FileIdentity {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

/// The files and variables that pin a version in the current directory.
#[derive(Default, PartialEq, Eq, Serialize, Deserialize)]
struct VersionPins {
    files: Vec<(PathBuf, FileIdentity)>,
    variables: Vec<String>,
}

impl ProbeCache {
    pub(crate) fn new(directory: PathBuf, variables: &Variables) -> Self {
        let value = |name: &&str| {
            let value = variables.get(name)?.to_string_lossy();
            Some(format!("{name}={value}"))
        };
        Self {
            directory,
            home: variables.absolute_path("HOME"),
            pin_variables: PIN_VARIABLES.iter().filter_map(value).collect(),
        }
    }

    /// The last result for a candidate, if no file that it depends on has changed.
    pub(crate) fn load(&self, candidate: &Path) -> Option<Result<Interpreter, RejectReason>> {
        let file = fs::File::open(self.file(candidate)).ok()?;
        if !is_trusted(&file.metadata().ok()?) {
            return None;
        }
        let text = io::read_to_string(file).ok()?;
        let entry: CacheEntry = serde_json::from_str(&text).ok()?;
        let is_current = entry.format == CACHE_FORMAT
            && entry.candidate == candidate
            && entry.identity == FileIdentity::of(candidate)?
            && entry.pins == self.pins(candidate);
        match entry.result {
            _ if !is_current => None,
            CachedResult::Usable(interpreter, identities) => {
                (identities == identities_of(&interpreter)?).then_some(Ok(*interpreter))
            }
            CachedResult::Rejected(reason) => {
                let age = since_1970().checked_sub(entry.probed)?;
                (age < FAILURE_LIFETIME).then_some(Err(reason))
            }
        }
    }

    /// Saves a result. A failure to save is ignored: the next search probes again.
    pub(crate) fn save(&self, candidate: &Path, result: &Result<Interpreter, RejectReason>) {
        let Some(text) = self.entry(candidate, result) else {
            return;
        };
        let file = self.file(candidate);
        let partial = file.with_extension(format!("{}.partial", std::process::id()));
        let written = dirs::create(&self.directory)
            .map_err(io::Error::other)
            .and_then(|()| dirs::write(&partial, text))
            .and_then(|()| fs::rename(&partial, &file));
        if written.is_err() {
            let _ = fs::remove_file(&partial);
        }
    }

    fn entry(
        &self,
        candidate: &Path,
        result: &Result<Interpreter, RejectReason>,
    ) -> Option<String> {
        let result = match result {
            Ok(interpreter) => {
                let identities = identities_of(interpreter)?;
                CachedResult::Usable(Box::new(interpreter.clone()), identities)
            }
            Err(reason) => CachedResult::Rejected(reason.clone()),
        };
        let entry = CacheEntry {
            format: CACHE_FORMAT,
            candidate: candidate.to_owned(),
            identity: FileIdentity::of(candidate)?,
            pins: self.pins(candidate),
            probed: since_1970(),
            result,
        };
        serde_json::to_string(&entry).ok()
    }

    fn file(&self, candidate: &Path) -> PathBuf {
        let name = short_name([candidate.as_os_str().as_bytes()]);
        self.directory.join(name).with_extension("json")
    }

    /// The pins that a candidate's choice depends on. A shim is a script that starts one version in one
    /// directory and another in another. Its own file never changes, so the files that pin the version count.
    fn pins(&self, candidate: &Path) -> VersionPins {
        if !is_script(candidate) {
            return VersionPins::default();
        }
        let here = std::env::current_dir().unwrap_or_default();
        let pins = here
            .ancestors()
            .chain(self.home.as_deref())
            .flat_map(|directory| PIN_FILES.map(|name| directory.join(name)));
        let shims_version = candidate
            .parent()
            .and_then(Path::parent)
            .map(|root| root.join("version"));
        let mise = self
            .home
            .as_ref()
            .map(|home| home.join(".config/mise/config.toml"));
        VersionPins {
            files: pins
                .chain(shims_version)
                .chain(mise)
                .filter_map(|path| FileIdentity::of(&path).map(|identity| (path, identity)))
                .collect(),
            variables: self.pin_variables.clone(),
        }
    }
}

impl FileIdentity {
    fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        Some(Self {
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }
}

/// The files that a usable result depends on: the binary, and the standard library, to which distributions
/// add parts later.
fn identities_of(interpreter: &Interpreter) -> Option<[FileIdentity; 2]> {
    Some([
        FileIdentity::of(&interpreter.executable)?,
        FileIdentity::of(&interpreter.stdlib)?,
    ])
}

fn is_script(path: &Path) -> bool {
    use std::io::Read;
    let mut start = [0; 2];
    fs::File::open(path)
        .is_ok_and(|mut file| file.read_exact(&mut start).is_ok() && &start == b"#!")
}

fn since_1970() -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}
