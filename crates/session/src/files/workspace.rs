//! A session's files: the directory, what is in it, and what a cell did to it.

use crate::Error;
use crate::files::shared_files::SharedFiles;
use crate::runtime::reach_below;
use cellblock_protocol::{FileEntry, mime_of};
use cellblock_sandbox::{
    Access, Budget, Closed, Confined, Entry, FileSystem, Links, SET_ID_BITS, Stat, Step,
    private_directory,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder};
use std::io::{self, Read, Seek as _, Write as _};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The most entries of a workspace that are looked at, and the most bytes of their paths.
const MAX_ENTRIES: usize = 200_000;
const MAX_PATH_BYTES: usize = 32 << 20;
/// The most bytes of a file that are read into memory at once.
const MAX_BYTES_AT_ONCE: u64 = 64 << 20;

/// A workspace on disk.
#[derive(Debug)]
pub(crate) struct Workspace {
    path: PathBuf,
    directory: Confined,
    /// The file system that it is on, as `stat` numbers it.
    device: u64,
    /// The owner of the directory when it was opened: with its files, code can do what that user can.
    owner: u32,
    origin: Origin,
    shared_files: Arc<SharedFiles>,
    file_system: Option<FileSystem>,
}

/// Where a workspace comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// A directory of the user's.
    UserDirectory,
    /// An empty one, made for the session.
    Fresh,
    /// A copy of another session's.
    Copied,
}

