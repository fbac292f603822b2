//! What an owner drives: the live Python of a session, seen as little as possible.

use crate::names::{RequestKey, SessionId};
use crate::owner::RunError;
use crate::runtime::BoxFuture;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

/// A live interpreter. Dropping it ends it.
pub trait Interpreter: Send {
    /// Runs a cell and returns its result. A cell that fails has a result too.
    fn run<'a>(&'a mut self, key: &'a RequestKey, cell: &'a Value) -> BoxFuture<'a, Value>;

    /// Runs a recorded cell again, with the recorded answers of its tools. Returns in words how the new result differs from the recorded
    /// one, if it does.
    fn replay<'a>(
        &'a mut self,
        key: &'a RequestKey,
        cell: &'a Value,
        recorded: &'a Value,
    ) -> BoxFuture<'a, Result<(), String>>;

    /// Ends the rebuild: every recorded cell was passed to [`replay`](Interpreter::replay). `owners` counts the nodes that have had the
    /// session, this one included. Returns differences in words. An error means that the session cannot go on.
    fn finish_rebuild(&mut self, owners: u64) -> BoxFuture<'_, Result<Vec<String>, String>> {
        let _ = owners;
        Box::pin(async { Ok(Vec::new()) })
    }

    /// The records of what happens in the session by another way than [`run`](Interpreter::run), if there is such a way. Asked once.
    fn take_records(&mut self) -> Option<mpsc::Receiver<OwnRecord>> {
        None
    }

    /// Waits until nothing runs in the session. Until then its records are still committed.
    fn quiet(&self) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }
}

/// Something that happened in a session without a request of the gateway. It counts once it is in the journal.
#[derive(Debug)]
pub struct OwnRecord {
    /// The idempotency key.
    pub key: RequestKey,
    /// What is passed to [`Interpreter::replay`].
    pub cell: Value,
    /// The recorded result.
    pub result: Value,
    /// Hears when the record is in the journal, or why it is not.
    pub committed: oneshot::Sender<Result<(), RunError>>,
}

/// Starts interpreters.
pub trait Interpreters: Send + Sync {
    /// Starts an interpreter without variables. `about` is what the directory says about the session.
    fn open<'a>(
        &'a self,
        session: &'a SessionId,
        about: &'a Value,
    ) -> BoxFuture<'a, Result<Box<dyn Interpreter>, String>>;
}
