//! What a run came to.

use crate::repair::Repair;
use crate::verify::Verification;
use cellblock_model::{Cost, Usage};
use cellblock_protocol::{CellResult, FileEntry};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// With an answer.
    Answered,
    /// It had no steps left.
    MaxSteps,
    /// It had no time left.
    MaxTime,
    /// It had no tokens left.
    MaxTokens,
    /// It had no money left.
    MaxCost,
    /// Too many steps in a row failed.
    MaxFailures,
    /// It did the same again and again, although it was told.
    Stuck,
    /// Its replies could not be read, although it was told why.
    MalformedReplies,
    /// Its answers did not fit the schema, although it was told why.
    InvalidAnswer,
    /// Someone stopped it.
    Cancelled,
    /// The model could not be asked.
    ModelError,
}

/// What a run came to. There is always one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// The answer: a text, or what the schema asks for.
    pub answer: Option<Value>,
    /// How it ended.
    pub status: RunStatus,
    /// Why, where it has no answer.
    pub message: Option<String>,
    /// The last that was reached, where it has no answer.
    pub reached: Option<String>,
    /// What it did, in order.
    pub steps: Vec<Step>,
    /// The tokens that it took.
    pub usage: Usage,
    /// What they cost, where prices are known.
    pub cost: Option<Cost>,
    /// The session that its code ran in, if any did.
    pub session: Option<String>,
    /// The files in the workspace at its end.
    pub files: Vec<FileEntry>,
    /// What whoever relies on the answer should know.
    pub warnings: Vec<String>,
    /// What came of running the cells again, where that was asked for.
    pub verification: Option<Verification>,
    /// How long it took.
    pub ms: u64,
}

/// One reply of the model with what was done about it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Step {
    /// Its number, from 1.
    pub step: usize,
    /// What the model thought.
    pub thought: String,
    /// What was done.
    pub actions: Vec<Done>,
    /// What was repaired in the reply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<Repair>,
    /// How often it was asked again before the reply could be read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub malformed: usize,
    /// The tokens of the reply.
    pub usage: Usage,
    /// How long the model took.
    pub model_ms: u64,
}

/// Something that was done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Done {
    /// The tool, or `execute_python_code` for code in any format.
    pub name: String,
    /// The code, where it is code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The seconds that the code had, where the model chose them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// The arguments, where it is another tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    /// Whether it went well.
    pub ok: bool,
    /// What the model read.
    pub text: String,
    /// The error in one line, where it did not go well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// All about the cell, where one ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<CellResult>>,
    /// How long it took.
    pub ms: u64,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl RunStatus {
    /// The word that stands in JSON.
    pub fn name(self) -> &'static str {
        match self {
            RunStatus::Answered => "answered",
            RunStatus::MaxSteps => "max_steps",
            RunStatus::MaxTime => "max_time",
            RunStatus::MaxTokens => "max_tokens",
            RunStatus::MaxCost => "max_cost",
            RunStatus::MaxFailures => "max_failures",
            RunStatus::Stuck => "stuck",
            RunStatus::MalformedReplies => "malformed_replies",
            RunStatus::InvalidAnswer => "invalid_answer",
            RunStatus::Cancelled => "cancelled",
            RunStatus::ModelError => "model_error",
        }
    }
}

impl fmt::Display for RunStatus {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

impl Outcome {
    /// The answer as a text for people; empty where there is none.
    pub fn answer_text(&self) -> String {
        match &self.answer {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        }
    }

    /// The answer as a type.
    pub fn answer_as<T: serde::de::DeserializeOwned>(
        &self,
    ) -> Option<Result<T, serde_json::Error>> {
        self.answer.clone().map(serde_json::from_value)
    }

    /// The code that ran, in order.
    pub fn cells(&self) -> impl Iterator<Item = &Done> {
        let actions = self.steps.iter().flat_map(|step| &step.actions);
        actions.filter(|done| done.code.is_some() && done.result.is_some())
    }
}
