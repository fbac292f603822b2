//! Directories of the user's that sessions own while they work in them.
//!
//! Where there are no namespaces nothing maps owners, and sessions of root's run as another user. So that they can write to a directory of
//! the user's it is theirs for that time. Then it is given back, with all that they made in it; after a crash, by the next host that starts.

use crate::actor::Actor;
use cellblock_sandbox::{Access, Budget, Closed, Confined, Step};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fs, io};

/// What is given back at most.
const EVERYTHING: Budget = Budget {
    entries: 1_000_000,
    text: 1 << 30,
    closed: Closed::Stays,
};

/// Where a session notes what it borrowed, in its own directory.
const NOTE: &str = "borrowed";

/// What is lent at the moment.
#[derive(Debug, Default)]
pub(crate) struct Loans {
    open: Mutex<HashMap<PathBuf, Open>>,
}

#[derive(Debug)]
struct Open {
    note: Note,
    sessions: usize,
}

/// What must be known to give something back.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Note {
    path: PathBuf,
    borrower: u32,
    owner: u32,
    group: u32,
}

/// One session's part in it. Dropping the last gives the directory back.
#[derive(Debug)]
pub(crate) struct Loan {
    loans: Arc<Loans>,
    path: PathBuf,
}

impl Loans {
    /// Makes `path` the borrower's; `session` is the directory of the session that works in it.
    pub(crate) fn lend(
        self: &Arc<Self>,
        path: &Path,
        borrower: u32,
        session: &Path,
    ) -> io::Result<Loan> {
        let mut open = self.lock();
        let note = match open.get(path) {
            Some(open) => open.note.clone(),
            None => {
                let metadata = fs::metadata(path)?;
                Note {
                    path: path.to_owned(),
                    borrower,
                    owner: metadata.uid(),
                    group: metadata.gid(),
                }
            }
        };
        // First the note: whoever dies in between has given nothing away that is not written down.
        fs::write(session.join(NOTE), serde_json::to_vec(&note)?)?;
        chown(path, Some(borrower), Some(borrower))?;
        open.entry(path.to_owned())
            .or_insert(Open { note, sessions: 0 })
            .sessions += 1;
        Ok(Loan {
            loans: Arc::clone(self),
            path: path.to_owned(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let mut open = self.loans.lock();
        let is_last = open.get_mut(&self.path).is_some_and(|open| {
            open.sessions -= 1;
            open.sessions == 0
        });
        if is_last && let Some(Open { note, .. }) = open.remove(&self.path) {
            note.give_back();
        }
    }
}

/// Gives back what the session of this directory had borrowed, whose host is dead.
pub(crate) fn give_back_for(session: &Path) {
    let note = fs::read(session.join(NOTE))
        .ok()
        .and_then(|bytes| serde_json::from_slice::<Note>(&bytes).ok());
    if let Some(note) = note {
        note.give_back();
    }
}

impl Note {
    /// Only what the borrower owns: nothing else has changed hands.
    fn give_back(&self) {
        let Ok(directory) = Confined::open(&self.path) else {
            return;
        };
        let mut theirs = Vec::new();
        directory.walk(Path::new(""), &mut EVERYTHING.clone(), &mut |step| {
            if let Step::Finds(path, stat) = step
                && stat.st_uid == self.borrower
            {
                theirs.push((path.to_owned(), stat.st_mode & 0o7777));
            }
        });
        for (path, mode) in theirs {
            let access = Access {
                owner: self.owner,
                group: self.group,
                mode,
            };
            let _ = directory.set_access(&path, access);
        }
        if fs::metadata(&self.path).is_ok_and(|found| found.uid() == self.borrower) {
            let _ = chown(&self.path, Some(self.owner), Some(self.group));
        }
    }
}

impl Actor {
    /// The session is over: what it borrowed goes back.
    pub(crate) async fn end_loan(&mut self) {
        if let Some(loan) = self.loan.take() {
            let _ = tokio::task::spawn_blocking(move || drop(loan)).await;
        }
    }
}
