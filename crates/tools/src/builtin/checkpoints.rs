//! What can be gone back to.

use crate::{Context, Output, Part, Tool, ToolError, Uses};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// Lists the checkpoints of the session.
#[derive(Debug)]
pub struct CheckpointsTool;

/// Lists the checkpoints of the session, newest first: the cells after whose state the tool undo can go back to.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Checkpoints {}

impl Tool for CheckpointsTool {
    type Parameters = Checkpoints;
    type Output = Output;

    fn uses(&self) -> Uses {
        Uses::Interpreter
    }

    async fn call(&self, _: Checkpoints, context: &Context) -> Result<Output, ToolError> {
        let session = context.workbench().session().await?;
        let (state, entries) = session.checkpoints().await?;
        let cells: Vec<String> = entries
            .iter()
            .map(|entry| match entry.cell {
                0 => "the beginning".to_owned(),
                cell => format!("after cell {cell}"),
            })
            .collect();
        let text = match (cells.is_empty(), &state.reason) {
            (false, _) => format!("Checkpoints, newest first: {}", cells.join(", ")),
            (true, Some(reason)) => format!("There is no checkpoint: {reason}"),
            (true, None) => "There is no checkpoint.".to_owned(),
        };
        // Times and sizes differ from machine to machine: they are for programs.
        Ok(Output {
            structured: Some(json!({"state": state, "checkpoints": entries})),
            parts: vec![Part::Text(text)],
        })
    }
}
