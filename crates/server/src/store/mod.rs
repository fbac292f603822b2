//! The store: users, logins, tokens, and the indexes of sessions, chats and runs, in one SQLite file.
//!
//! One thread owns the connection, so there is one writer and no lock to wait for. Journals and records of runs stay files of their own.
//! A lock file keeps a second server away from the same store.

mod accounts;
mod audit;
mod chats;
mod credentials;
mod evaluations;
mod lock;
mod migrations;
mod sessions;
mod shares;
mod trouble;
mod usage;

pub(crate) use accounts::{Role, User};
pub(crate) use chats::{ChatRow, RunRow};
pub(crate) use credentials::TokenRow;
pub(crate) use evaluations::EvaluationRow;
pub(crate) use sessions::{SessionRow, SessionStatus};
pub(crate) use usage::UsageRow;

use crate::clock::Clock;
use credentials::FirstLink;
use lock::StoreLock;
use rusqlite::{Connection, ErrorCode};
use std::fs::Permissions;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::sync::oneshot;
use trouble::Trouble;
use usage::KnownUsage;

/// The name of the file in the data directory.
pub(crate) const STORE_FILE: &str = "cellblock.db";
/// How long a write waits for another program that has the file open, such as a backup.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// A handle of the store. Clones are the same store; the file is closed when the last one is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    work: Sender<Work>,
    path: Arc<PathBuf>,
    clock: Clock,
    first_link: FirstLink,
    known_usage: KnownUsage,
    trouble: Trouble,
    /// Dropped after `work`, whose end ends the thread.
    _thread: Arc<StoreThread>,
}

/// The thread that has the connection, and the lock that is held until the connection is closed.
#[derive(Debug)]
struct StoreThread {
    thread: Option<JoinHandle<()>>,
    _lock: StoreLock,
}

impl Drop for StoreThread {
    fn drop(&mut self) {
        // A job that holds the last handle is a part of the thread, and cannot wait for its end.
        let thread = self.thread.take();
        let others = thread.filter(|thread| thread.thread().id() != thread::current().id());
        if let Some(thread) = others {
            let _ = thread.join();
        }
    }
}

type Work = Box<dyn FnOnce(&mut Writer) + Send>;

/// The connection, and whether a commit waits for the disk.
struct Writer {
    db: Connection,
    is_synced: bool,
}

impl Writer {
    /// Does some work whose commit waits for the disk, or not. The mode is told to SQLite only when it changes: that takes as long as a
    /// small write.
    /// Tells with the outcome whether it wrote.
    fn work<T>(
        &mut self,
        is_synced: bool,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
    ) -> (rusqlite::Result<T>, bool) {
        let before = self.db.total_changes();
        let done = self.work_in_mode(is_synced, work);
        (done, self.db.total_changes() != before)
    }

    fn work_in_mode<T>(
        &mut self,
        is_synced: bool,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        if self.is_synced != is_synced {
            let mode = if is_synced { "FULL" } else { "NORMAL" };
            self.db.pragma_update(None, "synchronous", mode)?;
            self.is_synced = is_synced;
        }
        work(&mut self.db)
    }
}

/// Why the store cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another server has the store open.
    #[error("another server (process {process}) uses {}", path.display())]
    InUse {
        /// The data directory.
        path: PathBuf,
        /// The process id that the lock file names.
        process: String,
    },
    /// The file is damaged or is no database.
    #[error("the store {} is damaged: {problem}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        problem: String,
    },
    /// A newer version of the program wrote the file.
    #[error(
        "the store {} has version {found}, and this program reads versions up to {known}",
        path.display()
    )]
    TooNew {
        /// The file.
        path: PathBuf,
        /// The version of the file.
        found: i64,
        /// The newest version that this program knows.
        known: i64,
    },
    /// The disk is full.
    #[error("the store {} cannot be written: the disk is full", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// Another program holds the file.
    #[error("the store {} is locked by another program", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// A file or directory of the store cannot be used.
    #[error("{} cannot be used: {source}", path.display())]
    Unusable {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Anything else that SQLite refuses.
    #[error("the store {} refuses a query: {problem}", path.display())]
    Query {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        problem: String,
    },
}

impl StoreError {
    /// What callers learn of it: no path of the server.
    pub(crate) fn told_to_callers(&self) -> &'static str {
        match self {
            StoreError::Full { .. } => "the server cannot keep this: its disk is full",
            StoreError::Locked { .. } => "the store of the server is locked by another program",
            _ => "the store of the server cannot be used",
        }
    }

    /// What to do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            StoreError::InUse { .. } => {
                "stop that server first, or give this one another directory with --data".to_owned()
            }
            StoreError::Damaged { path, .. } => format!(
                "restore a backup, or move {} away and start with a new store; sessions and runs are files of their own and stay",
                path.display()
            ),
            StoreError::TooNew { .. } => {
                "use the newer program, or restore a backup from before".to_owned()
            }
            StoreError::Full { .. } => "make room on the disk".to_owned(),
            StoreError::Locked { .. } => "end the program that holds it, and try again".to_owned(),
            _ => return None,
        })
    }
}