impl Workspace {
    /// A directory of the user's.
    pub(crate) fn in_user_directory(path: &Path) -> Result<Workspace, Error> {
        let refuse = |problem: String| Error::Workspace {
            path: path.to_owned(),
            problem,
        };
        let path = fs::canonicalize(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => refuse("it does not exist; create it first".into()),
            _ => refuse(error.to_string()),
        })?;
        if path == Path::new("/") {
            return Err(refuse("the root directory is no workspace".into()));
        }
        // From here on it is this directory, whatever its path leads to later.
        let directory = Confined::open_real(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotADirectory => refuse("it is not a directory".into()),
            _ => refuse(error.to_string()),
        })?;
        directory
            .check_writable()
            .map_err(|error| match error.kind() {
                io::ErrorKind::ReadOnlyFilesystem => {
                    refuse("it is on a read-only file system".into())
                }
                io::ErrorKind::PermissionDenied => {
                    refuse("it cannot be written by this user".into())
                }
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    refuse("its disk is full".into())
                }
                _ => refuse(error.to_string()),
            })?;
        Workspace::of(path, directory, Origin::UserDirectory, Arc::default())
    }

    /// A fresh one, which survives the session unless it stays empty.
    pub(crate) fn fresh(state: &Path, session: &str) -> Result<Workspace, Error> {
        Workspace::make(state, session, Origin::Fresh, Arc::default())
    }

    /// A directory for temporary files of a session, which goes with the session's own directory.
    pub(crate) fn temporary(path: &Path) -> Result<Workspace, Error> {
        let directory = Confined::open_real(path).map_err(|error| Error::Workspace {
            path: path.to_owned(),
            problem: error.to_string(),
        })?;
        Workspace::of(path.to_owned(), directory, Origin::Fresh, Arc::default())
    }

    /// One that a copy of this one's files is put into.
    pub(crate) fn for_copy(&self, state: &Path, session: &str) -> Result<Workspace, Error> {
        Workspace::make(
            state,
            session,
            Origin::Copied,
            Arc::clone(&self.shared_files),
        )
    }

    fn make(
        state: &Path,
        session: &str,
        origin: Origin,
        shared_files: Arc<SharedFiles>,
    ) -> Result<Workspace, Error> {
        let all = state.join("workspaces");
        let path = all.join(unique_name(session));
        let failed = |source| Error::Storage {
            what: "making the workspace",
            path: path.clone(),
            source,
        };
        private_directory(&all, reach_below(state)).map_err(failed)?;
        let mut builder = DirBuilder::new();
        builder.mode(0o700).create(&path).map_err(failed)?;
        let real = path.canonicalize().map_err(failed)?;
        let directory = Confined::open_real(&real).map_err(failed)?;
        Workspace::of(real, directory, origin, shared_files)
    }

    fn of(
        path: PathBuf,
        directory: Confined,
        origin: Origin,
        shared_files: Arc<SharedFiles>,
    ) -> Result<Workspace, Error> {
        let owner = directory.own_stat().map_err(|error| Error::Workspace {
            path: path.clone(),
            problem: error.to_string(),
        })?;
        Ok(Workspace {
            path,
            file_system: directory.file_system().ok(),
            device: owner.st_dev,
            owner: owner.st_uid,
            directory,
            origin,
            shared_files,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The file system that it is on, as `stat` numbers it.
    pub(crate) fn device(&self) -> u64 {
        self.device
    }

    pub(crate) fn put(&self, path: &str, contents: &[u8]) -> Result<(), Error> {
        let write = || {
            let mut writing = self.open_to_write(Path::new(path))?;
            writing.file.set_len(0)?;
            writing.file.write_all(contents)
        };
        write().map_err(|source| file_error(path, source))
    }

    /// A whole file, if it is small enough to be held in memory.
    pub(crate) fn get(&self, path: &str) -> Result<Vec<u8>, Error> {
        let file = self.open_file(path)?;
        let size = file.metadata().map_or(0, |metadata| metadata.len());
        let too_large = |size: u64| {
            let problem = format!(
                "it has {size} bytes, and at most {MAX_BYTES_AT_ONCE} are read at once; read it in parts"
            );
            file_error(path, io::Error::other(problem))
        };
        if size > MAX_BYTES_AT_ONCE {
            return Err(too_large(size));
        }
        // It may grow meanwhile.
        let contents = self.read_part(path, &file, MAX_BYTES_AT_ONCE + 1)?;
        match contents.len() as u64 {
            size if size > MAX_BYTES_AT_ONCE => Err(too_large(size)),
            _ => Ok(contents),
        }
    }

    /// A part of a file: `length` bytes from `offset` on, or as many as there are and can be read at once.
    pub(crate) fn get_part(&self, path: &str, offset: u64, length: u64) -> Result<Vec<u8>, Error> {
        let mut file = self.open_file(path)?;
        let found = file.seek(io::SeekFrom::Start(offset));
        found.map_err(|source| file_error(path, source))?;
        self.read_part(path, &file, length.min(MAX_BYTES_AT_ONCE))
    }

    fn read_part(&self, path: &str, file: &fs::File, most: u64) -> Result<Vec<u8>, Error> {
        let mut contents = Vec::new();
        let read = file.take(most).read_to_end(&mut contents);
        read.map_err(|source| file_error(path, source))?;
        Ok(contents)
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
        self.walk(Path::new(""), &mut |_, _| {})
            .entries
            .iter()
            .filter(|(_, seen)| seen.kind == Kind::File)
            .map(entry)
            .collect()
    }

    /// Whether nothing was in it when the session began.
    pub(crate) fn began_empty(&self) -> bool {
        self.origin == Origin::Fresh
    }

    /// Whether it is a directory of the user's.
    pub(crate) fn is_user_directory(&self) -> bool {
        self.origin == Origin::UserDirectory
    }

    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        let mut is_empty = true;
        let mut budget = Budget {
            entries: 1,
            text: MAX_PATH_BYTES,
            closed: Closed::Stays,
        };
        self.directory
            .walk(Path::new(""), &mut budget, &mut |step| {
                is_empty &= matches!(step, Step::Enters(..));
            });
        is_empty
    }

    /// What it has in common with other sessions.
    pub(crate) fn shared_files(&self) -> &Arc<SharedFiles> {
        &self.shared_files
    }

    /// The directory, for those who put files back.
    pub(crate) fn directory(&self) -> &Confined {
        &self.directory
    }

    /// Everything below `from`, and `from` itself unless it is the root.
    pub(crate) fn walk(
        &self,
        from: &Path,
        on_directory: &mut dyn FnMut(&Path, BorrowedFd<'_>),
    ) -> Found {
        let mut found = Found::default();
        // A directory of the user's may be closed for a reason of his.
        let closed = match self.origin {
            Origin::UserDirectory => Closed::Stays,
            Origin::Fresh | Origin::Copied => Closed::IsOpened,
        };
        if !from.as_os_str().is_empty() {
            let stat = match self.directory.stat(from) {
                Err(error) if is_closed(&error) && closed == Closed::IsOpened => {
                    self.directory.unlock_above(from);
                    self.directory.stat(from)
                }
                stat => stat,
            };
            let Ok(stat) = stat else {
                return found;
            };
            let seen = self.note(&mut found, from, &stat);
            if seen.is_none_or(|seen| seen.kind != Kind::Directory) {
                return found;
            }
        }
        let mut budget = Budget {
            entries: MAX_ENTRIES,
            text: MAX_PATH_BYTES,
            closed,
        };
        self.directory
            .walk(from, &mut budget, &mut |step| match step {
                Step::Enters(path, directory) => on_directory(path, directory),
                Step::Finds(path, stat) => {
                    self.note(&mut found, path, stat);
                }
                Step::Leaves(path) => {
                    found.left.insert(path.to_owned());
                }
            });
        found
    }

    /// What the kernel says of the file system that it is on.
    pub(crate) fn file_system(&self) -> Option<FileSystem> {
        self.directory.file_system().ok()
    }

    /// What something takes on disk: its size, or what is reserved for it, whichever is more.
    pub(crate) fn taken_by(&self, seen: &Seen) -> u64 {
        /// XFS reserves at least this much for a file that grows.
        const MIN_RESERVED_BYTES: u64 = 64 << 10;
        let reserves_ahead = self.file_system.is_some_and(FileSystem::reserves_ahead);
        let ahead = if reserves_ahead && seen.kind == Kind::File {
            seen.bytes + MIN_RESERVED_BYTES
        } else {
            0
        };
        seen.bytes.max(seen.allocated.saturating_sub(ahead))
    }

    fn note(&self, found: &mut Found, path: &Path, stat: &Stat) -> Option<Seen> {
        let seen = found.add(path, stat);
        if seen.is_some_and(|seen| self.is_armed(&seen)) {
            found.armed.push(path.to_owned());
        }
        seen
    }

    /// What is at a path; pipes, sockets and devices count as nothing.
    pub(crate) fn look(&self, path: &Path) -> Option<Seen> {
        Seen::from_stat(&self.directory.stat(path).ok()?)
    }

    /// What is at a path, to be acted on: whatever is decided about it holds for this very file, and not for what its name leads to later.
    pub(crate) fn find(&self, path: &Path) -> Option<(Entry, Seen)> {
        let entry = self.directory.find(path, Links::AreNotFollowed).ok()?;
        let seen = Seen::from_stat(entry.stat())?;
        Some((entry, seen))
    }

    /// Whether others would run the file as its owner or its group, and code of a session could have written it: a write through a shared map
    /// does not take the bits away.
    fn is_armed(&self, seen: &Seen) -> bool {
        seen.access.mode & SET_ID_BITS != 0 && self.code_can_write(seen)
    }

    fn code_can_write(&self, seen: &Seen) -> bool {
        let is_own = seen.access.owner == self.owner;
        seen.kind == Kind::File && (is_own || seen.access.mode & 0o022 != 0)
    }

    /// Refuses a directory of the user's with programs in it that run with rights of their own and that code could rewrite.
    pub(crate) fn refuse_armed(&self, found: &BTreeMap<PathBuf, Seen>) -> Result<(), Error> {
        const MAX_NAMED: usize = 3;
        if !self.is_user_directory() {
            return Ok(());
        }
        let is_armed = |(path, seen): &(&PathBuf, &Seen)| {
            self.is_armed(seen)
                || self.code_can_write(seen) && self.directory.has_capabilities(path)
        };
        let mut armed = found.iter().filter(is_armed);
        let named: Vec<String> = armed
            .by_ref()
            .take(MAX_NAMED)
            .map(|(path, _)| path.display().to_string())
            .collect();
        if named.is_empty() {
            return Ok(());
        }
        let more = match armed.count() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Err(Error::Workspace {
            path: self.path.clone(),
            problem: format!(
                "code in it could rewrite programs that others run with the rights of their owner: {}{more}; take these rights away (chmod ug-s, setcap -r), or choose another directory",
                named.join(", ")
            ),
        })
    }

    /// Takes from a file the bits with which it runs as its owner. It appeared while the session runs.
    pub(crate) fn disarm(&self, path: &Path) -> Option<Seen> {
        let (entry, seen) = self.find(path)?;
        if self.is_armed(&seen) && entry.set_access(seen.access).is_ok() {
            tracing::warn!(path = %path.display(), "took the set-user-id or set-group-id bit from a file in the workspace of a session");
        }
        Seen::from_stat(&entry.stat_now().ok()?)
    }
}

/// What a walk found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) entries: BTreeMap<PathBuf, Seen>,
    /// Pipes, sockets and devices.
    pub(crate) special: Vec<PathBuf>,
    /// Directories that hold more than is looked at.
    pub(crate) left: BTreeSet<PathBuf>,
    /// Files that run as their owner and that code could have written.
    pub(crate) armed: Vec<PathBuf>,
}

impl Found {
    fn add(&mut self, path: &Path, stat: &Stat) -> Option<Seen> {
        let seen = Seen::from_stat(stat);
        match seen {
            Some(seen) => drop(self.entries.insert(path.to_owned(), seen)),
            None => self.special.push(path.to_owned()),
        }
        seen
    }
}

/// What something in a workspace looked like. A directory only is or is not: two are equal, whatever else there is to them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) kind: Kind,
    pub(crate) bytes: u64,
    pub(crate) modified: i128,
    pub(crate) access: Access,
    pub(crate) inode: u64,
    changed: i128,
    names: u64,
    /// What the file system has taken for it.
    allocated: u64,
}

