//! A session's files: the directory, what is in it, and what a cell did to it.

use crate::Error;
use cellblock_protocol::{FileEntry, mime_of};
use cellblock_sandbox::{Confined, EntryKind};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};

/// The most files of a workspace that are looked at; a tree beyond this is watched but not listed.
const MOST_FILES: usize = 200_000;
/// The largest file that `get_file` returns.
const LARGEST_FILE: u64 = 1 << 30;

/// A workspace on disk.
#[derive(Debug)]
pub(crate) struct Workspace {
    path: PathBuf,
    directory: Confined,
    /// Made by us and to be removed when it stays empty.
    ours: bool,
}

impl Workspace {
    /// A directory of the user's.
    pub(crate) fn given(path: &Path) -> Result<Workspace, Error> {
        let refuse = |problem: String| Error::Workspace {
            path: path.to_owned(),
            problem,
        };
        let path = fs::canonicalize(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => refuse("it does not exist; create it first".into()),
            _ => refuse(error.to_string()),
        })?;
        if !path.is_dir() {
            return Err(refuse("it is not a directory".into()));
        }
        if path == Path::new("/") {
            return Err(refuse("the root directory is no workspace".into()));
        }
        check_writable(&path).map_err(|error| match error.kind() {
            io::ErrorKind::ReadOnlyFilesystem => refuse("it is on a read-only file system".into()),
            io::ErrorKind::PermissionDenied => refuse("it cannot be written by this user".into()),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                refuse("its disk is full".into())
            }
            _ => refuse(error.to_string()),
        })?;
        Workspace::open(path, false)
    }

    /// A fresh one, which survives the session unless it stays empty.
    pub(crate) fn fresh(state: &Path, session: &str) -> Result<Workspace, Error> {
        let path = state.join("workspaces").join(unique_name(session));
        fs::create_dir_all(&path).map_err(|source| Error::Storage {
            what: "making the workspace",
            path: path.clone(),
            source,
        })?;
        Workspace::open(path, true)
    }

    fn open(path: PathBuf, ours: bool) -> Result<Workspace, Error> {
        let directory = Confined::open(&path).map_err(|error| Error::Workspace {
            path: path.clone(),
            problem: error.to_string(),
        })?;
        Ok(Workspace {
            path,
            directory,
            ours,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn put(&self, path: &str, contents: &[u8]) -> Result<(), Error> {
        let write = || self.directory.write(Path::new(path))?.write_all(contents);
        write().map_err(|source| file_error(path, source))
    }

    pub(crate) fn get(&self, path: &str) -> Result<Vec<u8>, Error> {
        let read = || {
            let mut file = self.directory.read(Path::new(path))?;
            let mut contents = Vec::new();
            let length = (&mut file)
                .take(LARGEST_FILE + 1)
                .read_to_end(&mut contents)? as u64;
            if length > LARGEST_FILE {
                Err(io::Error::from(io::ErrorKind::FileTooLarge))
            } else {
                Ok(contents)
            }
        };
        read().map_err(|source| file_error(path, source))
    }

    pub(crate) fn open_file(&self, path: &str) -> Result<fs::File, Error> {
        let opened = self.directory.read(Path::new(path));
        opened.map_err(|source| file_error(path, source))
    }

    /// Every plain file, sorted by path.
    pub(crate) fn list(&self) -> Vec<FileEntry> {
        let entry = |(path, seen): (&PathBuf, &Seen)| {
            let path = path.to_string_lossy().into_owned();
            FileEntry {
                mime: mime_of(&path).to_owned(),
                bytes: seen.bytes,
                modified: Some(seen.modified as f64 / 1e9),
                path,
            }
        };
        let mut found = BTreeMap::new();
        self.walk(Path::new(""), &mut found, &mut |_| {});
        found
            .iter()
            .filter(|(_, seen)| seen.kind == Kind::File)
            .map(entry)
            .collect()
    }

    /// Whether a fresh directory was made for this session.
    pub(crate) fn is_ours(&self) -> bool {
        self.ours
    }

    /// The directory, for those who put files back.
    pub(crate) fn directory(&self) -> &Confined {
        &self.directory
    }

    /// Everything below `from`, and `from` itself unless it is the root.
    pub(crate) fn walk(
        &self,
        from: &Path,
        found: &mut BTreeMap<PathBuf, Seen>,
        on_directory: &mut dyn FnMut(&Path),
    ) {
        if !from.as_os_str().is_empty()
            && let Some(seen) = self.look(from)
        {
            found.insert(from.to_owned(), seen);
        }
        let mut open = vec![from.to_owned()];
        while let Some(directory) = open.pop() {
            // Before it is listed, so that what appears in between is either listed or seen by the watch.
            on_directory(&directory);
            for (name, kind) in self.directory.list(&directory).unwrap_or_default() {
                let path = directory.join(name);
                if found.len() < MOST_FILES
                    && let Some(seen) = self.look(&path)
                {
                    found.insert(path.clone(), seen);
                }
                if kind == EntryKind::Directory {
                    open.push(path);
                }
            }
        }
    }

    /// What is at a path; pipes, sockets and devices count as nothing.
    pub(crate) fn look(&self, path: &Path) -> Option<Seen> {
        let stat = self.directory.stat(path).ok()?;
        let nanoseconds =
            |seconds: i64, rest: u64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        let kind = match stat.st_mode & 0o170_000 {
            0o100_000 => Kind::File,
            0o040_000 => {
                return Some(Seen {
                    kind: Kind::Directory,
                    bytes: 0,
                    modified: 0,
                    mode: 0,
                    changed: 0,
                    inode: 0,
                });
            }
            0o120_000 => Kind::Link,
            _ => return None,
        };
        Some(Seen {
            kind,
            bytes: stat.st_size.unsigned_abs(),
            modified: nanoseconds(stat.st_mtime, stat.st_mtime_nsec),
            mode: stat.st_mode & 0o7777,
            changed: nanoseconds(stat.st_ctime, stat.st_ctime_nsec),
            inode: stat.st_ino,
        })
    }
}

/// What something in a workspace looked like. A directory only is or is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) kind: Kind,
    pub(crate) bytes: u64,
    pub(crate) modified: i128,
    pub(crate) mode: u32,
    changed: i128,
    inode: u64,
}

/// What of a workspace is tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    Link,
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if self.ours {
            // Works only while it is empty.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

fn file_error(path: &str, source: io::Error) -> Error {
    // What openat2 says of a link that leads out is a riddle.
    let source = match source.raw_os_error() {
        Some(18) => io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it leads out of the workspace",
        ),
        _ => source,
    };
    Error::File {
        path: path.to_owned(),
        source,
    }
}

fn check_writable(path: &Path) -> io::Result<()> {
    let draft = path.join(format!(".cellblock-{}", std::process::id()));
    fs::write(&draft, [0; 512])?;
    fs::remove_file(&draft)
}

/// The session's id, when it began, and who made it: two processes may both have a session `default`.
fn unique_name(session: &str) -> String {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    format!(
        "{session}-{}-{:x}",
        now.as_secs(),
        now.subsec_nanos() ^ std::process::id()
    )
}
