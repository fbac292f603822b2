//! Reading, writing and listing the files of a workspace on behalf of a caller of the session.

use crate::Error;
use crate::files::entry_state::{EntryState, TrackedKind};
use crate::files::workspace::Workspace;
use cellblock_protocol::{FileEntry, mime_of};
use std::fs;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

/// The most bytes of a file that are read into memory at once.
const MAX_BYTES_AT_ONCE: u64 = 64 << 20;

impl Workspace {
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
        let entry = |(path, seen): (&PathBuf, &EntryState)| {
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
            .filter(|(_, seen)| seen.kind == TrackedKind::File)
            .map(entry)
            .collect()
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
