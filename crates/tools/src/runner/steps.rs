//! The steps of a call: the check of its arguments, its approval, its run, the check of its result.

use super::ToolRunner;
use crate::call::{ResultSlot, take_purpose};
use crate::registry::RegisteredTool;
use crate::{
    ApprovalRequest, Call, Caller, Context, Effects, Failure, OnToolEvent, Output, PURPOSE_FIELD,
    Permission, ToolError, ToolEvent, ToolFuture,
};
use serde_json::{Map, Value};
use std::any::Any;
use std::sync::Arc;
use tokio::sync::OwnedMutexGuard;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::Instrument as _;

/// A call whose arguments fit to the tool's schema.
#[derive(Clone, Debug)]
pub(super) struct CheckedCall {
    pub(super) id: String,
    pub(super) caller: Caller,
    pub(super) purpose: Option<String>,
    pub(super) arguments: Map<String, Value>,
}

impl ToolRunner {
    /// Checks the size, the purpose and the arguments of a call.
    pub(super) fn check(&self, tool: &RegisteredTool, call: Call) -> Result<CheckedCall, Failure> {
        let name = &tool.definition.name;
        let max_bytes = self.shared.limits.max_bytes;
        let mut arguments = call.arguments.read(name, max_bytes)?;
        let (purpose, purpose_problem) = match take_purpose(&mut arguments) {
            Some(Value::String(text)) => (Some(text), None),
            None | Some(Value::Null) if call.caller != Caller::Model => (None, None),
            None | Some(Value::Null) => (
                None,
                Some(format!(
                    "missing field `{PURPOSE_FIELD}`: expected a text that says why you call"
                )),
            ),
            Some(other) => (Some(other.to_string()), None),
        };
        let checked = tool.arguments.check_arguments(arguments);
        let problems = match (checked, purpose_problem) {
            (Ok(arguments), None) => {
                return Ok(CheckedCall {
                    id: call.id,
                    caller: call.caller,
                    purpose,
                    arguments,
                });
            }
            (Ok(_), Some(problem)) => problem,
            (Err(problems), None) => problems,
            (Err(problems), Some(problem)) => format!("{problem}; {problems}"),
        };
        Err(Failure::Invalid {
            tool: name.clone(),
            problems,
        })
    }

    /// Asks a person where the policy says so. Arguments that the person edited are checked like those of a
    /// model.
    pub(super) async fn approve(
        &self,
        tool: &RegisteredTool,
        mut checked: CheckedCall,
        on_event: Option<&OnToolEvent>,
        notes: &mut Vec<String>,
    ) -> Result<CheckedCall, Failure> {
        let definition = &tool.definition;
        let approval = &self.shared.approval;
        if approval.allows(&definition.name, definition.effects) {
            return Ok(checked);
        }
        let request = ApprovalRequest {
            tool: definition.name.clone(),
            purpose: checked.purpose.clone(),
            arguments: checked.arguments.clone(),
            effects: definition.effects,
            caller: checked.caller,
        };
        if let Some(on_event) = on_event
            && approval.will_ask(&request)
        {
            on_event(ToolEvent::AwaitingApproval {
                tool: request.tool.clone(),
            });
        }
        match approval.permit(request).await? {
            Permission::Granted => Ok(checked),
            Permission::Edited(arguments) => {
                let arguments = tool.arguments.check_arguments(arguments);
                checked.arguments = arguments.map_err(|problems| Failure::Invalid {
                    tool: definition.name.clone(),
                    problems: format!("{problems} (in what the user edited)"),
                })?;
                notes.push(edit_note(tool, &checked));
                Ok(checked)
            }
        }
    }

    /// Runs the tool on a task of its own: a tool that panics or blocks its thread harms no other.
    pub(super) async fn run(
        &self,
        tool: &RegisteredTool,
        checked: CheckedCall,
        context: Context,
        turn: Option<OwnedMutexGuard<()>>,
    ) -> Result<Output, Failure> {
        let invocation = Arc::clone(&tool.tool).invoke(checked.arguments, context);
        self.finish(tool, invocation, turn).await
    }

    /// What the tool knows of a call.
    pub(super) fn context(
        &self,
        checked: &CheckedCall,
        on_event: Option<OnToolEvent>,
        result_slot: Option<ResultSlot>,
    ) -> Context {
        Context {
            call: checked.id.as_str().into(),
            caller: checked.caller,
            purpose: checked.purpose.as_deref().map(Into::into),
            runner: self.clone(),
            on_event,
            result_slot,
        }
    }

    /// Waits for a call that was made, up to the tool's time limit, and checks its result.
    pub(super) async fn finish(
        &self,
        tool: &RegisteredTool,
        invocation: ToolFuture,
        turn: Option<OwnedMutexGuard<()>>,
    ) -> Result<Output, Failure> {
        let name = &tool.definition.name;
        let default_limit = self.shared.limits.time_limit;
        let limit = tool.definition.time_limit.unwrap_or(default_limit);
        let call = async move {
            // Held until the call has really ended, also when its answer is not waited for any more.
            let _turn = turn;
            invocation.await
        };
        let mut task = AbortOnDrop(tokio::spawn(call.in_current_span()));
        let ended = timeout(limit, &mut task.0).await;
        let result: Result<Output, ToolError> = match ended {
            Err(_) => {
                return Err(Failure::TimedOut {
                    tool: name.clone(),
                    limit,
                });
            }
            Ok(Err(error)) if error.is_panic() => {
                return Err(Failure::Panicked {
                    tool: name.clone(),
                    message: panic_message(error.into_panic()),
                });
            }
            // The async runtime is shutting down.
            Ok(Err(_)) => return Err(Failure::Cancelled { tool: name.clone() }),
            Ok(Ok(result)) => result,
        };
        let output = result.map_err(|error| Failure::Failed(error.into_message()))?;
        self.check_output(tool, output)
    }

    /// Checks the size of a result, and its JSON value against the schema.
    fn check_output(&self, tool: &RegisteredTool, output: Output) -> Result<Output, Failure> {
        let name = &tool.definition.name;
        let (bytes, limit) = (output.size(), self.shared.limits.max_bytes);
        if bytes > limit {
            return Err(Failure::TooLarge {
                tool: name.clone(),
                what: "result",
                bytes,
                limit,
            });
        }
        if let (Some(checker), Some(value)) = (&tool.result, &output.structured) {
            checker
                .check(value)
                .map_err(|problems| Failure::BadResult {
                    tool: name.clone(),
                    problems,
                })?;
        }
        Ok(output)
    }
}

/// The note that tells the model what ran instead of its call.
fn edit_note(tool: &RegisteredTool, checked: &CheckedCall) -> String {
    let code = match tool.definition.effects {
        Effects::Code { argument } => checked.arguments.get(argument).and_then(Value::as_str),
        _ => None,
    };
    match code {
        Some(code) => {
            format!("Note: the user edited the code before it ran. This ran instead:\n{code}")
        }
        None => {
            let name = &tool.definition.name;
            let arguments = Value::Object(checked.arguments.clone());
            format!(
                "Note: the user edited this call of {name} before it ran. It ran with: {arguments}"
            )
        }
    }
}

/// A task that is aborted when the handle is dropped.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn panic_message(panic: Box<dyn Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => match panic.downcast::<&'static str>() {
            Ok(text) => (*text).to_owned(),
            Err(_) => "it panicked without a message".to_owned(),
        },
    }
}
