//! Finding a Python, and fonts for its plots.

mod fonts;
mod foreign;
mod interpreter;
mod probe;

use std::{
    collections::HashSet,
    fmt, fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{Dirs, Error, Variables, variables::blocking_directory, variables::current_user};

pub(crate) use fonts::font_fingerprint;
pub use fonts::{CJK_FONT_HINT, Font, cjk_font};
pub use foreign::{ForeignPython, Libc};
pub use interpreter::{Interpreter, OptionalModules, PythonVersion};
use probe::ProbeCache;

/// The oldest Python that sessions run on.
pub const MIN_PYTHON_VERSION: PythonVersion = PythonVersion {
    major: 3,
    minor: 10,
    micro: 0,
};
/// How long one candidate may take to answer while there are others to ask.
const DEFAULT_PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// How many times as long a candidate may take where there is no other. A first start from a cold disk on a slow machine takes longer
/// than any start after it.
const SLOW_PROBE_FACTOR: u32 = 6;

/// The names to look for on `PATH`, best first. The user's `python3` comes before any number.
const PROGRAM_NAMES: [&str; 7] = [
    "python3",
    "python3.14",
    "python3.13",
    "python3.12",
    "python3.11",
    "python3.10",
    "python",
];

/// Where to look when `PATH` has no Python.
const FALLBACK_PATHS: [&str; 2] = ["/usr/bin/python3", "/usr/local/bin/python3"];

/// A search for an interpreter.
///
/// The order: the path of [`Search::explicit`], else of the variable `CELLBLOCK_PYTHON`, and nothing else if
/// there is one; then `python3`, `python3.14` down to `python3.10`, and `python` on `PATH`; then
/// `/usr/bin/python3` and `/usr/local/bin/python3`. The answer of each candidate is kept in the cache
/// directory until its file changes, so that only the first search starts a Python.
///
/// ```no_run
/// let interpreter = cellblock_env::Search::from_process()?.find()?;
/// println!("{} at {}", interpreter.version, interpreter.executable.display());
/// # Ok::<(), cellblock_env::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Search {
    variables: Variables,
    cache: ProbeCache,
    explicit: Option<PathBuf>,
    fallback_paths: Vec<PathBuf>,
    probe_timeout: Duration,
    on_wait: fn(&Path, Duration),
}

impl Search {
    /// A search with the variables and directories of this process.
    pub fn from_process() -> Result<Self, Error> {
        let variables = Variables::from_process();
        let dirs = Dirs::new(&variables)?;
        Ok(Self::new(variables, &dirs))
    }

    /// A search with the given variables and directories.
    pub fn new(variables: Variables, dirs: &Dirs) -> Self {
        Self {
            explicit: variables.get("CELLBLOCK_PYTHON").map(PathBuf::from),
            cache: ProbeCache::new(dirs.cache.join("interpreters"), &variables),
            variables,
            fallback_paths: FALLBACK_PATHS.map(PathBuf::from).to_vec(),
            probe_timeout: DEFAULT_PROBE_TIMEOUT,
            on_wait: |_, _| {},
        }
    }

    /// Takes this interpreter and no other: a path, or a name that is looked up on `PATH`.
    #[must_use]
    pub fn explicit(mut self, path: impl Into<PathBuf>) -> Self {
        self.explicit = Some(path.into());
        self
    }

    /// How long one candidate may take to answer. The default is 10 seconds. Where no other can be used, a candidate is waited for six
    /// times as long.
    #[must_use]
    pub fn probe_timeout(mut self, timeout: Duration) -> Self {
        self.probe_timeout = timeout;
        self
    }

    /// Is called before a candidate that did not answer in time is waited for longer, with the time that it gets.
    #[must_use]
    pub fn on_wait(mut self, tell: fn(&Path, Duration)) -> Self {
        self.on_wait = tell;
        self
    }

    /// The first interpreter that can be used.
    ///
    /// # Errors
    ///
    /// [`Error::NoInterpreter`] with the reason for each candidate, or [`Error::BadInterpreter`] where one
    /// was asked for: then there is no fallback.
    pub fn find(&self) -> Result<Interpreter, Error> {
        if let Some(wanted) = &self.explicit {
            return self.find_explicit(wanted);
        }
        let mut tried = Vec::new();
        let mut from_cache = Vec::new();
        for candidate in self.candidates(&mut tried) {
            let cached = self.cache.load(&candidate);
            if matches!(cached, Some(Err(_))) {
                from_cache.push(tried.len());
            }
            match cached.unwrap_or_else(|| self.probe(&candidate)) {
                Ok(interpreter) => return Ok(interpreter),
                Err(reason) => tried.push(RejectedPython::new(&candidate, reason)),
            }
        }
        // A candidate that failed earlier may work now although no file changed: a library was installed.
        for index in from_cache {
            match self.probe(&tried[index].path) {
                Ok(interpreter) => return Ok(interpreter),
                Err(reason) => tried[index].reason = reason,
            }
        }
        for rejected in &mut tried {
            if matches!(rejected.reason, RejectReason::TimedOut { .. }) {
                match self.probe_with_more_time(&rejected.path) {
                    Ok(interpreter) => return Ok(interpreter),
                    Err(reason) => rejected.reason = reason,
                }
            }
        }
        Err(Error::NoInterpreter { tried })
    }

