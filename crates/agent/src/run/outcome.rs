//! The outcome of a run: its answer, its steps, and the limits that end it.

use crate::repair::Repair;
use crate::verify::Verification;
use cellblock_model::{Cost, Usage};
use cellblock_protocol::duration_json::optional_seconds;
use cellblock_protocol::{CellResult, FileEntry};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use std::time::Duration;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// The run has an answer.
    Answered,
    /// The run reached its limit of steps.
    MaxSteps,
    /// The run reached its time limit.
    MaxTime,
    /// The run reached its limit of tokens.
    MaxTokens,
    /// The run reached its limit of cost.
    MaxCost,
    /// Too many steps in a row failed.
    MaxFailures,
    /// The model repeated itself, after it was told so.
    Stuck,
    /// Too many replies in a row could not be read.
    MalformedReplies,
    /// Too many answers did not fit the schema.
    InvalidAnswer,
    /// The run was cancelled.
    Cancelled,
    /// The model gave no reply.
    ModelError,
}

/// The outcome of a run. Every run has one, with or without an answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// The answer: a text, or a value that fits the schema.
    pub answer: Option<Value>,
    /// How the run ended.
    pub status: RunStatus,
    /// Why there is no answer.
    pub message: Option<String>,
    /// The last result or thought, where there is no answer.
    pub reached: Option<String>,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The tokens that the run used.
    pub usage: Usage,
    /// The cost of the tokens, where prices are known.
    pub cost: Option<Cost>,
    /// The id of the session, if code ran.
    pub session: Option<String>,
    /// The files in the workspace at the end.
    pub files: Vec<FileEntry>,
    /// What a reader of the answer should know, such as that nothing was computed.
    pub warnings: Vec<String>,
    /// The result of the verification, where one was asked for.
    pub verification: Option<Verification>,
    /// The duration of the run in milliseconds.
    pub ms: u64,
}

/// One reply of the model, with the results of its actions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Step {
    /// The number of the step, from 1.
    pub step: usize,
    /// The thought of the model.
    pub thought: String,
    /// The results of the actions.
    pub actions: Vec<ActionResult>,
    /// What was repaired in the reply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<Repair>,
    /// The number of replies before this one that could not be read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub malformed: usize,
    /// The tokens of the reply.
    pub usage: Usage,
    /// The milliseconds that the model took.
    pub model_ms: u64,
}

/// The result of one action.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ActionResult {
    /// The name of the tool. For code in any format, `execute_python_code`.
    pub name: String,
    /// The code, if the action is code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The time limit of the code, if the model chose one. In JSON: seconds.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "optional_seconds"
    )]
    pub timeout: Option<Duration>,
    /// The arguments, if the action is a call of another tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    /// Whether the action succeeded.
    pub ok: bool,
    /// The text that the model read.
    pub text: String,
    /// The error in one line, if the action failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The result of the cell, if one ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<CellResult>>,
    /// The duration of the action in milliseconds.
    pub ms: u64,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl RunStatus {
    /// The name in JSON.
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
    /// The answer as a text. Empty where there is none.
    pub fn answer_text(&self) -> String {
        match &self.answer {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        }
    }

    /// The answer as a value of this type. `None` where there is no answer.
    pub fn answer_as<T: serde::de::DeserializeOwned>(
        &self,
    ) -> Option<Result<T, serde_json::Error>> {
        self.answer.clone().map(serde_json::from_value)
    }

    /// The actions whose code ran, in order.
    pub fn cells(&self) -> impl Iterator<Item = &ActionResult> {
        let actions = self.steps.iter().flat_map(|step| &step.actions);
        actions.filter(|done| done.code.is_some() && done.result.is_some())
    }
}

/// The limits of a run. A run that reaches one ends with the status of that limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunLimits {
    /// The replies of the model that act. Default 20.
    pub steps: usize,
    /// The wall-clock time. Unlimited by default.
    pub time: Option<Duration>,
    /// The tokens, input and output together. Unlimited by default.
    pub tokens: Option<u64>,
    /// The cost in the currency of the model's prices. Without prices this limit does nothing.
    pub cost: Option<f64>,
    /// The steps in a row in which every action failed. Default 8.
    pub failures: usize,
    /// The number of times in a row that the model is asked again for a reply that can be read. Default 3.
    pub malformed_replies: usize,
    /// The number of times that the model is asked again for an answer that fits the schema. Default 3.
    pub invalid_answers: usize,
    /// The failures in a row of the tool `compute` after which it is no longer offered. Default 5.
    pub compute_failures: usize,
}

/// What a caller allows one run to use. It lowers the limits of an agent, and never raises them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunBudget {
    /// See [`RunLimits::steps`].
    pub steps: Option<usize>,
    /// See [`RunLimits::time`].
    pub time: Option<Duration>,
    /// See [`RunLimits::tokens`].
    pub tokens: Option<u64>,
    /// See [`RunLimits::cost`].
    pub cost: Option<f64>,
}

impl RunLimits {
    /// These limits, or those of the budget where they are lower.
    #[must_use]
    pub fn within(self, budget: RunBudget) -> RunLimits {
        fn lower<T: PartialOrd>(limit: Option<T>, asked: Option<T>) -> Option<T> {
            match (limit, asked) {
                (Some(limit), Some(asked)) if asked < limit => Some(asked),
                (limit, asked) => limit.or(asked),
            }
        }
        RunLimits {
            steps: lower(Some(self.steps), budget.steps).unwrap_or(self.steps),
            time: lower(self.time, budget.time),
            tokens: lower(self.tokens, budget.tokens),
            cost: lower(self.cost, budget.cost),
            ..self
        }
    }
}

impl Default for RunLimits {
    fn default() -> RunLimits {
        RunLimits {
            steps: 20,
            time: None,
            tokens: None,
            cost: None,
            failures: 8,
            malformed_replies: 3,
            invalid_answers: 3,
            compute_failures: 5,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_lowers_limits_and_never_raises_them() {
        let limits = RunLimits {
            time: Some(Duration::from_secs(60)),
            tokens: Some(1000),
            ..RunLimits::default()
        };
        let budget = RunBudget {
            steps: Some(5),
            time: Some(Duration::from_secs(90)),
            tokens: None,
            cost: Some(0.5),
        };
        let expected = RunLimits {
            steps: 5,
            cost: Some(0.5),
            ..limits.clone()
        };
        assert_eq!(limits.within(budget), expected);
    }
}
