//! Copies of files, in a directory of the session's, with the extended attributes that code may change.

use crate::files::entry_state::{EntryState, TrackedKind};
use cellblock_sandbox::{EntryHandle, Identity, Reach, private_directory, private_file};
use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Read as _;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fs, io};

/// The directory with the copies.
#[derive(Debug)]
pub(crate) struct FileStore {
    directory: PathBuf,
    next: u64,
    bytes: Arc<AtomicU64>,
}

/// One copy. Its file is removed when the last handle is dropped.
#[derive(Debug)]
pub(crate) struct Stored {
    path: PathBuf,
    /// The file that it is a copy of, or that was made from it when the session went back.
    original: Mutex<Option<Identity>>,
    /// The bytes on disk that only this copy takes.
    bytes: u64,
    total: Arc<AtomicU64>,
}

impl FileStore {
    pub(crate) fn new(directory: PathBuf) -> FileStore {
        FileStore {
            directory,
            next: 0,
            bytes: Arc::default(),
        }
    }

    /// The bytes that all copies take on disk.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes that are free where they are, if that can be told.
    pub(crate) fn room(&self) -> Option<u64> {
        let existing = self.directory.ancestors().find(|path| path.is_dir())?;
        let found = rustix::fs::statvfs(existing).ok()?;
        Some(found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// Copies a file that was found in a workspace. The copy is for the host alone, also where other users may read the original.
    pub(crate) fn copy(&mut self, entry: &EntryHandle) -> io::Result<Stored> {
        let source = entry.read()?;
        // One that grows as fast as it is copied has no end.
        let mut source = (&source).take(source.metadata()?.len());
        let mut stored = self.place()?;
        stored.set_original(entry);
        // The kernel shares the blocks where the file system can.
        let bytes = io::copy(&mut source, &mut private_file(&stored.path)?)?;
        stored.count(bytes);
        Ok(stored)
    }

    /// Keeps a file that is about to lose its name, without a copy. The same file system must hold both.
    pub(crate) fn link(&mut self, entry: &EntryHandle) -> io::Result<Stored> {
        let stored = self.place()?;
        entry.link_out(&stored.path)?;
        Ok(stored)
    }

    fn place(&mut self) -> io::Result<Stored> {
        private_directory(&self.directory, Reach::OwnerOnly)?;
        self.next += 1;
        Ok(Stored {
            path: self.directory.join(self.next.to_string()),
            original: Mutex::default(),
            bytes: 0,
            total: Arc::clone(&self.bytes),
        })
    }
}

impl Stored {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a file is the one that this copy was made from, so that going back may write into it: a process that has the file open then sees the old contents.
    pub(crate) fn is_copy_of(&self, entry: &EntryHandle) -> bool {
        let is_certain = |identity: &Identity| identity.is_certain() || entry.stat().st_nlink == 1;
        self.noted_original()
            .filter(is_certain)
            .is_some_and(|original| entry.identity().is_ok_and(|found| found == original))
    }

    /// What tells the file that it is a copy of from all others; `None` where the file system cannot tell that for certain.
    pub(crate) fn original(&self) -> Option<Identity> {
        self.noted_original().filter(Identity::is_certain)
    }

    /// Notes which file has these contents: the one that was copied, or one that was made from the copy.
    pub(crate) fn set_original(&self, entry: &EntryHandle) {
        let mut original = self.original.lock().unwrap_or_else(PoisonError::into_inner);
        *original = entry.identity().ok();
    }

    fn noted_original(&self) -> Option<Identity> {
        *self.original.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether a file has the same contents.
    pub(crate) fn has_same_bytes(&self, file: &fs::File) -> io::Result<bool> {
        const BLOCK: u64 = 256 << 10;
        let (mut copy, mut file) = (fs::File::open(&self.path)?, file);
        let (mut one, mut other) = (Vec::new(), Vec::new());
        loop {
            one.clear();
            other.clear();
            (&mut copy).take(BLOCK).read_to_end(&mut one)?;
            (&mut file).take(BLOCK).read_to_end(&mut other)?;
            if one != other {
                return Ok(false);
            }
            if one.is_empty() {
                return Ok(true);
            }
        }
    }

    fn count(&mut self, bytes: u64) {
        self.bytes = bytes;
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes, Ordering::Relaxed);
        let _ = fs::remove_file(&self.path);
    }
}

impl Drop for FileStore {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// The most bytes of names and values of one file that are recorded.
const MAX_BYTES: usize = 256 << 10;
/// The kernel's own limits for the list of names and for one value.
const MAX_LIST_BYTES: usize = 64 << 10;
const MAX_VALUE_BYTES: usize = 64 << 10;

/// The attributes of one file, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    values: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Attributes {
    /// No attributes.
    pub(crate) const fn none() -> Attributes {
        Attributes {
            values: BTreeMap::new(),
        }
    }

    /// Reads the attributes of a plain file or a directory.
    pub(crate) fn of(entry: &EntryHandle) -> io::Result<Attributes> {
        Attributes::read(open(entry)?.as_fd())
    }

    /// A number that tells these attributes from others.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        if self.values.is_empty() {
            return Fingerprint::OfNone;
        }
        let mut hasher = DefaultHasher::new();
        self.values.hash(&mut hasher);
        Fingerprint::Of(hasher.finish())
    }

