//! What is defined in a session.

use cellblock_tools::{Context, Output, Part, Tool, ToolError, Uses};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// Variables that one answer lists.
const MAX_VARIABLES: usize = 200;

/// Lists the variables of the session.
#[derive(Debug)]
pub struct VariablesTool;

/// Lists the variables that your code has defined, with their types and short summaries (shape, length, value), or shows one of them
/// closely. It is cheaper than printing them, and changes nothing.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Variables {
    /// Show only this variable: its type, its value and its documentation.
    #[serde(default)]
    name: Option<String>,
}

impl Tool for VariablesTool {
    type Parameters = Variables;
    type Output = Output;

    fn uses(&self) -> Uses {
        Uses::Interpreter
    }

    async fn call(&self, wanted: Variables, context: &Context) -> Result<Output, ToolError> {
        let session = context.runner().session().await?;
        if let Some(name) = wanted.name {
            let found = session.inspect(&name).await?;
            let mut text = format!("{name}: {}\n{}", found.type_, found.repr);
            if !found.doc.is_empty() {
                text.push_str(&format!("\n\n{}", found.doc));
            }
            return Ok(Output {
                structured: Some(
                    json!({"name": name, "type": found.type_, "repr": found.repr, "doc": found.doc}),
                ),
                parts: vec![Part::Text(text)],
            });
        }
        let mut list = session.vars().await?;
        let total = list.len();
        list.truncate(MAX_VARIABLES);
        let mut lines: Vec<String> = list
            .iter()
            .map(|variable| {
                format!(
                    "{} ({}): {}",
                    variable.name, variable.type_, variable.summary
                )
            })
            .collect();
        if total > list.len() {
            lines.push(format!("… and {} more", total - list.len()));
        }
        if lines.is_empty() {
            lines.push("Nothing is defined yet.".to_owned());
        }
        Ok(Output {
            structured: Some(json!({"variables": list, "total": total})),
            parts: vec![Part::Text(lines.join("\n"))],
        })
    }
}
