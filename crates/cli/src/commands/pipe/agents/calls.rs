//! The calls of an agent's run that the client answers: tools and approvals.

use crate::commands::pipe::output::Writer;
use cellblock::ClientToolSpec;
use cellblock::pipe::{ApprovalsBy, Approved, RequestId, Response};
use cellblock::tools::{
    ApprovalRequest, Approver, Context, Decision, DecisionFuture, DynamicTool, Effects,
    NO_TIME_LIMIT, Output, ToolDefinition, ToolError, ToolFuture, Uses,
};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// The calls of one run that wait for the client. Cheap to clone: clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct ClientCalls {
    name: String,
    writer: Writer,
    state: Arc<Mutex<PendingCalls>>,
}

#[derive(Debug, Default)]
struct PendingCalls {
    /// The request that the run answers now: events carry its id.
    request: Option<RequestId>,
    next: u64,
    waiting: HashMap<String, WaitingCall>,
    /// Why no call can be answered any more.
    end: Option<String>,
}

#[derive(Debug)]
enum WaitingCall {
    Tool(oneshot::Sender<Result<Value, String>>),
    Approval(oneshot::Sender<Decision>),
}

impl WaitingCall {
    fn operation(&self) -> &'static str {
        match self {
            WaitingCall::Tool(_) => "`tool_result`",
            WaitingCall::Approval(_) => "`approve`",
        }
    }
}

/// The answer of the client.
#[derive(Debug)]
pub(crate) enum ClientAnswer {
    Tool(Result<Value, String>),
    Approval(Approved),
}

impl ClientCalls {
    pub(crate) fn new(name: &str, writer: Writer) -> ClientCalls {
        ClientCalls {
            name: name.to_owned(),
            writer,
            state: Arc::default(),
        }
    }

    /// From now on, events belong to this request.
    pub(crate) fn begin(&self, request: Option<RequestId>) {
        self.lock().request = request;
    }

    /// The request that events belong to.
    pub(crate) fn request(&self) -> Option<RequestId> {
        self.lock().request.clone()
    }

    /// Whether a call waits for its answer.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.lock().waiting.is_empty()
    }

    /// Passes an answer to the call that waits for it. `Err` says why no call takes it.
    pub(crate) fn answer(&self, call: &str, answer: ClientAnswer) -> Result<(), String> {
        let mut state = self.lock();
        let waiting = state.waiting.remove(call);
        match (waiting, answer) {
            // A call that was given up meanwhile takes nothing.
            (Some(WaitingCall::Tool(reply)), ClientAnswer::Tool(outcome)) => {
                let _ = reply.send(outcome);
                Ok(())
            }
            (Some(WaitingCall::Approval(reply)), ClientAnswer::Approval(decision)) => {
                let _ = reply.send(decision_from(decision));
                Ok(())
            }
            (Some(other), _) => {
                let message = format!("the call `{call}` waits for {}", other.operation());
                state.waiting.insert(call.to_owned(), other);
                Err(message)
            }
            (None, _) => Err(format!("no call `{call}` waits for an answer")),
        }
    }

    /// Refuses every call that waits, and every later one.
    pub(crate) fn end(&self, reason: &str) {
        let mut state = self.lock();
        state.end = Some(reason.to_owned());
        // Dropping the other ends wakes those that wait.
        state.waiting.clear();
    }

    async fn ask<T>(
        &self,
        event: &str,
        mut fields: Map<String, Value>,
        waiting: impl FnOnce(oneshot::Sender<T>) -> WaitingCall,
    ) -> Result<T, String> {
        const GIVEN_UP: &str = "the client cannot be asked any more";
        let (reply, answer) = oneshot::channel();
        let (request, call) = {
            let mut state = self.lock();
            if let Some(reason) = &state.end {
                return Err(reason.clone());
            }
            state.next += 1;
            let call = format!("c{}", state.next);
            state.waiting.insert(call.clone(), waiting(reply));
            (state.request.clone(), call)
        };
        // Where the future is dropped, nothing waits any more.
        let given_up = Forget {
            calls: self,
            call: &call,
        };
        fields.insert("event".to_owned(), event.into());
        fields.insert("call".to_owned(), call.clone().into());
        let line = Response::agent_event(request, self.name.clone(), Value::Object(fields));
        self.writer.send(line).await;
        let outcome = answer.await.map_err(|_| GIVEN_UP.to_owned());
        drop(given_up);
        outcome
    }

    fn lock(&self) -> MutexGuard<'_, PendingCalls> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets a call when dropped.
