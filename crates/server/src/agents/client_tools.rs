//! Tools of a run that the program answers which asked the question.
//!
//! A call is the event `tool_call` of the run. The program answers at `/v1/runs/{run}/tool_result`.

use super::live_run::{CurrentRun, LiveRun};
use crate::auth::random_id;
use crate::error::ApiError;
use cellblock_protocol::ClientToolSpec;
use cellblock_tools::{Context, DynamicTool, Output, ToolDefinition, ToolError, ToolFuture, Uses};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// How long a program may take for an answer. A program that went away does not keep its run for ever.
const MAX_CALL_TIME: Duration = Duration::from_secs(3600);

type ProgramAnswer = Result<Value, String>;

/// The calls of a run that wait for the program.
#[derive(Debug, Default)]
pub(crate) struct ToolCalls(Mutex<HashMap<String, oneshot::Sender<ProgramAnswer>>>);

impl ToolCalls {
    /// Answers a call.
    pub(crate) fn answer(&self, call: &str, answer: ProgramAnswer) -> Result<(), ApiError> {
        let waiting = self.lock().remove(call);
        let gone = || ApiError::not_found("call that waits for its result");
        waiting.ok_or_else(gone)?.send(answer).map_err(|_| gone())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, oneshot::Sender<ProgramAnswer>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A tool that the program answers.
pub(super) struct ClientTool {
    definition: ToolDefinition,
    current: CurrentRun,
}

impl ClientTool {
    /// Makes a tool from its description. The program asks for approvals of its own tools itself.
    pub(super) fn shared(tool: ClientToolSpec, current: &CurrentRun) -> Arc<dyn DynamicTool> {
        let ClientToolSpec { spec, changes } = tool;
        let mut definition = ToolDefinition::new(spec.name, spec.description, spec.parameters);
        definition.time_limit = Some(MAX_CALL_TIME);
        if changes {
            // No approval is needed here, but a trial of a reply must not make the call.
            definition.uses = Uses::State;
        }
        Arc::new(ClientTool {
            definition,
            current: current.clone(),
        })
    }
}

impl DynamicTool for ClientTool {
    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    fn invoke(self: Arc<Self>, arguments: Map<String, Value>, _: Context) -> ToolFuture {
        Box::pin(async move {
            let run = self.current.get();
            let run = run.ok_or_else(|| ToolError::new("no run is going on"))?;
            let answer = call(&run, &self.definition.name, arguments).await;
            match answer.map_err(ToolError::new)? {
                Value::String(text) => Ok(Output::text(text)),
                value => Ok(Output::json(value)),
            }
        })
    }
}

async fn call(run: &LiveRun, name: &str, arguments: Map<String, Value>) -> ProgramAnswer {
    let id = random_id("t").map_err(|error| error.message)?;
    let (sender, answer) = oneshot::channel();
    run.calls.lock().insert(id.clone(), sender);
    // A run that is cancelled drops this future: nothing waits any more.
    let _waiting = ForgottenOnDrop { run, id: &id };
    let told = json!({"call": id, "name": name, "arguments": arguments});
    run.tell("tool_call", told);
    match answer.await {
        Ok(answer) => answer,
        Err(_) => Err("the program cannot be asked any more".to_owned()),
    }
}

/// Forgets a call when dropped.
struct ForgottenOnDrop<'a> {
    run: &'a LiveRun,
    id: &'a str,
}

impl Drop for ForgottenOnDrop<'_> {
    fn drop(&mut self) {
        self.run.calls.lock().remove(self.id);
    }
}
