//! A call while it is made.

use super::Workbench;
use super::checking::Checked;
use crate::context::ResultSlot;
use crate::registry::Entry;
use crate::{Context, Failure, Invocation, Output, ToolError, Watcher};
use std::any::Any;
use std::sync::Arc;
use tokio::sync::OwnedMutexGuard;
use tokio::task::JoinHandle;
use tokio::time::timeout;

impl Workbench {
    /// Runs the tool on a task of its own: one that panics or blocks its thread harms no other.
    pub(super) async fn run(
        &self,
        entry: &Entry,
        checked: Checked,
        context: Context,
        turn: Option<OwnedMutexGuard<()>>,
    ) -> Result<Output, Failure> {
        let invocation = Arc::clone(&entry.tool).invoke(checked.arguments, context);
        self.finish(entry, invocation, turn).await
    }

    /// What a tool knows of a call.
    pub(super) fn context(
        &self,
        checked: &Checked,
        watcher: Option<Watcher>,
        results: Option<ResultSlot>,
    ) -> Context {
        Context {
            call: checked.id.as_str().into(),
            caller: checked.caller,
            purpose: checked.purpose.as_deref().map(Into::into),
            workbench: self.clone(),
            watcher,
            results,
        }
    }

    /// Waits for a call that is being made, up to the tool's time limit.
    pub(super) async fn finish(
        &self,
        entry: &Entry,
        invocation: Invocation,
        turn: Option<OwnedMutexGuard<()>>,
    ) -> Result<Output, Failure> {
        let tool = &entry.definition.name;
        let limit = entry
            .definition
            .time_limit
            .unwrap_or(self.inner.limits.time);
        let mut task = AbortOnDrop(tokio::spawn(async move {
            // Until the call has really ended, also when nobody waits for it any more.
            let _turn = turn;
            invocation.await
        }));
        let ended = timeout(limit, &mut task.0).await;
        let result: Result<Output, ToolError> = match ended {
            Err(_) => {
                return Err(Failure::TimedOut {
                    tool: tool.clone(),
                    limit,
                });
            }
            Ok(Err(error)) if error.is_panic() => {
                return Err(Failure::Panicked {
                    tool: tool.clone(),
                    message: words_of_panic(error.into_panic()),
                });
            }
            // The async runtime is shutting down.
            Ok(Err(_)) => return Err(Failure::Cancelled { tool: tool.clone() }),
            Ok(Ok(result)) => result,
        };
        let output = result.map_err(|error| Failure::Failed(error.into_message()))?;
        self.accept(entry, output)
    }

    /// A result is checked as arguments are.
    fn accept(&self, entry: &Entry, output: Output) -> Result<Output, Failure> {
        let tool = &entry.definition.name;
        let (bytes, limit) = (output.size(), self.inner.limits.bytes);
        if bytes > limit {
            return Err(Failure::TooLarge {
                tool: tool.clone(),
                what: "result",
                bytes,
                limit,
            });
        }
        if let (Some(checker), Some(value)) = (&entry.result, &output.structured) {
            checker
                .check(value)
                .map_err(|problems| Failure::BadResult {
                    tool: tool.clone(),
                    problems,
                })?;
        }
        Ok(output)
    }
}

/// A task that ends with whoever waits for it.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn words_of_panic(panic: Box<dyn Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => match panic.downcast::<&'static str>() {
            Ok(text) => (*text).to_owned(),
            Err(_) => "it panicked without a message".to_owned(),
        },
    }
}
