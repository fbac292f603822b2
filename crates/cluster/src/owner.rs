//! The owner of a session: claim, fence, read, rebuild, serve.
//!
//! This is the one place with the protocol that makes sessions safe. It holds over any engine:
//!
//! - A cell has happened once its record is in the journal, and [`Owner::run`] returns only then.
//! - A new owner appends first. From then on every append of an earlier owner conflicts, because each append names the last record.
//! - A key that is in the journal is answered from the journal.

use crate::engine::{ClaimError, Engine, Epoch, SessionEntry, SessionState};
use crate::interpreter::{Interpreter, Interpreters, OwnRecord};
use crate::message::Rebuilt;
use crate::names::{NodeId, RequestKey, SessionId};
use crate::record::{Damage, RecordBody};
use crate::runtime::Runtime;
use crate::writer::JournalWriter;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::mpsc;

/// How many differences of a rebuild are told in words.
const MAX_TOLD_DIFFERENCES: usize = 8;

/// What an owner needs of its surroundings.
#[derive(Clone)]
pub struct OwnerServices {
    /// The engine.
    pub engine: Engine,
    /// Clock and tasks.
    pub runtime: Arc<dyn Runtime>,
    /// Starts interpreters.
    pub interpreters: Arc<dyn Interpreters>,
}

/// Why a node did not become the owner.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdoptError {
    /// Another node claimed the session.
    #[error("another node claimed the session")]
    Lost,
    /// The engine did not do its part. The session may be claimed; the next adoption goes on from there.
    #[error("the engine failed: {0}")]
    Engine(String),
    /// The journal must not be replayed.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// No interpreter could be started.
    #[error("the interpreter did not start: {0}")]
    Interpreter(String),
}

/// Why a cell has not happened here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// Another owner appended to the journal. The variables here are worthless now.
    #[error("another node took the session")]
    Fenced,
    /// The record cannot be stored, so the cell must not have happened. The variables here are worthless now.
    #[error("the cell cannot be recorded: {0}")]
    Unrecordable(String),
}

/// A session on the node that owns it.
///
/// After an error of [`Owner::run`] the owner must be dropped: its interpreter has run a cell that never happened.
pub struct Owner {
    surroundings: OwnerServices,
    session: SessionId,
    entry: SessionEntry,
    journal: JournalWriter,
    answers: HashMap<RequestKey, Value>,
    interpreter: Box<dyn Interpreter>,
    rebuilt: Option<Rebuilt>,
}

impl Owner {
    /// Takes a session whose directory entry has the epoch `seen`. `about` is for a session that has no entry yet.
    pub async fn adopt(
        surroundings: OwnerServices,
        node: &NodeId,
        session: &SessionId,
        seen: Option<Epoch>,
        about: Value,
    ) -> Result<Owner, AdoptError> {
        let (entry, epoch) = claim(&surroundings.engine, node, session, seen, about).await?;
        let OwnerServices {
            engine, runtime, ..
        } = &surroundings;
        let journal = JournalWriter::fence(engine, runtime, node, session, epoch).await?;
        let records = journal.read().await?;

        let opened = surroundings.interpreters.open(session, &entry.about).await;
        let mut interpreter = opened.map_err(AdoptError::Interpreter)?;
        let mut answers = HashMap::new();
        let mut rebuilt = Rebuilt::default();
        let mut owners = 0;
        for body in records {
            let RecordBody::Cell { key, cell, result } = body else {
                owners += 1;
                continue;
            };
            rebuilt.cells += 1;
            if let Err(difference) = interpreter.replay(&key, &cell, &result).await {
                tell(&mut rebuilt, difference);
            }
            answers.insert(key, result);
        }
        let finished = interpreter.finish_rebuild(owners).await;
        for difference in finished.map_err(AdoptError::Interpreter)? {
            tell(&mut rebuilt, difference);
        }
        Ok(Owner {
            session: session.clone(),
            entry,
            journal,
            answers,
            interpreter,
            rebuilt: (rebuilt.cells > 0).then_some(rebuilt),
            surroundings,
        })
    }

