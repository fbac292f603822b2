//! Code that a program of the host runs, with the same approval and limits as a call of the tool, and without JSON in between.

use super::Workbench;
use super::checking::Checked;
use crate::builtin::execute;
use crate::context::ResultSlot;
use crate::names::{CODE_ARGUMENT, EXECUTE_PYTHON_CODE, TIMEOUT_ARGUMENT};
use crate::{Answer, Call, Caller, Failure, Output, Watcher};
use cellblock_protocol::{Cell, CellResult};
use serde_json::{Map, Value};
use std::sync::{Arc, PoisonError};
use std::time::Instant;

/// The answer to code, with the result of the cell as a value.
#[derive(Clone, Debug)]
pub struct CodeAnswer {
    /// The answer to the call. Its output has no structure: that is [`result`](Self::result).
    pub answer: Answer,
    /// The result of the cell, without pictures, which are attachments of the answer. `None` where no cell ran, such as when a person
    /// refused it.
    pub result: Option<CellResult>,
}

impl Workbench {
    /// Runs a cell as [`ExecutePythonCodeTool`](crate::ExecutePythonCodeTool) does. Refused where the registry does not have that tool.
    ///
    /// Dropping the future interrupts the cell.
    pub async fn run_code(&self, cell: Cell, watcher: Option<Watcher>) -> CodeAnswer {
        let started = Instant::now();
        let slot = ResultSlot::default();
        let mut notes = Vec::new();
        let outcome = self.code_outcome(cell, watcher, &slot, &mut notes).await;
        let answer = Answer {
            id: String::new(),
            name: EXECUTE_PYTHON_CODE.to_owned(),
            outcome,
            notes,
            took: started.elapsed(),
        };
        CodeAnswer::new(answer, &slot)
    }

    /// Calls a tool like [`call_watched`](Self::call_watched). Where that runs a cell, the result comes as a value.
    pub async fn call_code(&self, call: Call, watcher: Option<Watcher>) -> CodeAnswer {
        let started = Instant::now();
        let slot = ResultSlot::default();
        let mut notes = Vec::new();
        let (id, name) = (call.id.clone(), call.name.clone());
        let results = Some(Arc::clone(&slot));
        let outcome = self.outcome(call, watcher, results, &mut notes).await;
        let answer = Answer {
            id,
            name,
            outcome,
            notes,
            took: started.elapsed(),
        };
        CodeAnswer::new(answer, &slot)
    }

    async fn code_outcome(
        &self,
        cell: Cell,
        watcher: Option<Watcher>,
        slot: &ResultSlot,
        notes: &mut Vec<String>,
    ) -> Result<Output, Failure> {
        let entry = Arc::clone(self.inner.registry.entry(EXECUTE_PYTHON_CODE)?);
        let definition = &entry.definition;
        // Before anything that takes time, so that code runs in the order in which it came.
        let turn = Some(Arc::clone(&self.inner.interpreter).lock_owned().await);
        let (bytes, limit) = (cell.code.len(), self.inner.limits.bytes);
        if bytes > limit {
            return Err(Failure::TooLarge {
                tool: definition.name.clone(),
                what: "arguments",
                bytes,
                limit,
            });
        }
        let mut checked = Checked {
            id: String::new(),
            caller: Caller::User,
            purpose: None,
            arguments: Map::new(),
        };
        let is_allowed = self
            .inner
            .approval
            .allows(&definition.name, definition.effects);
        if !is_allowed {
            // A person sees and edits arguments of the tool.
            checked.arguments = arguments_of(&cell);
            let checked = self
                .approve(&entry, checked, watcher.as_ref(), notes)
                .await?;
            let context = self.context(&checked, watcher, Some(Arc::clone(slot)));
            return self.run(&entry, checked, context, turn).await;
        }
        let context = self.context(&checked, watcher, Some(Arc::clone(slot)));
        let invocation = Box::pin(async move { execute(cell, &context).await });
        self.finish(&entry, invocation, turn).await
    }
}

impl CodeAnswer {
    fn new(answer: Answer, slot: &ResultSlot) -> CodeAnswer {
        let result = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        CodeAnswer { answer, result }
    }
}

fn arguments_of(cell: &Cell) -> Map<String, Value> {
    let mut arguments = Map::new();
    arguments.insert(CODE_ARGUMENT.to_owned(), cell.code.as_str().into());
    if let Some(seconds) = cell.timeout {
        arguments.insert(TIMEOUT_ARGUMENT.to_owned(), seconds.into());
    }
    arguments
}
