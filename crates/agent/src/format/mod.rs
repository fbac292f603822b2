//! Action formats: five ways for a model to say which code to run or which tool to call, as implementations of one trait.

mod dialect;
mod json;
mod markdown;
mod next_step;
mod signature;
mod tools;
mod turn;
mod xml;

use crate::executor::CodeEnvironment;
use crate::prompt::PromptPart;
use cellblock_model::{Capabilities, Image, Message, Reply, Request};
use cellblock_protocol::Locale;
use cellblock_tools::Registry;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use std::str::FromStr;

use signature::functions_part;

pub use json::JsonFormat;
pub use markdown::MarkdownFormat;
pub use next_step::NextStepFormat;
pub use tools::ToolsFormat;
pub use turn::{
    Action, CallKind, MalformedReply, PartialCall, PartialReply, PartialTurn, ToolUse, Turn,
};
pub use xml::XmlFormat;

/// An action format: how a model acts, and how its replies are read. A run uses one format.
pub trait ActionFormat: Send + Sync {
    /// The name of the format.
    fn format(&self) -> Format;

    /// The part of the system prompt that explains the format.
    fn instructions(&self, context: &FormatContext) -> String;

    /// Adds to a request what the endpoint must know: the tools, or the schema of the reply.
    fn prepare_request(&self, request: &mut Request, context: &FormatContext);

    /// Reads a reply. The error is a text for the model, which is then asked again.
    fn parse(&self, reply: &Reply, context: &FormatContext) -> Result<Turn, MalformedReply>;

    /// The reply as a message of the conversation. By default, its text without what the model invented. `step` counts from 1.
    fn assistant_message(&self, reply: &Reply, turn: &Turn, _step: usize) -> Message {
        Message::assistant(turn.said.as_ref().unwrap_or(&reply.text).clone())
    }

    /// The results of the actions as messages of the conversation, one observation for each action. By default, a message of the user.
    fn result_messages(
        &self,
        _turn: &Turn,
        _step: usize,
        observations: &[Observation],
        _facts: &FormatContext,
    ) -> Vec<Message> {
        as_user_messages(&joined(observations), observations)
    }

    /// The thought and the code of a reply that is still being streamed.
    fn preview(&self, partial: &PartialReply) -> PartialTurn;
}

/// The name of an action format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Native tool calls.
    #[default]
    Tools,
    /// One JSON object: thought, action, code, final answer.
    Json,
    /// Code between tags.
    Xml,
    /// Code in fenced blocks.
    Markdown,
    /// One JSON object with a plan and the next call.
    NextStep,
}

/// What the formats need to know of a run.
#[derive(Clone, Debug)]
pub struct FormatContext {
    /// The tools that are offered now.
    pub registry: Registry,
    /// The language of the texts for the model.
    pub locale: Locale,
    /// What the model and its endpoint can do.
    pub capabilities: Capabilities,
    /// The packages that code can import.
    pub dependencies: Vec<String>,
    /// The working directory of the code.
    pub workspace: String,
    /// What code finds when it starts.
    pub surroundings: CodeEnvironment,
    /// The JSON schema of the answer, where there is one.
    pub answer_schema: Option<Value>,
}

/// The result of one action, as the model reads it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// The text.
    pub text: String,
    /// The pictures, for models that take images.
    pub images: Vec<Image>,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 5] = [
        Format::Tools,
        Format::Json,
        Format::Xml,
        Format::Markdown,
        Format::NextStep,
    ];

    /// The name in settings, events and reports.
    pub fn name(self) -> &'static str {
        match self {
            Format::Tools => "tools",
            Format::Json => "json",
            Format::Xml => "xml",
            Format::Markdown => "markdown",
            Format::NextStep => "next_step",
        }
    }

    /// The default format for a model: native tool calls where the model has them, else a JSON schema where the endpoint takes one, else
    /// fenced code, which every model has seen often.
    pub fn for_capabilities(capabilities: &Capabilities) -> Format {
        if capabilities.tools {
            Format::Tools
        } else if capabilities.json_schema {
            // Not `next_step`: its prompt is three times as long, and a small model solved none of the tasks with it.
            Format::Json
        } else {
            Format::Markdown
        }
    }

    /// The implementation of the format.
    pub fn implementation(self) -> &'static dyn ActionFormat {
        match self {
            Format::Tools => &ToolsFormat,
            Format::Json => &JsonFormat,
            Format::Xml => &XmlFormat,
            Format::Markdown => &MarkdownFormat,
            Format::NextStep => &NextStepFormat,
        }
    }

    /// Whether the model can call every tool in this format. In the other formats it only runs code, which can call tools.
    pub(crate) fn calls_tools(self) -> bool {
        matches!(self, Format::Tools | Format::NextStep)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

/// There is no format of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no format {0:?}; the formats are {names}", names = Format::ALL.map(Format::name).join(", "))]
pub struct UnknownFormat(String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Format, UnknownFormat> {
        let found = Format::ALL.into_iter().find(|format| format.name() == text);
        found.ok_or_else(|| UnknownFormat(text.to_owned()))
    }
}

/// The instructions of a format whose only action is code, with the functions that the code can call.
fn code_instructions(part: PromptPart, context: &FormatContext) -> String {
    let mut text = part.text(context.locale).to_owned();
    if let Some(functions) = functions_part(context) {
        text.push('\n');
        text.push_str(&functions);
    }
    text
}

/// Texts at which a reply in a format of plain text ends: only a result of code begins so, and the model is about to invent one.
///
/// Endpoints take four at most. Each begins a line and is so rare in an answer that none is cut short.
fn invented_result_stops(locale: Locale) -> Vec<String> {
    let heading = match locale {
        Locale::En => "\n## Code execution ",
        Locale::Zh => "\n## \u{4ee3}\u{7801}\u{6267}\u{884c}",
    };
    ["\nObservation:", "\nEXECUTION_RESULT:", heading]
        .map(str::to_owned)
        .to_vec()
}

/// Observations as messages of the user, for formats that have no role of their own for them.
fn as_user_messages(texts: &str, observations: &[Observation]) -> Vec<Message> {
    let images: Vec<Image> = observations
        .iter()
        .flat_map(|observation| observation.images.iter().cloned())
        .collect();
    if images.is_empty() {
        vec![Message::user(texts)]
    } else {
        vec![Message::user_with_images(texts, images)]
    }
}

/// The texts of observations, one after the other. Several are numbered.
fn joined(observations: &[Observation]) -> String {
    match observations {
        [only] => only.text.clone(),
        many => {
            let total = many.len();
            let texts: Vec<String> = many
                .iter()
                .enumerate()
                .map(|(index, observation)| {
                    format!("[{}/{total}]\n{}", index + 1, observation.text)
                })
                .collect();
            texts.join("\n")
        }
    }
}
