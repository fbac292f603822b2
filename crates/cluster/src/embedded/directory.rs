//! The directories of sessions and of runs: a map and a log file each.

use super::log::Log;
use crate::engine::{
    ClaimError, Directory, DirectoryReader, EngineError, Epoch, Followed, Placed, SessionEntry,
};
use crate::lock::lock;
use crate::names::SessionId;
use crate::runtime::BoxFuture;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use tokio::sync::mpsc;

/// The directory of one machine.
pub(super) struct LocalDirectory {
    state: Mutex<LocalClaims>,
}

struct LocalClaims {
    log: Log<Claim>,
    entries: BTreeMap<SessionId, Placed>,
    epoch: Epoch,
    readers: Vec<mpsc::UnboundedSender<Followed>>,
}

/// A line of the log. Without an entry, it says that the entry was removed.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Claim {
    session: SessionId,
    epoch: Epoch,
    entry: Option<SessionEntry>,
}

impl LocalDirectory {
    pub(super) fn in_memory() -> LocalDirectory {
        LocalDirectory::new(Log::in_memory(), Vec::new())
    }

    pub(super) fn open(path: &Path) -> Result<LocalDirectory, EngineError> {
        let (log, claims) = Log::open(path)?;
        Ok(LocalDirectory::new(log, claims))
    }

    fn new(log: Log<Claim>, claims: Vec<Claim>) -> LocalDirectory {
        let mut state = LocalClaims {
            log,
            entries: BTreeMap::new(),
            epoch: Epoch(0),
            readers: Vec::new(),
        };
        for claim in claims {
            state.note(claim);
        }
        LocalDirectory {
            state: Mutex::new(state),
        }
    }
}

impl LocalClaims {
    fn note(&mut self, claim: Claim) {
        let change = changed(&claim.session, claim.epoch, claim.entry.as_ref());
        let is_open = |reader: &mut mpsc::UnboundedSender<_>| reader.send(change.clone()).is_ok();
        self.readers.retain_mut(is_open);
        self.epoch = self.epoch.max(claim.epoch);
        match claim.entry {
            Some(entry) => {
                let epoch = claim.epoch;
                self.entries.insert(claim.session, Placed { entry, epoch });
            }
            None => {
                self.entries.remove(&claim.session);
            }
        }
    }

    fn write(
        &mut self,
        session: &SessionId,
        entry: Option<SessionEntry>,
    ) -> Result<Epoch, EngineError> {
        let epoch = Epoch(self.epoch.0 + 1);
        let claim = Claim {
            session: session.clone(),
            epoch,
            entry,
        };
        self.log.append(claim.clone())?;
        self.note(claim);
        Ok(epoch)
    }

    fn claim(
        &mut self,
        session: &SessionId,
        seen: Option<Epoch>,
        entry: &SessionEntry,
    ) -> Result<Epoch, ClaimError> {
        if self.entries.get(session).map(|placed| placed.epoch) != seen {
            return Err(ClaimError::Lost);
        }
        let written = self.write(session, Some(entry.clone()));
        written.map_err(|error| ClaimError::Unknown(error.to_string()))
    }
}

impl Directory for LocalDirectory {
    fn claim<'a>(
        &'a self,
        session: &'a SessionId,
        seen: Option<Epoch>,
        entry: &'a SessionEntry,
    ) -> BoxFuture<'a, Result<Epoch, ClaimError>> {
        // The file is synced here, on the caller's thread: sessions start and move seldom.
        Box::pin(async move { lock(&self.state).claim(session, seen, entry) })
    }

    fn get<'a>(
        &'a self,
        session: &'a SessionId,
    ) -> BoxFuture<'a, Result<Option<Placed>, EngineError>> {
        Box::pin(async move { Ok(lock(&self.state).entries.get(session).cloned()) })
    }

    fn remove<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<(), EngineError>> {
        Box::pin(async move { lock(&self.state).write(session, None).map(drop) })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<(SessionId, Placed)>, EngineError>> {
        Box::pin(async move {
            let state = lock(&self.state);
            let copy = |(session, placed): (&SessionId, &Placed)| (session.clone(), placed.clone());
            Ok(state.entries.iter().map(copy).collect())
        })
    }

    fn follow(&self) -> BoxFuture<'_, Result<Box<dyn DirectoryReader>, EngineError>> {
        Box::pin(async move {
            let (sender, changes) = mpsc::unbounded_channel();
            let mut state = lock(&self.state);
            let mut entries: Vec<_> = state.entries.iter().collect();
            entries.sort_by_key(|(_, placed)| placed.epoch);
            let entries = entries
                .into_iter()
                .map(|(session, placed)| changed(session, placed.epoch, Some(&placed.entry)));
            for told in entries.chain([Followed::Current]) {
                let _ = sender.send(told);
            }
            state.readers.push(sender);
            Ok(Box::new(LocalReader { changes }) as Box<dyn DirectoryReader>)
        })
    }
}

fn changed(session: &SessionId, epoch: Epoch, entry: Option<&SessionEntry>) -> Followed {
    Followed::Changed {
        id: session.clone(),
        epoch,
        entry: entry.cloned(),
    }
}

struct LocalReader {
    changes: mpsc::UnboundedReceiver<Followed>,
}

impl DirectoryReader for LocalReader {
    fn next(&mut self) -> BoxFuture<'_, Result<Followed, EngineError>> {
        Box::pin(async move {
            let next = self.changes.recv().await;
            next.ok_or_else(|| EngineError("the directory is closed".to_owned()))
        })
    }
}
