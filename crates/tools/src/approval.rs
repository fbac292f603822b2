//! The approval of calls: a policy, and a question to a person where the policy needs one.

use crate::call::{FORBIDDEN, NO_PERSON, REJECTED};
use crate::names::REACH_HOST;
use crate::{Caller, Effects, Failure, Registry};
use cellblock_session::network::Authority;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The approval of the calls of one run: the policy, the person to ask, and the tools that the person allowed
/// for the whole run. Cheap to clone: clones share the decisions.
///
/// The default refuses every tool that changes something outside of the session: there is no person to ask.
#[derive(Clone, Default)]
pub struct Approval {
    policy: ApprovalPolicy,
    approver: Option<Arc<dyn Approver>>,
    decisions: Arc<Decisions>,
}

/// The decisions of one run.
#[derive(Default)]
struct Decisions {
    always_allowed: Mutex<HashSet<String>>,
    /// Hosts with their ports that the person allowed.
    allowed_hosts: Mutex<HashSet<String>>,
    /// A person answers one request at a time.
    turn: tokio::sync::Mutex<()>,
}

/// The permission for a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Permission {
    /// The call may run as it is.
    Granted,
    /// The call may run with these arguments instead.
    Edited(Map<String, Value>),
}

impl Approval {
    /// Approval by a policy. Where the policy wants a person to be asked and `approver` is `None`, the call is
    /// refused.
    pub fn new(policy: ApprovalPolicy, approver: Option<Arc<dyn Approver>>) -> Approval {
        Approval {
            policy,
            approver,
            decisions: Arc::default(),
        }
    }

    /// Decides about a call. Waits for a person, without a time limit, where the policy wants one to be asked.
    ///
    /// # Errors
    ///
    /// [`Failure::Refused`] where the policy or the person refuses the call, [`Failure::Answered`] where the
    /// person answers the model instead.
    pub async fn permit(&self, request: ApprovalRequest) -> Result<Permission, Failure> {
        let refuse = |reason: String| Failure::Refused {
            tool: request.tool.clone(),
            reason,
        };
        match self.policy.rule(&request.tool, request.effects) {
            ApprovalRule::Allow => return Ok(Permission::Granted),
            ApprovalRule::Deny => return Err(refuse(FORBIDDEN.to_owned())),
            ApprovalRule::Ask => {}
        }
        let Some(approver) = &self.approver else {
            return Err(refuse(NO_PERSON.to_owned()));
        };
        let _turn = self.decisions.turn.lock().await;
        if self.always_allowed().contains(&request.tool) {
            return Ok(Permission::Granted);
        }
        match approver.ask(request.clone()).await {
            Decision::Accept => Ok(Permission::Granted),
            Decision::Always => {
                self.always_allowed().insert(request.tool.clone());
                Ok(Permission::Granted)
            }
            Decision::Edit(arguments) => Ok(Permission::Edited(arguments)),
            Decision::Respond(text) => Err(Failure::Answered {
                tool: request.tool.clone(),
                text,
            }),
            Decision::Reject(None) => Err(refuse(REJECTED.to_owned())),
            Decision::Reject(Some(reason)) => Err(refuse(format!("{REJECTED}: {reason}"))),
        }
    }

    /// Whether a person is asked about hosts that no rule of the network names. The name for rules is [`REACH_HOST`].
    pub fn asks_about_hosts(&self) -> bool {
        self.approver.is_some()
            && self.policy.rule(REACH_HOST, Effects::Outside) == ApprovalRule::Ask
    }