impl Seen {
    pub(crate) fn from_stat(stat: &Stat) -> Option<Seen> {
        let nanoseconds =
            |seconds: i64, rest: u64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        let kind = match stat.st_mode & 0o170_000 {
            0o100_000 => Kind::File,
            0o040_000 => Kind::Directory,
            0o120_000 => Kind::Link,
            _ => return None,
        };
        Some(Seen {
            kind,
            bytes: match kind {
                Kind::Directory => 0,
                Kind::File | Kind::Link => stat.st_size.unsigned_abs(),
            },
            modified: nanoseconds(stat.st_mtime, stat.st_mtime_nsec),
            access: Access::of(stat),
            inode: stat.st_ino,
            changed: nanoseconds(stat.st_ctime, stat.st_ctime_nsec),
            names: stat.st_nlink,
            allocated: u64::try_from(stat.st_blocks).unwrap_or(0) * 512,
        })
    }

    /// What tells its contents from all others.
    pub(crate) fn stamp(&self) -> Stamp {
        (self.inode, self.bytes, self.modified)
    }

    /// Whether it is the same file, and it was not written to in between.
    pub(crate) fn has_same_content(&self, other: &Seen) -> bool {
        self.kind == other.kind && self.stamp() == other.stamp()
    }

    /// Whether a later look found the same file with nothing changed, not even its owner, permissions or attributes.
    pub(crate) fn is_untouched_in(&self, later: &Seen) -> bool {
        self.has_same_content(later) && self.changed == later.changed
    }

