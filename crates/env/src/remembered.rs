//! What interpreters answered, kept on disk so that the next command need not start one.

use std::{
    fs,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};

use crate::{Interpreter, Reason, Variables, access, dirs, hash};

/// Goes up whenever the probe or the shape of its answer changes.
const FORMAT: u32 = 1;
/// A failure may have causes that no file's time shows, so it is believed only for a while.
const FAILURE_HOLDS: Duration = Duration::from_secs(600);
/// Files by which pyenv, asdf, mise and rye choose a version.
const PINS: [&str; 4] = [
    ".python-version",
    ".tool-versions",
    "mise.toml",
    ".mise.toml",
];
/// Variables by which they do.
const PIN_VARIABLES: [&str; 3] = [
    "PYENV_VERSION",
    "ASDF_PYTHON_VERSION",
    "MISE_PYTHON_VERSION",
];

/// The answers in one directory, a file for each path that was asked.
#[derive(Debug, Clone)]
pub(crate) struct Remembered {
    directory: PathBuf,
    home: Option<PathBuf>,
    pin_variables: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    format: u32,
    candidate: PathBuf,
    stamp: Stamp,
    /// What a shim's choice depended on; empty for a binary.
    choice: Choice,
    asked: Duration,
    verdict: Verdict,
}

#[derive(Serialize, Deserialize)]
enum Verdict {
    Good(Box<Interpreter>, [Stamp; 2]),
    Bad(Reason),
}

/// A file's identity: it changes when the file is written or replaced.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

/// The pinned versions that hold in the current directory.
#[derive(Default, PartialEq, Eq, Serialize, Deserialize)]
struct Choice {
    files: Vec<(PathBuf, Stamp)>,
    variables: Vec<String>,
}

impl Remembered {
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

    /// The last verdict, if nothing it rested on has changed.
    pub(crate) fn recall(&self, candidate: &Path) -> Option<Result<Interpreter, Reason>> {
        let file = fs::File::open(self.file(candidate)).ok()?;
        if !access::is_trusted(&file.metadata().ok()?) {
            return None;
        }
        let text = std::io::read_to_string(file).ok()?;
        let entry: Entry = serde_json::from_str(&text).ok()?;
        let holds = entry.format == FORMAT
            && entry.candidate == candidate
            && entry.stamp == Stamp::of(candidate)?
            && entry.choice == self.choice(candidate);
        match entry.verdict {
            _ if !holds => None,
            Verdict::Good(interpreter, stamps) => {
                (stamps == behind(&interpreter)?).then_some(Ok(*interpreter))
            }
            Verdict::Bad(reason) => {
                let age = now().checked_sub(entry.asked)?;
                (age < FAILURE_HOLDS).then_some(Err(reason))
            }
        }
    }

    /// Keeps a verdict. That it cannot be kept is no reason to fail: the next search asks again.
    pub(crate) fn store(&self, candidate: &Path, verdict: &Result<Interpreter, Reason>) {
        let Some(text) = self.entry(candidate, verdict) else {
            return;
        };
        let file = self.file(candidate);
        let partial = file.with_extension(format!("{}.partial", std::process::id()));
        let written = dirs::create(&self.directory)
            .map_err(std::io::Error::other)
            .and_then(|()| dirs::write(&partial, text))
            .and_then(|()| fs::rename(&partial, &file));
        if written.is_err() {
            let _ = fs::remove_file(&partial);
        }
    }

    fn entry(&self, candidate: &Path, verdict: &Result<Interpreter, Reason>) -> Option<String> {
        let verdict = match verdict {
            Ok(interpreter) => Verdict::Good(Box::new(interpreter.clone()), behind(interpreter)?),
            Err(reason) => Verdict::Bad(reason.clone()),
        };
        let entry = Entry {
            format: FORMAT,
            candidate: candidate.to_owned(),
            stamp: Stamp::of(candidate)?,
            choice: self.choice(candidate),
            asked: now(),
            verdict,
        };
        serde_json::to_string(&entry).ok()
    }

    fn file(&self, candidate: &Path) -> PathBuf {
        let name = hash::short_name([candidate.as_os_str().as_bytes()]);
        self.directory.join(name).with_extension("json")
    }

    /// A shim is a script that starts one version here and another there. Its own file never changes, so
    /// the files that pin the version count as well.
    fn choice(&self, candidate: &Path) -> Choice {
        if !is_script(candidate) {
            return Choice::default();
        }
        let here = std::env::current_dir().unwrap_or_default();
        let pins = here
            .ancestors()
            .chain(self.home.as_deref())
            .flat_map(|directory| PINS.map(|name| directory.join(name)));
        let shims_version = candidate
            .parent()
            .and_then(Path::parent)
            .map(|root| root.join("version"));
        let mise = self
            .home
            .as_ref()
            .map(|home| home.join(".config/mise/config.toml"));
        Choice {
            files: pins
                .chain(shims_version)
                .chain(mise)
                .filter_map(|path| Stamp::of(&path).map(|stamp| (path, stamp)))
                .collect(),
            variables: self.pin_variables.clone(),
        }
    }
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        Some(Self {
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }
}

/// What a good answer rests on: the binary, and the standard library, to which distributions add parts later.
fn behind(interpreter: &Interpreter) -> Option<[Stamp; 2]> {
    Some([
        Stamp::of(&interpreter.executable)?,
        Stamp::of(&interpreter.stdlib)?,
    ])
}

fn is_script(path: &Path) -> bool {
    use std::io::Read;
    let mut start = [0; 2];
    fs::File::open(path)
        .is_ok_and(|mut file| file.read_exact(&mut start).is_ok() && &start == b"#!")
}

fn now() -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}
