//! What an owner drives: the live Python of a session, seen as little as possible.

use crate::names::{RequestKey, SessionId};
use crate::runtime::BoxFuture;
use serde_json::Value;

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
}

/// Starts interpreters.
pub trait Interpreters: Send + Sync {
    /// Starts an interpreter without variables.
    fn open<'a>(
        &'a self,
        session: &'a SessionId,
    ) -> BoxFuture<'a, Result<Box<dyn Interpreter>, String>>;
}
