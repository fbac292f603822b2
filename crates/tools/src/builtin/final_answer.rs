//! The tool `final_answer`: code hands over the answer of a run.

use crate::{Context, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// Ends a run of an agent with a value that the code computed. The agent reads the value from the calls of the cell; the tool only checks
/// that there is one.
#[derive(Clone, Copy, Debug)]
pub struct FinalAnswerTool;

/// Ends the task with this answer. Call it once, when the code has computed the answer.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct FinalAnswer {
    /// The answer: a text, a number, a list or a dict.
    answer: Value,
}

impl Tool for FinalAnswerTool {
    type Parameters = FinalAnswer;
    type Output = &'static str;

    async fn call(&self, given: FinalAnswer, _: &Context) -> Result<&'static str, ToolError> {
        let is_empty = match &given.answer {
            Value::Null => true,
            Value::String(text) => text.trim().is_empty(),
            _ => false,
        };
        if is_empty {
            return Err(ToolError::new("the answer is empty; compute it first"));
        }
        Ok("received")
    }
}
