//! The files that a session sees, by the absolute path that its code knows them by.
//!
//! Three places, three ways. The **workspace** is a directory of the host's: the host's own confined walk leads there, as for `put_file`,
//! so that files shared with forks are parted before they are written to. **`/tmp` and `/dev/shm`** exist only in the session: the host
//! goes through the root of the session's init and becomes the session's user. **Everything else** of the view can be read the same
//! way, and not written to: code of the session cannot write there either. Neither the head nor init is asked, because both may be busy
//! for as long as a cell runs, and code of the session could lie in the head's name.

mod layout;
mod operations;
mod watch;

use crate::session::Session;
use crate::{Error, Refusal};
use cellblock_protocol::FileStat;
use cellblock_sandbox::{Confined, SessionProcesses, in_view_of};
use layout::{FoundPath, PathAccess};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub(crate) use layout::Layout;
pub use watch::{Below, MAX_WATCHES, PathWatch};

/// The most bytes that one read returns.
pub const MAX_READ_BYTES: u64 = 64 << 20;
/// The most entries that one listing returns.
pub const MAX_LISTED: usize = 100_000;

/// The place whose files go back with a checkpoint.
const SHARED_MEMORY: &str = "dev/shm";

/// What becomes of the contents that a file has when it is written to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// They stay, but for what is written over.
    #[default]
    Kept,
    /// The file ends after what is written.
    CutOff,
}

/// The files that a session sees, by absolute path.
///
/// The workspace is read and written as the host's user, whatever permissions code has set there; everything else as the session's user. All of
/// it stays inside the session's view: a link that leads out of the workspace, out of `/tmp` or out of `/dev/shm` is refused; one to an
/// absolute path in its own place is followed. Works while a cell runs. What is written to the workspace between cells is part of the
/// state before the next cell, as with [`Session::put_file`], but is not in the journal.
///
/// ```
/// # cellblock_test_support::wait(async {
/// # let session = cellblock_test_support::open_session(Default::default()).await?;
/// use cellblock_session::Existing;
///
/// let paths = session.paths();
/// let path = paths.in_workspace("notes/a.txt");
/// paths.write(&path, 0, b"hello".to_vec(), Existing::CutOff).await?;
/// assert_eq!(session.run("open('notes/a.txt').read()").await?.repr(), Some("'hello'"));
/// assert_eq!(paths.read(&path, 1, 3).await?, b"ell");
/// # Ok::<(), cellblock_session::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Paths<'a> {
    session: &'a Session,
}

impl Session {
    /// The files that the session sees, by the absolute path that its code knows them by.
    pub fn paths(&self) -> Paths<'_> {
        Paths { session: self }
    }
}