    fn find_explicit(&self, wanted: &Path) -> Result<Interpreter, Error> {
        let path = if wanted.components().count() == 1 && !wanted.is_absolute() {
            let name = wanted.to_string_lossy();
            match self.variables.programs(&name).into_iter().next() {
                Some(path) => path,
                None => {
                    return Err(Error::BadInterpreter(RejectedPython::new(
                        wanted,
                        RejectReason::NotOnPath,
                    )));
                }
            }
        } else {
            std::path::absolute(wanted)
                .map_err(|source| Error::io("find the path", wanted, source))?
        };
        let cached = self.cache.load(&path).and_then(Result::ok);
        cached
            .map_or_else(|| self.probe(&path), Ok)
            .or_else(|reason| match reason {
                RejectReason::TimedOut { .. } => self.probe_with_more_time(&path),
                reason => Err(reason),
            })
            .map_err(|reason| Error::BadInterpreter(RejectedPython::new(&path, reason)))
    }

    /// Every path worth a probe, each file once. Directories of `PATH` that this user may not enter are added
    /// to the rejected paths.
    fn candidates(&self, tried: &mut Vec<RejectedPython>) -> Vec<PathBuf> {
        let mut directories = self.variables.search_path();
        directories.retain(|directory| {
            let Err(error) = fs::metadata(directory.join(".")) else {
                return true;
            };
            if error.kind() == io::ErrorKind::PermissionDenied {
                let blocking = blocking_directory(&directory.join("."));
                tried.push(RejectedPython::new(
                    directory,
                    RejectReason::Unreachable {
                        user: current_user(),
                        directory: blocking.unwrap_or_else(|| directory.clone()),
                    },
                ));
            }
            false
        });

        let on_path = PROGRAM_NAMES.iter().flat_map(|name| {
            directories
                .iter()
                .map(move |directory| directory.join(name))
        });
        let mut seen = HashSet::new();
        on_path
            .chain(self.fallback_paths.iter().cloned())
            // A link to a missing file is worth a line in the error, so links are not followed here.
            .filter(|path| path.symlink_metadata().is_ok())
            .filter(|path| seen.insert(fs::canonicalize(path).unwrap_or_else(|_| path.clone())))
            .collect()
    }

    fn probe(&self, candidate: &Path) -> Result<Interpreter, RejectReason> {
        self.probe_for(candidate, self.probe_timeout)
    }

    /// Asks a candidate once more that did not answer in time, and waits longer.
    fn probe_with_more_time(&self, candidate: &Path) -> Result<Interpreter, RejectReason> {
        let timeout = self.probe_timeout * SLOW_PROBE_FACTOR;
        (self.on_wait)(candidate, timeout);
        self.probe_for(candidate, timeout)
    }

    fn probe_for(&self, candidate: &Path, timeout: Duration) -> Result<Interpreter, RejectReason> {
        let result = probe::probe(candidate, &self.variables, timeout);
        self.cache.save(candidate, &result);
        result
    }
}

/// A candidate that cannot be used.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RejectedPython {
    /// The candidate's path.
    pub path: PathBuf,
    /// Why the candidate cannot be used.
    pub reason: RejectReason,
}

impl RejectedPython {
    fn new(path: &Path, reason: RejectReason) -> Self {
        Self {
            path: path.to_owned(),
            reason,
        }
    }
}

impl fmt::Display for RejectedPython {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason)
    }
}

/// Why an interpreter cannot be used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum RejectReason {
    #[error("there is no such file")]
    Missing,
    #[error("there is no program of that name on PATH")]
    NotOnPath,
    #[error("it is a directory, not an executable")]
    Directory,
    #[error("permission denied: {user} cannot enter {}", directory.display())]
    Unreachable { user: String, directory: PathBuf },
    #[error("permission denied: {user} cannot read it")]
    Unreadable { user: String },
    #[error("permission denied: it is not executable for {user}")]
    NotExecutable { user: String },
    #[error(
        "{version} is too old, {}.{} or newer is needed",
        MIN_PYTHON_VERSION.major,
        MIN_PYTHON_VERSION.minor
    )]
    TooOld { version: PythonVersion },
    #[error("it is {implementation}; only CPython can be used")]
    NotCPython { implementation: String },
    /// The guest copies its process while it holds the interpreter lock: no other thread runs Python at that moment.
    #[error(
        "{version} is a free-threaded build; checkpoints need the interpreter lock, so take the ordinary build of this version"
    )]
    FreeThreaded { version: PythonVersion },
    #[error("did not start: {status}{}", last_line.as_ref().map(|line| format!(", {line}")).unwrap_or_default())]
    DidNotStart {
        status: String,
        last_line: Option<String>,
    },
    #[error("did not answer within {} s", timeout.as_secs_f64())]
    TimedOut { timeout: Duration },
    #[error("it ran, but did not answer as a Python does")]
    UnclearAnswer,
    #[error("it starts {}, which cannot be used: {reason}", executable.display())]
    Target {
        executable: PathBuf,
        reason: Box<RejectReason>,
    },
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