    pub(crate) fn read(file: BorrowedFd<'_>) -> io::Result<Attributes> {
        let mut attributes = Attributes::default();
        let mut left = MAX_BYTES;
        for name in names(file)? {
            let mut value = Vec::with_capacity(256);
            match fgetxattr(
                file,
                name.as_slice(),
                rustix::buffer::spare_capacity(&mut value),
            ) {
                Err(Errno::RANGE) => {
                    value.reserve(MAX_VALUE_BYTES);
                    fgetxattr(
                        file,
                        name.as_slice(),
                        rustix::buffer::spare_capacity(&mut value),
                    )?;
                }
                // Removed meanwhile.
                Err(Errno::NODATA) => continue,
                read => _ = read?,
            }
            let taken = name.len() + value.len();
            left = left.checked_sub(taken).ok_or_else(|| {
                io::Error::other("it has more extended attributes than are recorded")
            })?;
            attributes.values.insert(name, value);
        }
        Ok(attributes)
    }

    /// Gives a plain file or a directory these attributes and no others. Before its permissions are set: an access list changes them.
    pub(crate) fn put_back(&self, entry: &EntryHandle) -> io::Result<()> {
        let file = open(entry)?;
        let now = Attributes::read(file.as_fd())?;
        for name in now.values.keys() {
            if !self.values.contains_key(name) {
                fremovexattr(&file, name.as_slice())?;
            }
        }
        for (name, value) in &self.values {
            if now.values.get(name) != Some(value) {
                fsetxattr(&file, name.as_slice(), value, XattrFlags::empty())?;
            }
        }
        Ok(())
    }
}

/// What is known of the extended attributes of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fingerprint {
    OfNone,
    Of(u64),
    Unknown,
}

impl Fingerprint {
    /// Whether the directory is known to have no attributes.
    pub(crate) fn is_of_none(self) -> bool {
        self == Fingerprint::OfNone
    }

    /// Whether both may be of the same attributes.
    pub(crate) fn may_be(self, other: Fingerprint) -> bool {
        self == other || self == Fingerprint::Unknown || other == Fingerprint::Unknown
    }
}

fn open(entry: &EntryHandle) -> io::Result<File> {
    match EntryState::from_stat(entry.stat()).kind {
        TrackedKind::Directory => entry.read_directory(),
        _ => entry.read(),
    }
}

/// The names of the attributes that code may change.
fn names(file: BorrowedFd<'_>) -> io::Result<Vec<Vec<u8>>> {
    let mut list = Vec::with_capacity(256);
    let read = match flistxattr(file, rustix::buffer::spare_capacity(&mut list)) {
        Err(Errno::RANGE) => {
            list.reserve(MAX_LIST_BYTES);
            flistxattr(file, rustix::buffer::spare_capacity(&mut list))
        }
        read => read,
    };
    match read {
        // A file system without attributes.
        Err(Errno::NOTSUP) => return Ok(Vec::new()),
        read => _ = read?,
    }
    let is_of_code = |name: &&[u8]| {
        name.starts_with(b"user.")
            || *name == b"system.posix_acl_access"
            || *name == b"system.posix_acl_default"
    };
    let names = list.split(|byte| *byte == 0).filter(is_of_code);
    Ok(names.map(<[u8]>::to_vec).collect())
}
