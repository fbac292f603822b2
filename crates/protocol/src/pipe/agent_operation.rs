//! The operations of the pipe on agents: a model that answers questions with code.

use serde_json::{Map, Value};

use crate::json::fields::Fields;
use crate::json::invalid::{Invalid, shown_text};
use crate::options::seed::check_seed;
use crate::{ClientToolSpec, Seed};

/// Something that is asked of an agent. The session of the request is the name of the run: its events, its calls and its end carry it.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the fields are those of the wire")]
pub enum AgentOperation {
    /// Ask a question, or call a template, of a new agent.
    Ask(Box<AgentRequest>),
    /// Ask another question in a conversation that was kept.
    Say { question: String },
    /// End the run with what was reached.
    Cancel,
    /// Answer an `approval_request` event.
    Approve { call: String, decision: Approved },
}

/// A new run of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentRequest {
    /// What the model is to do.
    pub task: AgentTask,
    /// The JSON schema of the answer.
    pub schema: Option<Value>,
    /// Whether the conversation goes on after the answer, until it is closed.
    pub conversation: AfterAnswer,
    /// Variables that the code sees.
    pub seed: Seed,
    /// Files of the client's machine that are put into the workspace.
    pub files: Vec<String>,
    /// Tools that the client answers.
    pub tools: Vec<ClientToolSpec>,
    /// Whether the client is asked for approvals.
    pub approvals: ApprovalsBy,
    /// The long options of `cellblock ask`, with `_` for `-`.
    pub options: Map<String, Value>,
}

/// The task of a run.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the fields are those of the wire")]
pub enum AgentTask {
    /// A question.
    Question(String),
    /// The text of a template's file, and its arguments.
    Template {
        text: String,
        arguments: Map<String, Value>,
    },
}

/// What becomes of a conversation after its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterAnswer {
    /// The conversation ends, with its session.
    Ends,
    /// The conversation waits for the next question.
    GoesOn,
}

/// Where approvals come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalsBy {
    /// No person can be asked: a call that needs an approval is refused.
    Nobody,
    /// The client is sent an `approval_request`.
    Client,
}

/// The decision about a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Approved {
    /// The call runs.
    Accept,
    /// The call runs, and calls of this tool are not asked about again.
    Always,
    /// The call runs with these arguments.
    Edit(Map<String, Value>),
    /// The call does not run, and this text is its answer.
    Respond(String),
    /// The call does not run, perhaps for this reason.
    Reject(Option<String>),
}

impl AgentOperation {
    /// Reads the fields that belong to `op`, with the names of all it knows; `None` when it is no operation on agents.
    pub(super) fn take(
        op: &str,
        fields: &mut Fields,
    ) -> Option<(&'static [&'static str], Result<Self, Invalid>)> {
        Some(match op {
            "ask" => (ASK_FIELDS, ask(fields)),
            "template" => (TEMPLATE_FIELDS, template(fields)),
            "say" => (
                &["question"],
                question(fields).map(|question| Self::Say { question }),
            ),
            "cancel" => (&[], Ok(Self::Cancel)),
            "approve" => (&["call", "decision", "arguments", "text"], approve(fields)),
            _ => return None,
        })
    }
}

const ASK_FIELDS: &[&str] = &[
    "question",
    "schema",
    "keep",
    "seed",
    "files",
    "tools",
    "approvals",
    "options",
];
const TEMPLATE_FIELDS: &[&str] = &[
    "template",
    "arguments",
    "schema",
    "keep",
    "seed",
    "files",
    "tools",
    "approvals",
    "options",
];

fn ask(fields: &mut Fields) -> Result<AgentOperation, Invalid> {
    let task = AgentTask::Question(question(fields)?);
    request(fields, task)
}

fn template(fields: &mut Fields) -> Result<AgentOperation, Invalid> {
    let task = AgentTask::Template {
        text: fields.required("template")?,
        arguments: fields.optional("arguments")?.unwrap_or_default(),
    };
    request(fields, task)
}

fn request(fields: &mut Fields, task: AgentTask) -> Result<AgentOperation, Invalid> {
    let seed: Seed = fields.optional("seed")?.unwrap_or_default();
    check_seed("seed", &seed)?;
    let keep: bool = fields.optional("keep")?.unwrap_or(false);
    let approvals: bool = fields.optional("approvals")?.unwrap_or(false);
    Ok(AgentOperation::Ask(Box::new(AgentRequest {
        task,
        schema: fields.any("schema").filter(|schema| !schema.is_null()),
        conversation: match keep {
            true => AfterAnswer::GoesOn,
            false => AfterAnswer::Ends,
        },
        seed,
        files: fields.optional("files")?.unwrap_or_default(),
        tools: fields.optional("tools")?.unwrap_or_default(),
        approvals: match approvals {
            true => ApprovalsBy::Client,
            false => ApprovalsBy::Nobody,
        },
        options: fields.optional("options")?.unwrap_or_default(),
    })))
}

fn question(fields: &mut Fields) -> Result<String, Invalid> {
    let question: String = fields.required("question")?;
    if question.trim().is_empty() {
        let expected = "a question";
        return Err(Invalid::value("question", expected, shown_text(&question)));
    }
    Ok(question)
}

fn approve(fields: &mut Fields) -> Result<AgentOperation, Invalid> {
    let call = fields.required("call")?;
    let decision: String = fields.required("decision")?;
    let decision = match decision.as_str() {
        "accept" => Approved::Accept,
        "always" => Approved::Always,
        "edit" => Approved::Edit(fields.required("arguments")?),
        "respond" => Approved::Respond(fields.required("text")?),
        "reject" => Approved::Reject(fields.optional("text")?),
        other => {
            let expected = "accept, always, edit, respond or reject";
            return Err(Invalid::value("decision", expected, shown_text(other)));
        }
    };
    Ok(AgentOperation::Approve { call, decision })
}
