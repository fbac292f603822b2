//! Directories of the user's that sessions own while they work in them.
//!
//! Where there are no namespaces nothing maps owners, and sessions of root's run as another user. So that they can write to a directory of
//! the user's it is theirs for that time. Then it is given back, with all that they made in it; after a crash, by the next host that starts.

use cellblock_sandbox::{
    Access, Budget, Closed, Confined, Links, WalkStep, is_session_id, private_file,
};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most entries of a directory that are given back.
const EVERYTHING: Budget = Budget {
    entries: 1_000_000,
    text: 1 << 30,
    closed: Closed::Stays,
};

/// The file in the session's own directory that names what it borrowed.
const NOTE: &str = "borrowed";

/// The directories that sessions own at the moment.
#[derive(Debug, Default)]
pub(crate) struct BorrowedDirectories {
    open: Mutex<HashMap<PathBuf, BorrowedRecord>>,
}

#[derive(Debug)]
struct BorrowedRecord {
    note: Note,
    sessions: usize,
}

/// The facts that are needed to give a directory back.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Note {
    path: PathBuf,
    borrower: u32,
    owner: u32,
    group: u32,
}

/// One session's share in a borrowed directory. Dropping the last share gives the directory back.
#[derive(Debug)]
pub(crate) struct BorrowedDirectory {
    borrowed_directories: Arc<BorrowedDirectories>,
    path: PathBuf,
}

impl BorrowedDirectories {
    /// Makes a directory at `path` the borrower's; `session` is the directory of the session that works in it.
    pub(crate) fn lend(
        self: &Arc<Self>,
        path: &Path,
        directory: &Confined,
        borrower: u32,
        session: &Path,
    ) -> io::Result<BorrowedDirectory> {
        let mut open = self.lock();
        let note = match open.get(path) {
            Some(open) if open.note.borrower != borrower => {
                return Err(io::Error::other(
                    "another session works in this directory, and on its file system only one user can: use a directory of another file system, such as a volume",
                ));
            }
            Some(open) => open.note.clone(),
            None => {
                let found = directory.own_stat()?;
                Note {
                    path: path.to_owned(),
                    borrower,
                    owner: found.st_uid,
                    group: found.st_gid,
                }
            }
        };
        // The note comes first: a host that dies in between has handed out nothing that is not recorded.
        let place = session.join(NOTE);
        // There is one already when the session's processes are made for the second time.
        let _ = std::fs::remove_file(&place);
        private_file(&place)?.write_all(&serde_json::to_vec(&note)?)?;
        directory.give_to(borrower, borrower)?;
        open.entry(path.to_owned())
            .or_insert(BorrowedRecord { note, sessions: 0 })
            .sessions += 1;
        Ok(BorrowedDirectory {
            borrowed_directories: Arc::clone(self),
            path: path.to_owned(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, BorrowedRecord>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for BorrowedDirectory {
    fn drop(&mut self) {
        let mut open = self.borrowed_directories.lock();
        let is_last = open.get_mut(&self.path).is_some_and(|open| {
            open.sessions -= 1;
            open.sessions == 0
        });
        if is_last && let Some(BorrowedRecord { note, .. }) = open.remove(&self.path) {
            note.give_back();
        }
    }
}

/// Gives back what the session of this directory had borrowed, whose host is dead.
pub(crate) fn give_back_for(session: &Path) {
    /// The longest note.
    const MAX_NOTE_BYTES: u64 = 64 << 10;
    let read = || -> io::Result<Note> {
        let entry = Confined::open(session)?.find(Path::new(NOTE), Links::AreNotFollowed)?;
        // Files change hands by what stands there: only this user can have written it.
        let is_own = entry.stat().st_uid == rustix::process::geteuid().as_raw();
        if !is_own || entry.stat().st_mode & 0o022 != 0 {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let mut text = Vec::new();
        entry.read()?.take(MAX_NOTE_BYTES).read_to_end(&mut text)?;
        Ok(serde_json::from_slice(&text)?)
    };
    // The host that is dead had other ids than this one.
    if let Some(note) = read().ok().filter(|note| is_session_id(note.borrower)) {
        note.give_back();
    }
}

impl Note {
    /// Only what the borrower owns: nothing else has changed hands.
    fn give_back(&self) {
        let Ok(directory) = Confined::open_real(&self.path) else {
            return;
        };
        let mut theirs = Vec::new();
        directory.walk(Path::new(""), &mut EVERYTHING.clone(), &mut |step| {
            if let WalkStep::Finds(path, stat) = step
                && stat.st_uid == self.borrower
            {
                theirs.push(path.to_owned());
            }
        });
        for path in theirs {
            // Another session of the same borrower may be at work there, and have put something else under the name.
            if let Ok(entry) = directory.find(&path, Links::AreNotFollowed)
                && entry.stat().st_uid == self.borrower
            {
                let _ = entry.set_access(Access {
                    owner: self.owner,
                    group: self.group,
                    ..Access::of(entry.stat())
                });
            }
        }
        if directory
            .own_stat()
            .is_ok_and(|found| found.st_uid == self.borrower)
        {
            let _ = directory.give_to(self.owner, self.group);
        }
    }
}
