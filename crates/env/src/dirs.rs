//! Where Cellblock keeps its files, and how files and directories are written there.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use crate::{Error, Variables};

/// The directories of one user. They need not exist yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dirs {
    /// For files that can be made again: `$XDG_CACHE_HOME/cellblock`, else `~/.cache/cellblock`.
    pub cache: PathBuf,
    /// For files that are kept: `$XDG_STATE_HOME/cellblock`, else `~/.local/state/cellblock`.
    pub state: PathBuf,
}

impl Dirs {
    /// The directories of this process's user.
    pub fn from_process() -> Result<Self, Error> {
        Self::new(&Variables::from_process())
    }

    /// The directories that the variables name. Without `HOME` the password database is asked, and only
    /// where a directory needs the home.
    pub fn new(variables: &Variables) -> Result<Self, Error> {
        let directory = |xdg: &str, below_home: &str| match variables.absolute_path(xdg) {
            Some(base) => Ok(base.join("cellblock")),
            None => Ok(home(variables)?.join(below_home).join("cellblock")),
        };
        Ok(Self {
            cache: directory("XDG_CACHE_HOME", ".cache")?,
            state: directory("XDG_STATE_HOME", ".local/state")?,
        })
    }
}

/// Makes a directory and its parents. Other users cannot write there, whatever the umask is.
pub(crate) fn create(path: &Path) -> Result<(), Error> {
    let mut builder = DirBuilder::new();
    let made = builder.recursive(true).mode(0o755).create(path);
    made.map_err(|source| Error::io("create the directory", path, source))
}

/// Writes a file for its owner alone, whatever the umask is.
pub(crate) fn write(path: &Path, text: impl AsRef<[u8]>) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)?.write_all(text.as_ref())
}

/// Opens a file to be locked, and makes it if it is not there.
pub(crate) fn lock_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(false).mode(0o600);
    if let Some(parent) = path.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)?;
    }
    options.open(path)
}

/// Writes a value as JSON, in one step: a reader sees the whole file or none.
pub(crate) fn write_json(path: &Path, content: &impl serde::Serialize) -> Result<(), Error> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let partial = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = serde_json::to_vec_pretty(content)
        .map_err(io::Error::other)
        .and_then(|text| write(&partial, text))
        .and_then(|()| fs::rename(&partial, path));
    written.map_err(|source| {
        let _ = fs::remove_file(&partial);
        Error::io("write", path, source)
    })
}

/// Removes a directory with everything in it, however deep code of a package made it and whatever permissions it took away.
/// A directory that does not exist is fine.
pub(crate) fn remove(path: &Path) -> Result<(), Error> {
    let removed = cellblock_sandbox::remove_directory(path);
    removed.map_err(|error| Error::io("remove the directory", path, error))
}

/// The user's home directory.
pub(crate) fn home(variables: &Variables) -> Result<PathBuf, Error> {
    variables
        .absolute_path("HOME")
        // The standard library asks the password database when the process has no HOME.
        .or_else(|| std::env::home_dir().filter(|home| home.is_absolute()))
        .ok_or(Error::NoHome)
}

/// A short, stable name for a longer text: FNV-1a with 64 bits, in hexadecimal.
///
/// Written by hand: the standard library's hasher may change between releases, and a digest crate would be a
/// dozen dependencies for a file name. A file that is found by such a name holds the full text, which is
/// compared: a collision costs time, and is never a mix-up.
pub(crate) fn short_name<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for part in parts {
        // The length keeps ("ab", "c") and ("a", "bc") apart.
        let length = (part.len() as u64).to_le_bytes();
        for byte in length.iter().chain(part) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    format!("{hash:016x}")
}
