//! Code that a program of the host runs, with the same approval and limits as a call of the tool, and without JSON in between.

use super::ToolRunner;
use super::steps::CheckedCall;
use crate::builtin::execute;
use crate::call::ResultSlot;
use crate::names::{CODE_ARGUMENT, EXECUTE_PYTHON_CODE, TIMEOUT_ARGUMENT};
use crate::{Answer, Call, Caller, Failure, OnToolEvent, Output};
use cellblock_protocol::{Cell, CellResult};
use serde_json::{Map, Value};
use std::sync::{Arc, PoisonError};
use std::time::Instant;

/// The answer to a call, with the result of the cell as a value where the call ran one.
#[derive(Clone, Debug)]
pub struct CallOutcome {
    /// The answer to the call. Where a cell ran, its output has no structure: that is [`cell`](Self::cell).
    pub answer: Answer,
    /// The result of the cell, without pictures, which are attachments of the answer. `None` where no cell ran, such as when a person
    /// refused it.
    pub cell: Option<CellResult>,
}

impl ToolRunner {
    /// Runs a cell as [`ExecutePythonCodeTool`](crate::ExecutePythonCodeTool) does. Refused where the registry does not have that tool.
    ///
    /// Dropping the future interrupts the cell.
    pub async fn run_code(&self, cell: Cell, on_event: Option<OnToolEvent>) -> CallOutcome {
        let started = Instant::now();
        let slot = ResultSlot::default();
        let mut notes = Vec::new();
        let outcome = self.code_outcome(cell, on_event, &slot, &mut notes).await;
        let answer = Answer {
            id: String::new(),
            name: EXECUTE_PYTHON_CODE.to_owned(),
            outcome,
            notes,
            took: started.elapsed(),
        };
        CallOutcome::new(answer, &slot)
    }

    /// Calls a tool like [`call_with_events`](Self::call_with_events). Where that runs a cell, the result comes as a value.
    pub async fn call_typed(&self, call: Call, on_event: Option<OnToolEvent>) -> CallOutcome {
        let started = Instant::now();
        let slot = ResultSlot::default();
        let mut notes = Vec::new();
        let (id, name) = (call.id.clone(), call.name.clone());
        let result_slot = Some(Arc::clone(&slot));
        let outcome = self.outcome(call, on_event, result_slot, &mut notes).await;
        let answer = Answer {
            id,
            name,
            outcome,
            notes,
            took: started.elapsed(),
        };
        CallOutcome::new(answer, &slot)
    }

    async fn code_outcome(
        &self,
        cell: Cell,
        on_event: Option<OnToolEvent>,
        slot: &ResultSlot,
        notes: &mut Vec<String>,
    ) -> Result<Output, Failure> {
        let tool = Arc::clone(self.shared.registry.find(EXECUTE_PYTHON_CODE)?);
        let definition = &tool.definition;
        // Before anything that takes time, so that code runs in the order in which it came.
        let turn = Some(Arc::clone(&self.shared.interpreter).lock_owned().await);
        let (bytes, limit) = (cell.code.len(), self.shared.limits.max_bytes);
        if bytes > limit {
            return Err(Failure::TooLarge {
                tool: definition.name.clone(),
                what: "arguments",
                bytes,
                limit,
            });
        }
        let mut checked = CheckedCall {
            id: String::new(),
            caller: Caller::User,
            purpose: None,
            arguments: Map::new(),
        };
        let is_allowed = self
            .shared
            .approval
            .allows(&definition.name, definition.effects);
        if !is_allowed {
            // A person sees and edits arguments of the tool.
            checked.arguments = arguments_of(&cell);
            let checked = self
                .approve(&tool, checked, on_event.as_ref(), notes)
                .await?;
            let context = self.context(&checked, on_event, Some(Arc::clone(slot)));
            return self.run(&tool, checked, context, turn).await;
        }
        let context = self.context(&checked, on_event, Some(Arc::clone(slot)));
        let invocation = Box::pin(async move { execute(cell, &context).await });
        self.finish(&tool, invocation, turn).await
    }
}

impl CallOutcome {
    fn new(answer: Answer, slot: &ResultSlot) -> CallOutcome {
        let cell = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        CallOutcome { answer, cell }
    }
}

fn arguments_of(cell: &Cell) -> Map<String, Value> {
    let mut arguments = Map::new();
    arguments.insert(CODE_ARGUMENT.to_owned(), cell.code.as_str().into());
    if let Some(limit) = cell.timeout {
        arguments.insert(TIMEOUT_ARGUMENT.to_owned(), limit.as_secs_f64().into());
    }
    arguments
}
