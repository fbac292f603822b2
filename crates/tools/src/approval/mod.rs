//! Asking a person before a call is made.

mod policy;
mod question;

use crate::{Effects, Failure, Registry};
use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

pub use policy::{ApprovalMode, ApprovalPolicy, ApprovalRule};
pub use question::{Asker, Asking, Decision, Question};

/// When to ask, whom, and what was answered for good. A handle: clones are the same.
#[derive(Clone, Default)]
pub struct Approval {
    policy: ApprovalPolicy,
    asker: Option<Arc<dyn Asker>>,
    run: Arc<Run>,
}

/// What was decided in this run.
#[derive(Default)]
struct Run {
    always: Mutex<HashSet<String>>,
    /// A person answers one question at a time.
    turn: tokio::sync::Mutex<()>,
}

/// What a person, or the policy, lets happen.
#[derive(Clone, Debug, PartialEq)]
pub enum Permission {
    /// It may be done as asked.
    Granted,
    /// It may be done with these arguments instead.
    Edited(serde_json::Map<String, serde_json::Value>),
}

impl Approval {
    /// Asks by this policy. Where it says that a person must be asked and there is none, the call is refused.
    pub fn new(policy: ApprovalPolicy, asker: Option<Arc<dyn Asker>>) -> Approval {
        Approval {
            policy,
            asker,
            run: Arc::default(),
        }
    }

    /// Finds out whether something may be done; asks a person where the policy wants that, for as long as that takes.
    pub async fn permit(&self, question: Question) -> Result<Permission, Failure> {
        let refuse = |reason: String| Failure::Refused {
            tool: question.tool.clone(),
            reason,
        };
        match self.policy.rule(&question.tool, question.effects) {
            ApprovalRule::Allow => return Ok(Permission::Granted),
            ApprovalRule::Deny => return Err(refuse("the configuration forbids it".to_owned())),
            ApprovalRule::Ask => {}
        }
        let Some(asker) = &self.asker else {
            let reason = "it needs a person's approval, and there is nobody to ask here";
            return Err(refuse(reason.to_owned()));
        };
        let _turn = self.run.turn.lock().await;
        if self.always().contains(&question.tool) {
            return Ok(Permission::Granted);
        }
        match asker.ask(question.clone()).await {
            Decision::Accept => Ok(Permission::Granted),
            Decision::Always => {
                self.always().insert(question.tool.clone());
                Ok(Permission::Granted)
            }
            Decision::Edit(arguments) => Ok(Permission::Edited(arguments)),
            Decision::Respond(text) => Err(Failure::Answered {
                tool: question.tool.clone(),
                text,
            }),
            Decision::Reject(None) => Err(refuse("the user rejected it".to_owned())),
            Decision::Reject(Some(reason)) => {
                Err(refuse(format!("the user rejected it: {reason}")))
            }
        }
    }

    /// The same, but tools that change something outside are never allowed.
    pub(crate) fn without_outside(&self, registry: &Registry) -> Approval {
        let mut approval = self.clone();
        let outside = registry
            .definitions()
            .filter(|definition| definition.effects == Effects::Outside);
        let deny = outside.map(|definition| (definition.name.clone(), ApprovalRule::Deny));
        approval.policy.rules.extend(deny);
        approval
    }

    /// Whether it may be done without a question.
    pub(crate) fn allows(&self, tool: &str, effects: Effects) -> bool {
        self.policy.rule(tool, effects) == ApprovalRule::Allow
    }

    /// Whether a person will be asked.
    pub(crate) fn would_ask(&self, question: &Question) -> bool {
        self.policy.rule(&question.tool, question.effects) == ApprovalRule::Ask
            && self.asker.is_some()
            && !self.always().contains(&question.tool)
    }

    fn always(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.run
            .always
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Approval {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Approval")
            .field("policy", &self.policy)
            .field("asker", &self.asker.is_some())
            .finish_non_exhaustive()
    }
}