impl Paths<'_> {
    /// The absolute path of something in the workspace, as code of the session knows it.
    pub fn in_workspace(&self, path: &str) -> String {
        let workspace = self.session.shared.base.layout.workspace.display();
        format!("{workspace}/{}", path.trim_start_matches('/'))
    }

    /// What is at a path. A link is described itself, with its target.
    pub async fn stat(&self, path: &str) -> Result<FileStat, Error> {
        let shown = path.to_owned();
        self.work(path, PathAccess::Read, move |directory, path| {
            operations::stat(directory, path, &shown)
        })
        .await
    }

    /// What is in a directory, and in those below it down to `depth` levels; 1 is the directory alone. Sorted by path.
    pub async fn list(&self, path: &str, depth: u32) -> Result<Vec<FileStat>, Error> {
        let shown = path.to_owned();
        self.work(path, PathAccess::Read, move |directory, path| {
            operations::list(directory, path, &shown, depth)
        })
        .await
    }

    /// Makes a directory, with those above it. One that is there already is fine.
    pub async fn make_dir(&self, path: &str) -> Result<(), Error> {
        self.work(path, PathAccess::Write, operations::make_directory)
            .await
    }

    /// Renames a file or a directory. Both paths are in the same place (the workspace, `/tmp` or `/dev/shm`), and nothing is at `to`.
    pub async fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        let layout = &self.session.shared.base.layout;
        let target = layout.find(to, PathAccess::Write)?;
        if target.directory != layout.find(from, PathAccess::Write)?.directory {
            return Err(Error::Path {
                path: to.to_owned(),
                source: std::io::Error::new(
                    std::io::ErrorKind::CrossesDevices,
                    "a file cannot be renamed from one place to another; copy it",
                ),
            });
        }
        self.work(from, PathAccess::Write, move |directory, from| {
            directory.rename(from, &target.path)
        })
        .await
    }

    /// Removes a file, a link, or a directory with all that is in it.
    pub async fn remove(&self, path: &str) -> Result<(), Error> {
        self.work(path, PathAccess::Write, operations::remove).await
    }

    /// Opens a file for reading: for contents that are too large for memory.
    pub async fn open(&self, path: &str) -> Result<File, Error> {
        self.work(path, PathAccess::Read, Confined::read).await
    }

    /// Reads `length` bytes from the byte `offset` on, or as many as there are; at most 64 MiB.
    pub async fn read(&self, path: &str, offset: u64, length: u64) -> Result<Vec<u8>, Error> {
        self.work(path, PathAccess::Read, move |directory, path| {
            let mut file = directory.read(path)?;
            file.seek(SeekFrom::Start(offset))?;
            let mut contents = Vec::new();
            file.take(length.min(MAX_READ_BYTES))
                .read_to_end(&mut contents)?;
            Ok(contents)
        })
        .await
    }

    /// Writes bytes from the byte `offset` on. A file that is not there is made, with the directories above it.
    pub async fn write(
        &self,
        path: &str,
        offset: u64,
        contents: Vec<u8>,
        existing: Existing,
    ) -> Result<(), Error> {
        self.write_with(path, move |file| {
            file.seek(SeekFrom::Start(offset))?;
            file.write_all(&contents)?;
            if existing == Existing::CutOff {
                file.set_len(offset + contents.len() as u64)?;
            }
            Ok(())
        })
        .await
    }

    /// Replaces the contents of a file by all that can be read from `source`, of any size. Returns how many bytes that were.
    pub async fn copy_in(&self, path: &str, mut source: File) -> Result<u64, Error> {
        self.write_with(path, move |file| {
            file.set_len(0)?;
            std::io::copy(&mut source, file)
        })
        .await
    }

    /// Replaces the contents of `target` by those of a file, of any size. Returns how many bytes that were.
    pub async fn copy_out(&self, path: &str, mut target: File) -> Result<u64, Error> {
        let file = self.open(path).await?;
        blocking(path, move || {
            target.set_len(0)?;
            // Code of the session may make the file longer all the time.
            let size = file.metadata()?.len();
            std::io::copy(&mut file.take(size), &mut target)
        })
        .await
    }

    async fn write_with<T: Send + 'static>(
        &self,
        path: &str,
        write: impl FnOnce(&mut File) -> std::io::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let place = self
            .session
            .shared
            .base
            .layout
            .find(path, PathAccess::Write)?;
        if place.directory.is_none() {
            let workspace = Arc::clone(&self.session.shared.base.workspace);
            return blocking(path, move || {
                let mut writing = workspace.open_to_write(&place.path)?;
                write(&mut writing.file)
            })
            .await;
        }
        self.work(path, PathAccess::Write, move |directory, path| {
            write(&mut operations::open_to_write(directory, path)?)
        })
        .await
    }

    /// Does something with the directory that a path is in, and with the path below it.
    async fn work<T: Send + 'static>(
        &self,
        path: &str,
        access: PathAccess,
        work: impl FnOnce(&Confined, &Path) -> std::io::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let FoundPath {
            directory,
            path: below,
        } = self.session.shared.base.layout.find(path, access)?;
        let Some(directory) = directory else {
            let workspace = Arc::clone(&self.session.shared.base.workspace);
            return blocking(path, move || work(workspace.directory(), &below)).await;
        };
        let processes = self.session.host_processes().await?;
        let is_memory = directory == Path::new(SHARED_MEMORY);
        let done = blocking(path, move || {
            in_view_of(processes, &directory, |directory| work(directory, &below))
        })
        .await;
        if is_memory && access == PathAccess::Write {
            let shared = &self.session.shared;
            shared
                .base
                .has_written_to_memory
                .store(true, Ordering::SeqCst);
        }
        done
    }
}

impl Session {
    /// The processes of the session, while it lives. Those of a fork are found a moment after it was made.
    pub(crate) async fn host_processes(&self) -> Result<SessionProcesses, Error> {
        const MAX_LOOKS: u32 = 1000;
        const PAUSE: Duration = Duration::from_millis(5);
        for _ in 0..MAX_LOOKS {
            if let Some(found) = self.ask_for_processes().await? {
                return Ok(found);
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(Refusal::ProcessesNotFound.into())
    }
}

async fn blocking<T: Send + 'static>(
    path: &str,
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    let outcome = done.unwrap_or_else(|error| Err(std::io::Error::other(error)));
    outcome.map_err(|source| Error::path(path, source))
}