    /// Decides whether code may reach a host that no rule names. A host that was accepted is not asked about again in this run. The
    /// error is the reason for the code.
    ///
    /// A policy that asks about nothing allows no host: hosts are opened by a person or by rules, never by the absence of both.
    pub(crate) async fn permit_host(&self, target: &Authority) -> Result<(), String> {
        let Some(approver) = self.approver.as_ref().filter(|_| self.asks_about_hosts()) else {
            return Err("no rule names it (--allow-net HOST does)".to_owned());
        };
        let key = target.to_string();
        let _turn = self.decisions.turn.lock().await;
        let allowed = || {
            let hosts = &self.decisions.allowed_hosts;
            hosts.lock().unwrap_or_else(PoisonError::into_inner)
        };
        if allowed().contains(&key) {
            return Ok(());
        }
        let mut arguments = Map::new();
        arguments.insert("host".to_owned(), target.host.clone().into());
        arguments.insert("port".to_owned(), target.port.into());
        let request = ApprovalRequest {
            tool: REACH_HOST.to_owned(),
            purpose: None,
            arguments,
            effects: Effects::Outside,
            caller: Caller::Code,
        };
        match approver.ask(request).await {
            Decision::Accept | Decision::Always => {
                allowed().insert(key);
                Ok(())
            }
            Decision::Respond(text) => Err(format!("the user answered: {text}")),
            Decision::Edit(_) => Err("the user changed the host; ask for that host".to_owned()),
            Decision::Reject(None) => Err("the user rejected it".to_owned()),
            Decision::Reject(Some(reason)) => Err(format!("the user rejected it: {reason}")),
        }
    }

    /// The approval for a fork of the run: the same policy, and what the person allowed so far. Later decisions are not shared, and neither
    /// run waits for the questions of the other. With `None` the approver stays the same.
    #[must_use]
    pub fn for_fork(&self, approver: Option<Arc<dyn Approver>>) -> Approval {
        let copy = |set: &Mutex<HashSet<String>>| {
            let set = set.lock().unwrap_or_else(PoisonError::into_inner);
            Mutex::new(set.clone())
        };
        Approval {
            policy: self.policy.clone(),
            approver: approver.or_else(|| self.approver.clone()),
            decisions: Arc::new(Decisions {
                always_allowed: copy(&self.decisions.always_allowed),
                allowed_hosts: copy(&self.decisions.allowed_hosts),
                turn: tokio::sync::Mutex::default(),
            }),
        }
    }

    /// The same approval, except that tools are refused that change something outside of the session, or state of their own.
    pub(crate) fn without_lasting_effects(&self, registry: &Registry) -> Approval {
        let mut approval = self.clone();
        let lasting = registry
            .definitions()
            .filter(|definition| definition.has_lasting_effects());
        let deny = lasting.map(|definition| (definition.name.clone(), ApprovalRule::Deny));
        approval.policy.rules.extend(deny);
        let hosts = (REACH_HOST.to_owned(), ApprovalRule::Deny);
        approval.policy.rules.extend([hosts]);
        approval
    }

    /// Whether a tool may run without a request.
    pub(crate) fn allows(&self, tool: &str, effects: Effects) -> bool {
        self.policy.rule(tool, effects) == ApprovalRule::Allow
    }

    /// Whether a person will be asked.
    pub(crate) fn will_ask(&self, request: &ApprovalRequest) -> bool {
        self.policy.rule(&request.tool, request.effects) == ApprovalRule::Ask
            && self.approver.is_some()
            && !self.always_allowed().contains(&request.tool)
    }

    fn always_allowed(&self) -> MutexGuard<'_, HashSet<String>> {
        self.decisions
            .always_allowed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Approval {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Approval")
            .field("policy", &self.policy)
            .field("approver", &self.approver.is_some())
            .finish_non_exhaustive()
    }
}

/// The calls that a person is asked about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalMode {
    /// None.
    Never,
    /// Calls of tools that change something outside of the session.
    #[default]
    Effects,
    /// The same, and every execution of code.
    Code,
    /// Every call, except the execution of code in the sealed session.
    Tools,
    /// Every call.
    All,
}

/// The rule for one tool, which overrides the mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalRule {
    /// The tool runs without a request.
    Allow,
    /// A person is asked.
    Ask,
    /// The tool never runs.
    Deny,
}

