//! Environments as streams of bytes, so that other machines need not make them again.
//!
//! An archive is a line of JSON that says what it holds, then a line for each directory, link and file, with the bytes of a file after its
//! line, then a line that says that this was all. [`unpack`] trusts none of it: paths, sizes and modes are checked.

use std::{
    collections::HashSet,
    fmt,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, BufRead, Read as _, Write},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink},
    path::{Component, Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    Error, StoredKind,
    store::{InUseLock, InstallRequest, environment::MARKER_FILE},
};

/// The version of the format. Goes up when older programs can no longer read it.
const FORMAT: u32 = 1;
/// The longest line: the lock of a large environment has some hundred packages.
const MAX_LINE_BYTES: u64 = 1 << 20;
/// The most that an archive may unpack to.
const MAX_ENTRIES: u64 = 1_000_000;
const MAX_BYTES: u64 = 16 << 30;

/// Where archives of environments are kept for other machines.
pub trait EnvironmentArchives: fmt::Debug + Send + Sync {
    /// Writes the archive that has this name. `false` if there is none. Bytes that were changed since they were stored must be an error.
    fn fetch(&self, name: &str, out: &mut dyn Write) -> io::Result<bool>;

    /// Takes an environment that this machine has made, to store its archive under its names. It must not block its caller:
    /// [`MadeEnvironment::write`] takes as long as all files take to read.
    fn offer(&self, made: MadeEnvironment);
}

/// An environment or layer that was just made. It is not removed while this value lives.
#[derive(Debug)]
pub struct MadeEnvironment {
    pub(crate) names: Vec<String>,
    pub(crate) directory: PathBuf,
    pub(crate) header: Header,
    pub(crate) _in_use: Option<InUseLock>,
}

impl MadeEnvironment {
    /// The names of its archive: one for the request, one for the lock.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Writes its archive.
    pub fn write(&self, out: &mut dyn Write) -> Result<(), Error> {
        let mut archive = ArchiveWriter { out, entries: 0 };
        let written = archive.line(&self.header).and_then(|()| {
            archive.directory(&self.directory, Path::new(""))?;
            let entries = archive.entries;
            archive.line(&ArchiveEntry::End { entries })
        });
        written.map_err(|source| Error::io("archive", &self.directory, source))
    }
}

/// The first line of an archive.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Header {
    format: u32,
    pub(crate) kind: StoredKind,
    pub(crate) request: InstallRequest,
    pub(crate) lock: Vec<String>,
    /// Where the directory was on the machine that made it. Scripts name this path.
    pub(crate) origin: PathBuf,
    pub(crate) installer: String,
    pub(crate) fonts: String,
}

impl Header {
    pub(crate) fn new(
        kind: StoredKind,
        request: &InstallRequest,
        lock: &[String],
        origin: &Path,
    ) -> Self {
        Self {
            format: FORMAT,
            kind,
            request: request.clone(),
            lock: lock.to_owned(),
            origin: origin.to_owned(),
            installer: String::new(),
            fonts: String::new(),
        }
    }

    /// Reads the first line of an archive.
    pub(crate) fn read(archive: &mut impl BufRead) -> io::Result<Self> {
        let header: Self = serde_json::from_slice(&line(archive)?)?;
        if header.format != FORMAT {
            return Err(refused(format!("it has the format {}", header.format)));
        }
        Ok(header)
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "entry")]
enum ArchiveEntry {
    Directory {
        path: PathBuf,
    },
    Link {
        path: PathBuf,
        target: PathBuf,
    },
    File {
        path: PathBuf,
        bytes: u64,
        executable: bool,
    },
    /// The last line: an archive without it is not whole.
    End {
        entries: u64,
    },
}

struct ArchiveWriter<'a> {
    out: &'a mut dyn Write,
    entries: u64,
}