    /// Whether nothing leads to it but this one path.
    pub(crate) fn has_one_name(&self) -> bool {
        self.names == 1
    }
}

/// A time in seconds and nanoseconds.
pub(crate) fn time_of(nanoseconds: i128) -> (i64, i64) {
    const SECOND: i128 = 1_000_000_000;
    let part = |number: i128| i64::try_from(number).unwrap_or(0);
    (
        part(nanoseconds.div_euclid(SECOND)),
        part(nanoseconds.rem_euclid(SECOND)),
    )
}

/// Inode, size, and when it was last written.
pub(crate) type Stamp = (u64, u64, i128);

impl PartialEq for Seen {
    fn eq(&self, other: &Seen) -> bool {
        let has_one_name = self.has_one_name() && other.has_one_name();
        // What happens to another name, maybe in another session, changes this time as well.
        let is_unchanged = self.changed == other.changed || !has_one_name;
        match (self.kind, other.kind) {
            (Kind::Directory, Kind::Directory) => true,
            _ => self.has_same_content(other) && self.access == other.access && is_unchanged,
        }
    }
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
        if !self.is_user_directory() {
            // Works only while it is empty.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

/// Whether a directory above could not be searched.
fn is_closed(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
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

/// The session's id, when it began, and a number that cannot be guessed: two processes may both have a session `default`, and where sessions
/// see the host's files, none shall find the workspace of another by trying names.
fn unique_name(session: &str) -> String {
    use std::hash::{BuildHasher as _, RandomState};
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    let number = RandomState::new().hash_one((now, std::process::id()));
    format!("{session}-{}-{number:016x}", now.as_secs())
}