/// When a person is asked: rules by the names of tools, and a mode for the other tools.
///
/// ```
/// use cellblock_tools::{ApprovalMode, ApprovalPolicy, ApprovalRule, Effects};
///
/// let policy = ApprovalPolicy::mode(ApprovalMode::Never).with("send_mail", ApprovalRule::Ask);
/// assert!(policy.allows("delete_file", Effects::Outside));
/// assert!(!policy.allows("send_mail", Effects::Outside));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ApprovalPolicy {
    /// The mode for every tool without a rule.
    pub mode: ApprovalMode,
    /// The rules by the name of the tool: `{"send_mail": "ask"}`.
    pub rules: BTreeMap<String, ApprovalRule>,
}

impl ApprovalPolicy {
    /// A policy with this mode and no rules.
    pub fn mode(mode: ApprovalMode) -> ApprovalPolicy {
        ApprovalPolicy {
            mode,
            rules: BTreeMap::new(),
        }
    }

    /// The policy with a rule for one more tool.
    pub fn with(mut self, tool: impl Into<String>, rule: ApprovalRule) -> ApprovalPolicy {
        self.rules.insert(tool.into(), rule);
        self
    }

    /// Whether a tool with these effects runs without a request.
    pub fn allows(&self, tool: &str, effects: Effects) -> bool {
        self.rule(tool, effects) == ApprovalRule::Allow
    }

    fn rule(&self, tool: &str, effects: Effects) -> ApprovalRule {
        if let Some(rule) = self.rules.get(tool) {
            return *rule;
        }
        let asks = match (self.mode, effects) {
            (ApprovalMode::Never, _) => false,
            (ApprovalMode::All, _) | (_, Effects::Outside) => true,
            (ApprovalMode::Code, Effects::Code { .. }) => true,
            (ApprovalMode::Tools, Effects::None) => true,
            _ => false,
        };
        if asks {
            ApprovalRule::Ask
        } else {
            ApprovalRule::Allow
        }
    }
}

/// A call that a person must decide about.
#[derive(Clone, Debug, PartialEq)]
pub struct ApprovalRequest {
    /// The name of the tool.
    pub tool: String,
    /// Why the tool is called, if the caller said so.
    pub purpose: Option<String>,
    /// The arguments.
    pub arguments: Map<String, Value>,
    /// What the tool changes outside of the session.
    pub effects: Effects,
    /// The kind of caller.
    pub caller: Caller,
}

/// The code in the arguments of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeArgument<'a> {
    /// The name of the argument.
    pub name: &'static str,
    /// The code.
    pub code: &'a str,
}

impl ApprovalRequest {
    /// The code that the call would run; `None` for a tool that runs no code.
    pub fn code(&self) -> Option<CodeArgument<'_>> {
        let Effects::Code { argument } = self.effects else {
            return None;
        };
        let code = self.arguments.get(argument)?.as_str()?;
        Some(CodeArgument {
            name: argument,
            code,
        })
    }
}

/// The decision of a person about a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Run the call.
    Accept,
    /// Run the call, and do not ask again for this tool in this run.
    Always,
    /// Run the call with these arguments. The model is told.
    Edit(Map<String, Value>),
    /// Do not run the call; give the model this text instead.
    Respond(String),
    /// Do not run the call, perhaps for this reason.
    Reject(Option<String>),
}

/// A request that waits for a decision.
pub type DecisionFuture = Pin<Box<dyn Future<Output = Decision> + Send>>;

/// Asks a person about calls: in a terminal, on a page, in a chat. No time limit runs meanwhile.
pub trait Approver: Send + Sync {
    /// Asks about a call and waits for the decision. The future is dropped when the call is cancelled: then the
    /// decision does not matter any more.
    fn ask(&self, request: ApprovalRequest) -> DecisionFuture;
}
