//! The history of a session's files, shared by the session's task and the task that keeps files before they are changed.
//!
//! A panic during a change of it must not be forgotten: what was not noted or copied then cannot be put back, and results say so.

use crate::files::history::FileHistory;
use crate::files::tracker::Changes;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

/// A handle of the history. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct SharedHistory {
    files: Arc<Mutex<FileHistory>>,
}

impl SharedHistory {
    pub(crate) fn new(files: FileHistory) -> SharedHistory {
        SharedHistory {
            files: Arc::new(Mutex::new(files)),
        }
    }

    /// Waits for its turn. For what is quick.
    pub(crate) fn lock(&self) -> MutexGuard<'_, FileHistory> {
        match self.files.lock() {
            Ok(files) => files,
            Err(poisoned) => self.after_panic(poisoned.into_inner()),
        }
    }

    /// Locks the history, if no other task works on it.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, FileHistory>> {
        match self.files.try_lock() {
            Ok(files) => Some(files),
            Err(TryLockError::Poisoned(poisoned)) => Some(self.after_panic(poisoned.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Works on it on a thread of its own: copying gigabytes must not hold up other sessions. An error says what went wrong in the host.
    pub(crate) async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut FileHistory) -> T + Send + 'static,
    ) -> Result<T, String> {
        let history = self.clone();
        let task = tokio::task::spawn_blocking(move || work(&mut history.lock()));
        task.await.map_err(|error| error.to_string())
    }

    /// Puts everything back as it was after `cell`, see [`FileHistory::restore_to`]. Returns what could not be put back, and whatever went
    /// wrong in the host.
    pub(crate) async fn restore_to(
        &self,
        cell: u64,
        dirty: Changes,
        busy: Vec<PathBuf>,
    ) -> Vec<String> {
        not_put_back(
            self.with(move |files| files.restore_to(cell, dirty, &busy))
                .await,
        )
    }

    fn after_panic<'a>(
        &self,
        mut files: MutexGuard<'a, FileHistory>,
    ) -> MutexGuard<'a, FileHistory> {
        files.note_damage();
        self.files.clear_poison();
        files
    }
}

fn not_put_back(outcome: Result<Vec<String>, String>) -> Vec<String> {
    outcome.unwrap_or_else(|problem| {
        vec![format!(
            "the files of the workspace: the host failed while it put them back ({problem})"
        )]
    })
}

#[cfg(test)]
#[path = "shared_history_tests.rs"]
mod tests;