    /// The session.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// The number of this ownership.
    pub fn epoch(&self) -> Epoch {
        self.journal.epoch()
    }

    /// The result of a cell that has happened under this key.
    pub fn recorded(&self, key: &RequestKey) -> Option<&Value> {
        self.answers.get(key)
    }

    /// How the session was rebuilt. Told once.
    pub fn take_rebuilt(&mut self) -> Option<Rebuilt> {
        self.rebuilt.take()
    }

    /// Runs a cell and returns once it has happened. A key that is recorded does not run again.
    pub async fn run(&mut self, key: &RequestKey, cell: &Value) -> Result<Value, RunError> {
        if let Some(result) = self.recorded(key) {
            return Ok(result.clone());
        }
        let result = self.interpreter.run(key, cell).await;
        let body = RecordBody::Cell {
            key: key.clone(),
            cell: cell.clone(),
            result: result.clone(),
        };
        self.journal.append(body).await?;
        self.answers.insert(key.clone(), result.clone());
        Ok(result)
    }

    /// What the directory says about the session.
    pub(crate) fn entry(&self) -> &SessionEntry {
        &self.entry
    }

    /// The records that the interpreter makes by itself, if it does.
    pub(crate) fn take_records(&mut self) -> Option<mpsc::Receiver<OwnRecord>> {
        self.interpreter.take_records()
    }

    /// Waits until nothing runs in the interpreter.
    pub(crate) fn quiet(&self) -> crate::runtime::BoxFuture<'static, ()> {
        self.interpreter.quiet()
    }

    /// Commits what happened in the interpreter without a request. After an error the owner must be dropped.
    pub(crate) async fn commit_own(&mut self, record: OwnRecord) -> Result<(), RunError> {
        let OwnRecord {
            key,
            cell,
            result,
            committed,
        } = record;
        self.answers.insert(key.clone(), result.clone());
        let body = RecordBody::Cell { key, cell, result };
        let outcome = self.journal.append(body).await;
        let _ = committed.send(outcome.clone());
        outcome
    }

    /// Changes what the directory says about the session. The session's epoch is another one then.
    pub(crate) async fn describe(&mut self, about: Value) -> Result<Epoch, ClaimError> {
        let entry = SessionEntry {
            about,
            ..self.entry.clone()
        };
        let directory = &self.surroundings.engine.directory;
        let epoch = directory
            .claim(&self.session, Some(self.epoch()), &entry)
            .await?;
        self.journal.set_epoch(epoch);
        self.entry = entry;
        Ok(epoch)
    }
}

fn tell(rebuilt: &mut Rebuilt, difference: String) {
    rebuilt.different += 1;
    if rebuilt.differences.len() < MAX_TOLD_DIFFERENCES {
        rebuilt.differences.push(difference);
    }
}

async fn claim(
    engine: &Engine,
    node: &NodeId,
    session: &SessionId,
    seen: Option<Epoch>,
    about: Value,
) -> Result<(SessionEntry, Epoch), AdoptError> {
    let about = match seen {
        None => about,
        Some(seen) => match engine.directory.get(session).await {
            Ok(Some(placed)) if placed.epoch == seen => placed.entry.about,
            Ok(_) => return Err(AdoptError::Lost),
            Err(error) => return Err(AdoptError::Engine(error.to_string())),
        },
    };
    let entry = SessionEntry {
        node: node.clone(),
        state: SessionState::Live,
        about,
    };
    match engine.directory.claim(session, seen, &entry).await {
        Ok(epoch) => Ok((entry, epoch)),
        Err(ClaimError::Lost) => Err(AdoptError::Lost),
        Err(ClaimError::Unknown(error)) => match engine.directory.get(session).await {
            // A node adopts a session once at a time, so an entry with its id that is newer than `seen` is from this claim.
            Ok(Some(placed)) if placed.entry == entry && Some(placed.epoch) > seen => {
                Ok((entry, placed.epoch))
            }
            Ok(_) | Err(_) => Err(AdoptError::Engine(error)),
        },
    }
}