impl ArchiveWriter<'_> {
    fn line(&mut self, value: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        self.out.write_all(&line)
    }

    fn directory(&mut self, root: &Path, below: &Path) -> io::Result<()> {
        let mut names = Vec::new();
        for entry in fs::read_dir(root.join(below))? {
            names.push(entry?.file_name());
        }
        names.sort();
        for name in names {
            let path = below.join(&name);
            if path == Path::new(MARKER_FILE) {
                continue;
            }
            self.entries += 1;
            let place = root.join(&path);
            let metadata = place.symlink_metadata()?;
            if metadata.is_dir() {
                self.line(&ArchiveEntry::Directory { path: path.clone() })?;
                self.directory(root, &path)?;
            } else if metadata.is_symlink() {
                let target = fs::read_link(&place)?;
                self.line(&ArchiveEntry::Link { path, target })?;
            } else if metadata.is_file() {
                let bytes = metadata.len();
                let executable = metadata.permissions().mode() & 0o100 != 0;
                self.line(&ArchiveEntry::File {
                    path,
                    bytes,
                    executable,
                })?;
                let copied = io::copy(&mut File::open(&place)?.take(bytes), self.out)?;
                if copied != bytes {
                    return Err(refused("a file became shorter while it was read"));
                }
            } else {
                return Err(refused("it holds something that is no file"));
            }
        }
        Ok(())
    }
}

/// Unpacks what comes after the header into a directory that is empty. Nothing is written outside of it: each path is below a directory
/// that this archive made, so no link is followed. Where links lead to is for the caller to check.
pub(crate) fn unpack(archive: &mut impl BufRead, root: &Path) -> io::Result<()> {
    let mut directories = HashSet::from([PathBuf::new()]);
    let (mut entries, mut left) = (0, MAX_BYTES);
    loop {
        let entry: ArchiveEntry = serde_json::from_slice(&line(archive)?)?;
        entries += 1;
        if entries > MAX_ENTRIES {
            return Err(refused("it has too many entries"));
        }
        match entry {
            ArchiveEntry::Directory { path } => {
                let place = place(root, &path, &directories)?;
                DirBuilder::new().mode(0o755).create(place)?;
                directories.insert(path);
            }
            ArchiveEntry::Link { path, target } => {
                symlink(target, place(root, &path, &directories)?)?
            }
            ArchiveEntry::File {
                path,
                bytes,
                executable,
            } => {
                let place = place(root, &path, &directories)?;
                let is_too_large = || refused("it is too large");
                left = u64::checked_sub(left, bytes).ok_or_else(is_too_large)?;
                let mode = if executable { 0o755 } else { 0o644 };
                let mut options = OpenOptions::new();
                let mut file = options
                    .write(true)
                    .create_new(true)
                    .mode(mode)
                    .open(place)?;
                let copied = io::copy(&mut archive.by_ref().take(bytes), &mut file)?;
                if copied != bytes {
                    return Err(refused("it ends within a file"));
                }
            }
            ArchiveEntry::End { entries: told } if told + 1 == entries => {
                return match archive.fill_buf()?.is_empty() {
                    true => Ok(()),
                    false => Err(refused("something comes after its end")),
                };
            }
            ArchiveEntry::End { .. } => return Err(refused("entries are missing")),
        }
    }
}

/// The place of an entry: a plain path whose directory the archive has made before.
fn place(root: &Path, path: &Path, directories: &HashSet<PathBuf>) -> io::Result<PathBuf> {
    let is_plain = path
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    let parent = path.parent().filter(|_| is_plain);
    // `a//b` and `a/./b` have the components of `a/b`, and are not equal to it as text.
    let is_exact = path.components().collect::<PathBuf>().as_os_str() == path.as_os_str();
    if is_exact && parent.is_some_and(|parent| directories.contains(parent)) {
        return Ok(root.join(path));
    }
    Err(refused(format!("it has an entry {path:?}")))
}

fn line(archive: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    archive
        .by_ref()
        .take(MAX_LINE_BYTES)
        .read_until(b'\n', &mut line)?;
    match line.pop() {
        Some(b'\n') => Ok(line),
        _ => Err(refused("it is not whole")),
    }
}

fn refused(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

#[cfg(test)]
#[path = "archive_tests.rs"]
mod tests;
