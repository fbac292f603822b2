//! How a model acts: five ways for it to say what it wants done, as implementations of one trait.

mod arguments;
mod glimpse;
mod json;
mod markdown;
mod next_step;
mod tools;
mod turn;
mod union;
mod xml;

use crate::prompt::{Part, fill};
use cellblock_model::{Capabilities, Image, Message, Reply, Request};
use cellblock_protocol::Locale;
use cellblock_tools::{Registry, Uses};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use std::str::FromStr;

pub use glimpse::{Glimpse, Growing};
pub use json::JsonFormat;
pub use markdown::MarkdownFormat;
pub use next_step::NextStepFormat;
pub use tools::ToolsFormat;
pub use turn::{Action, CallKind, Malformed, ToolUse, Turn};
pub use xml::XmlFormat;

/// A way for a model to act. One run uses one.
pub trait ActionFormat: Send + Sync {
    /// Which one it is.
    fn format(&self) -> Format;

    /// The part of the system prompt that explains it.
    fn instructions(&self, facts: &Facts) -> String;

    /// Adds to a request what the endpoint must know: tools, or the schema of the reply.
    fn shape(&self, request: &mut Request, facts: &Facts);

    /// What a reply means.
    fn read(&self, reply: &Reply, facts: &Facts) -> Result<Turn, Malformed>;

    /// The reply as it stands in the history: as it came, unless a format has another form for it. `step` counts from 1.
    fn said(&self, reply: &Reply, _turn: &Turn, _step: usize) -> Message {
        Message::assistant(reply.text.clone())
    }

    /// What came of the actions, one observation for each, as it stands in the history: as if the user said so, unless a format has
    /// another form for it.
    fn observed(
        &self,
        _turn: &Turn,
        _step: usize,
        observations: &[Observation],
        _facts: &Facts,
    ) -> Vec<Message> {
        as_user_messages(&joined(observations), observations)
    }

    /// What can be seen of thought and code while the reply still comes.
    fn glimpse(&self, growing: &Growing) -> Glimpse;
}

/// The names of the formats.
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
pub struct Facts {
    /// The tools that are offered now.
    pub registry: Registry,
    /// The language for the model.
    pub locale: Locale,
    /// What the model can do.
    pub capabilities: Capabilities,
    /// The packages that code can import.
    pub dependencies: Vec<String>,
    /// The working directory of the code.
    pub workspace: String,
    /// What the answer must look like, where that is asked for.
    pub answer_schema: Option<Value>,
}

/// What came of one action.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// What the model reads.
    pub text: String,
    /// Pictures, for models that see.
    pub images: Vec<Image>,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 5] = [
        Format::Tools,
        Format::Json,
        Format::Xml,
        Format::Markdown,
        Format::NextStep,
    ];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Format::Tools => "tools",
            Format::Json => "json",
            Format::Xml => "xml",
            Format::Markdown => "markdown",
            Format::NextStep => "next_step",
        }
    }

    /// What suits a model: its own tool calls where it has them, else fenced code, which every model has seen often.
    pub fn suited_to(capabilities: &Capabilities) -> Format {
        if capabilities.tools {
            Format::Tools
        } else if capabilities.json_schema {
            Format::NextStep
        } else {
            Format::Markdown
        }
    }

    /// The implementation.
    pub fn implementation(self) -> &'static dyn ActionFormat {
        match self {
            Format::Tools => &ToolsFormat,
            Format::Json => &JsonFormat,
            Format::Xml => &XmlFormat,
            Format::Markdown => &MarkdownFormat,
            Format::NextStep => &NextStepFormat,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Format, String> {
        let found = Format::ALL.into_iter().find(|format| format.name() == text);
        found.ok_or_else(|| {
            let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
            format!(
                "there is no format {text:?}; the formats are {}",
                names.join(", ")
            )
        })
    }
}

/// The instructions of a format whose only action is code: what the code can call stands beside them.
fn code_instructions(part: Part, facts: &Facts) -> String {
    let mut text = fill(part, facts.locale, &[]);
    let functions = functions_for_code(&facts.registry);
    if !functions.is_empty() {
        text.push('\n');
        text.push_str(&fill(
            Part::Functions,
            facts.locale,
            &[("functions", &functions)],
        ));
    }
    text
}

/// One line for each tool that code can call.
fn functions_for_code(registry: &Registry) -> String {
    let offered = registry
        .definitions()
        .filter(|definition| definition.uses != Uses::Interpreter);
    let lines: Vec<String> = offered
        .map(|definition| {
            let names: Vec<&str> = definition
                .parameters
                .get("properties")
                .and_then(Value::as_object)
                .map(|fields| fields.keys().map(String::as_str).collect())
                .unwrap_or_default();
            let first = definition.description.lines().next().unwrap_or_default();
            let name = definition.name.replace('-', "_");
            format!("- {name}({}): {first}", names.join(", "))
        })
        .collect();
    lines.join("\n")
}

/// Observations as messages of the user: what formats do that have no role for them.
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

/// The texts of observations, one after the other; several are numbered.
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
