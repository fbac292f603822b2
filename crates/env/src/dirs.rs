//! Where Cellblock keeps its files.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use crate::{Error, Variables};

/// The per-user directories. None of them need exist yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dirs {
    /// Things that can be made again: `$XDG_CACHE_HOME/cellblock`, else `~/.cache/cellblock`.
    pub cache: PathBuf,
    /// Things that should outlive a run: `$XDG_STATE_HOME/cellblock`, else `~/.local/state/cellblock`.
    pub state: PathBuf,
}

impl Dirs {
    /// The directories of this process's user.
    pub fn from_process() -> Result<Self, Error> {
        Self::new(&Variables::from_process())
    }

    /// The directories that the variables say. Without `HOME` the password database is asked, and only
    /// when a directory really needs it.
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

/// Makes a directory and its parents, with an error that names it. Whatever the umask is, nobody else may write there.
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
    options.open(path)
}

/// Writes a file in one step: a reader sees all of it or none.
pub(crate) fn write_whole(path: &Path, content: &impl serde::Serialize) -> Result<(), Error> {
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

/// Removes a whole tree, however deep code of a package made it and whatever it closed; one that is not there is fine.
pub(crate) fn remove(path: &Path) -> Result<(), Error> {
    let removed = cellblock_sandbox::remove_directory(path);
    removed.map_err(|error| Error::io("remove the directory", path, error))
}

/// The user's home.
pub(crate) fn home(variables: &Variables) -> Result<PathBuf, Error> {
    variables
        .absolute_path("HOME")
        // The standard library asks the password database when the process has no HOME.
        .or_else(|| std::env::home_dir().filter(|home| home.is_absolute()))
        .ok_or(Error::NoHome)
}
