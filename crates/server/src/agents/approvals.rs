//! Calls that wait for the decision of a person who looks at a page.

use super::live_run::CurrentRun;
use crate::auth::random_id;
use crate::error::ApiError;
use cellblock_tools::{ApprovalRequest, Approver, Decision, DecisionFuture};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// The calls of a run that wait for a decision.
#[derive(Debug, Default)]
pub(crate) struct Approvals {
    waiting: Mutex<HashMap<String, PendingApproval>>,
}

#[derive(Debug)]
struct PendingApproval {
    decision: oneshot::Sender<Decision>,
    request: Value,
}

impl Approvals {
    /// Decides about a call.
    pub(crate) fn decide(&self, id: &str, decision: Decision) -> Result<(), ApiError> {
        let waiting = self.lock().remove(id);
        let gone = || ApiError::not_found("call that waits for approval");
        let waiting = waiting.ok_or_else(gone)?;
        // The run was cancelled meanwhile.
        waiting.decision.send(decision).map_err(|_| gone())
    }

    /// The calls that wait, as the events told them.
    pub(crate) fn all(&self) -> Vec<Value> {
        let waiting = self.lock();
        let still = waiting
            .values()
            .filter(|waiting| !waiting.decision.is_closed());
        still.map(|waiting| waiting.request.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, PendingApproval>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks the readers of the events of the run that answers now.
#[derive(Default)]
pub(super) struct PageApprover {
    /// A conversation has one approver for all of its runs.
    pub(super) current: CurrentRun,
}

impl Approver for PageApprover {
    fn ask(&self, request: ApprovalRequest) -> DecisionFuture {
        let run = self.current.get();
        Box::pin(async move {
            let Some(run) = run else {
                return Decision::Reject(Some("no run is going on".to_owned()));
            };
            let approvals = &run.approvals;
            let Ok(id) = random_id("a") else {
                return Decision::Reject(Some("there is no randomness".to_owned()));
            };
            let code = request.code().map(|code| code.code.to_owned());
            let told = json!({
                "approval": id, "tool": request.tool, "purpose": request.purpose,
                "arguments": request.arguments, "code": code,
            });
            let (decision, answer) = oneshot::channel();
            let waiting = PendingApproval {
                decision,
                request: told.clone(),
            };
            approvals.lock().insert(id.clone(), waiting);
            run.tell("approval", told);
            let decision = answer.await;
            let word = decision.as_ref().map_or("dropped", name_of);
            run.tell(
                "approval_decided",
                json!({"approval": id, "decision": word}),
            );
            decision.unwrap_or_else(|_| Decision::Reject(None))
        })
    }
}

fn name_of(decision: &Decision) -> &'static str {
    match decision {
        Decision::Accept => "accept",
        Decision::Always => "always",
        Decision::Edit(_) => "edit",
        Decision::Respond(_) => "respond",
        Decision::Reject(_) => "reject",
    }
}
