//! Finding a Python.

use std::{
    collections::HashSet,
    fmt, fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{Dirs, Error, Interpreter, Variables, Version, access, probe, remembered::Remembered};

/// The oldest version that sessions run on.
pub const OLDEST: (u32, u32) = (3, 10);

/// Names to look for on `PATH`, best first. What the user calls `python3` comes before any number.
const NAMES: [&str; 7] = [
    "python3",
    "python3.14",
    "python3.13",
    "python3.12",
    "python3.11",
    "python3.10",
    "python",
];

/// Where to look when `PATH` has none.
const USUAL_PLACES: [&str; 2] = ["/usr/bin/python3", "/usr/local/bin/python3"];

/// A search for an interpreter.
///
/// The order: the path that was asked for ([`Search::explicit`], else `CELLBLOCK_PYTHON`), and nothing
/// else if there is one; then `python3`, `python3.14` down to `python3.10` and `python` on `PATH`; then
/// `/usr/bin/python3` and `/usr/local/bin/python3`. The answer of each is remembered in the cache directory
/// until its file changes, so that only the first search starts a Python.
#[derive(Debug, Clone)]
pub struct Search {
    variables: Variables,
    remembered: Remembered,
    explicit: Option<PathBuf>,
    usual_places: Vec<PathBuf>,
    patience: Duration,
}

impl Search {
    /// A search in this process's surroundings.
    pub fn from_process() -> Result<Self, Error> {
        let variables = Variables::from_process();
        let dirs = Dirs::new(&variables)?;
        Ok(Self::new(variables, &dirs))
    }

    /// A search in the given surroundings.
    pub fn new(variables: Variables, dirs: &Dirs) -> Self {
        Self {
            explicit: variables.get("CELLBLOCK_PYTHON").map(PathBuf::from),
            remembered: Remembered::new(dirs.cache.join("interpreters"), &variables),
            variables,
            usual_places: USUAL_PLACES.map(PathBuf::from).to_vec(),
            patience: Duration::from_secs(10),
        }
    }

    /// Takes this one and no other: a path, or a name that is looked up on `PATH`.
    #[must_use]
    pub fn explicit(mut self, path: impl Into<PathBuf>) -> Self {
        self.explicit = Some(path.into());
        self
    }

    /// How long one candidate may take to answer (10 seconds unless told).
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The first good interpreter, or what was wrong with each.
    pub fn find(&self) -> Result<Interpreter, Error> {
        if let Some(wanted) = &self.explicit {
            return self.find_explicit(wanted);
        }
        let mut tried = Vec::new();
        let mut from_memory = Vec::new();
        for candidate in self.candidates(&mut tried) {
            let remembered = self.remembered.recall(&candidate);
            if matches!(remembered, Some(Err(_))) {
                from_memory.push(tried.len());
            }
            match remembered.unwrap_or_else(|| self.ask(&candidate)) {
                Ok(interpreter) => return Ok(interpreter),
                Err(reason) => tried.push(Rejected::new(&candidate, reason)),
            }
        }
        // What failed earlier may work by now in a way that no file shows (a library was installed).
        for index in from_memory {
            match self.ask(&tried[index].path) {
                Ok(interpreter) => return Ok(interpreter),
                Err(reason) => tried[index].reason = reason,
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
                    return Err(Error::BadInterpreter(Rejected::new(
                        wanted,
                        Reason::NotOnPath,
                    )));
                }
            }
        } else {
            std::path::absolute(wanted)
                .map_err(|source| Error::io("find the path", wanted, source))?
        };
        let remembered = self.remembered.recall(&path).and_then(Result::ok);
        remembered
            .map_or_else(|| self.ask(&path), Ok)
            .map_err(|reason| Error::BadInterpreter(Rejected::new(&path, reason)))
    }

    /// Every path worth asking, each file once. Directories of `PATH` that this user may not enter are
    /// put on the list of failures.
    fn candidates(&self, tried: &mut Vec<Rejected>) -> Vec<PathBuf> {
        let mut directories = self.variables.search_path();
        directories.retain(|directory| {
            let Err(error) = fs::metadata(directory.join(".")) else {
                return true;
            };
            if error.kind() == io::ErrorKind::PermissionDenied {
                let stops = access::blocked_at(&directory.join("."));
                tried.push(Rejected::new(
                    directory,
                    Reason::Unreachable {
                        user: access::user(),
                        directory: stops.unwrap_or_else(|| directory.clone()),
                    },
                ));
            }
            false
        });

        let on_path = NAMES.iter().flat_map(|name| {
            directories
                .iter()
                .map(move |directory| directory.join(name))
        });
        let mut seen = HashSet::new();
        on_path
            .chain(self.usual_places.iter().cloned())
            // A link to nothing is worth a line in the error, so links are not followed here.
            .filter(|path| path.symlink_metadata().is_ok())
            .filter(|path| seen.insert(fs::canonicalize(path).unwrap_or_else(|_| path.clone())))
            .collect()
    }

    fn ask(&self, candidate: &Path) -> Result<Interpreter, Reason> {
        let verdict = probe::ask(candidate, &self.variables, self.patience);
        self.remembered.store(candidate, &verdict);
        verdict
    }
}

/// A path that was looked at and cannot be used.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Rejected {
    /// The path.
    pub path: PathBuf,
    /// Why.
    pub reason: Reason,
}

impl Rejected {
    fn new(path: &Path, reason: Reason) -> Self {
        Self {
            path: path.to_owned(),
            reason,
        }
    }
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason)
    }
}

/// Why an interpreter cannot be used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum Reason {
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
    #[error("{version} is too old, {}.{} or newer is needed", OLDEST.0, OLDEST.1)]
    TooOld { version: Version },
    #[error("Python 2 is too old, {}.{} or newer is needed", OLDEST.0, OLDEST.1)]
    PythonTwo,
    #[error("it is {implementation}; only CPython can be used")]
    NotCPython { implementation: String },
    #[error("did not start: {status}{}", last_line.as_ref().map(|line| format!(", {line}")).unwrap_or_default())]
    DidNotStart {
        status: String,
        last_line: Option<String>,
    },
    #[error("did not answer within {seconds} s")]
    TimedOut { seconds: f64 },
    #[error("it ran, but did not answer as a Python does")]
    UnclearAnswer,
    #[error("it stands for {}, which cannot be used: {reason}", executable.display())]
    Behind {
        executable: PathBuf,
        reason: Box<Reason>,
    },
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