impl Store {
    /// Copies the store of a data directory as it is at this moment, also while a server uses it.
    pub(crate) fn copy_to(directory: &Path, target: &Path) -> Result<(), StoreError> {
        let path = directory.join(STORE_FILE);
        let failed = |error: rusqlite::Error| store_error(&path, &error);
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE;
        let connection = Connection::open_with_flags(&path, flags).map_err(failed)?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
        let target = target.to_string_lossy().into_owned();
        connection
            .execute("VACUUM INTO ?", [target])
            .map(|_| ())
            .map_err(failed)
    }

    /// Opens the store in a data directory, and makes it where there is none.
    pub(crate) fn open(directory: &Path, clock: Clock) -> Result<Store, StoreError> {
        let lock = StoreLock::take(directory)?;
        let path = directory.join(STORE_FILE);
        make_private(&path).map_err(|source| StoreError::Unusable {
            path: path.clone(),
            source,
        })?;
        let mut connection = connect(&path).map_err(|error| store_error(&path, &error))?;
        migrations::run(&mut connection, &path)?;
        let mut writer = Writer {
            db: connection,
            is_synced: true,
        };
        let (work, jobs) = channel::<Work>();
        let started = thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || {
                for job in jobs {
                    job(&mut writer);
                }
            });
        let thread = started.map_err(|source| StoreError::Unusable {
            path: path.clone(),
            source,
        })?;
        Ok(Store {
            work,
            path: Arc::new(path),
            clock,
            first_link: FirstLink::default(),
            known_usage: KnownUsage::default(),
            trouble: Trouble::default(),
            _thread: Arc::new(StoreThread {
                thread: Some(thread),
                _lock: lock,
            }),
        })
    }

    /// The time now in seconds since 1970, as the store keeps times.
    pub(crate) fn now(&self) -> i64 {
        self.clock.now()
    }

    /// Does some work with the connection, on its own thread.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.call_with(true, work).await
    }

    async fn call_with<T: Send + 'static>(
        &self,
        is_synced: bool,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let job: Work = Box::new(move |writer| {
            let _ = reply.send(writer.work(is_synced, work));
        });
        let gone = || StoreError::Query {
            path: self.path.as_ref().clone(),
            problem: "its thread has ended".to_owned(),
        };
        self.work.send(job).map_err(|_| gone())?;
        let (done, has_written) = answer.await.map_err(|_| gone())?;
        let done = done.map_err(|error| store_error(&self.path, &error));
        self.trouble.tell(&done, has_written);
        done
    }

    /// Does some work that every cell causes, without a wait for the disk: that wait is longer than the cell. The end of the process loses
    /// nothing of it; a power cut may lose what was written since the last [`call`](Store::call).
    pub(crate) async fn call_unsynced<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.call_with(false, work).await
    }

    /// Like [`call_unsynced`](Store::call_unsynced), without a wait for the answer. What is asked of the store later sees what was done.
    pub(crate) fn post_unsynced<T>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) {
        let (path, trouble) = (Arc::clone(&self.path), self.trouble.clone());
        let job: Work = Box::new(move |writer| {
            let (done, has_written) = writer.work(false, work);
            let done = done.map_err(|error| store_error(&path, &error));
            trouble.tell(&done, has_written);
        });
        // The thread is there as long as the store is open.
        let _ = self.work.send(job);
    }

    /// Whether the store answers.
    pub(crate) async fn ping(&self) -> Result<(), StoreError> {
        self.call(|db| db.query_row("SELECT 1", [], |_| Ok(())))
            .await
    }
}

/// Makes the file of a store, for its owner alone. SQLite gives the files beside it the same permissions.
fn make_private(path: &Path) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let file = options.append(true).create(true).mode(0o600).open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // A damaged file is told here, not in the middle of some request.
    let check: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if check != "ok" {
        return Err(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT),
            Some(check),
        ));
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // With a write-ahead log a power cut loses at most the last writes, and `FULL` not even those. See `call_unsynced`.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    Ok(connection)
}

fn store_error(path: &Path, error: &rusqlite::Error) -> StoreError {
    let path = path.to_owned();
    let problem = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Damaged { path, problem }
        }
        Some(ErrorCode::DiskFull) => StoreError::Full { path },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked { path },
        _ => StoreError::Query { path, problem },
    }
}

#[cfg(test)]
mod tests;