struct Forget<'a> {
    calls: &'a ClientCalls,
    call: &'a str,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.calls.lock().waiting.remove(self.call);
    }
}

fn decision_from(decision: Approved) -> Decision {
    match decision {
        Approved::Accept => Decision::Accept,
        Approved::Always => Decision::Always,
        Approved::Edit(arguments) => Decision::Edit(arguments),
        Approved::Respond(text) => Decision::Respond(text),
        Approved::Reject(reason) => Decision::Reject(reason),
    }
}

/// What a client answers for an agent.
#[derive(Clone, Debug)]
pub(super) struct ClientSide {
    pub(super) tools: Vec<ClientToolSpec>,
    pub(super) approvals: ApprovalsBy,
}

impl ClientSide {
    /// The tools of the client, whose calls go out by `calls`.
    pub(super) fn tools(&self, calls: &ClientCalls) -> Vec<Arc<dyn DynamicTool>> {
        let tools = self.tools.iter().cloned();
        tools.map(|spec| ClientTool::shared(spec, calls)).collect()
    }

    /// The client as the one that is asked for approvals, if it wants to be.
    pub(super) fn approver(&self, calls: &ClientCalls) -> Option<Arc<dyn Approver>> {
        let approver = || Arc::new(ClientApprover(calls.clone())) as Arc<dyn Approver>;
        (self.approvals == ApprovalsBy::Client).then(approver)
    }
}

/// A tool that the client answers.
struct ClientTool {
    definition: ToolDefinition,
    calls: ClientCalls,
}

impl ClientTool {
    /// Makes a tool from its description. The client asks for approvals of its own tools itself, and bounds their time.
    fn shared(tool: ClientToolSpec, calls: &ClientCalls) -> Arc<dyn DynamicTool> {
        let ClientToolSpec { spec, changes } = tool;
        let mut definition = ToolDefinition::new(spec.name, spec.description, spec.parameters);
        definition.time_limit = Some(NO_TIME_LIMIT);
        if changes {
            // No approval is needed here, but a trial of a reply must not make the call.
            definition.uses = Uses::State;
        }
        Arc::new(ClientTool {
            definition,
            calls: calls.clone(),
        })
    }
}

impl DynamicTool for ClientTool {
    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    fn invoke(self: Arc<Self>, arguments: Map<String, Value>, _: Context) -> ToolFuture {
        Box::pin(async move {
            let mut fields = Map::new();
            fields.insert("name".to_owned(), json!(self.definition.name));
            fields.insert("arguments".to_owned(), Value::Object(arguments));
            let asked = self.calls.ask("tool_call", fields, WaitingCall::Tool).await;
            match asked.and_then(|outcome| outcome) {
                Ok(Value::String(text)) => Ok(Output::text(text)),
                Ok(value) => Ok(Output::json(value)),
                Err(message) => Err(ToolError::new(message)),
            }
        })
    }
}

/// Asks the client about calls.
#[derive(Debug)]
struct ClientApprover(ClientCalls);

impl Approver for ClientApprover {
    fn ask(&self, request: ApprovalRequest) -> DecisionFuture {
        let calls = self.0.clone();
        Box::pin(async move {
            let mut fields = Map::new();
            fields.insert("tool".to_owned(), json!(request.tool));
            fields.insert("purpose".to_owned(), json!(request.purpose));
            let changes = request.effects == Effects::Outside;
            fields.insert("changes".to_owned(), json!(changes));
            fields.insert("arguments".to_owned(), Value::Object(request.arguments));
            let asked = calls.ask("approval_request", fields, WaitingCall::Approval);
            asked
                .await
                .unwrap_or_else(|reason| Decision::Reject(Some(reason)))
        })
    }
}
