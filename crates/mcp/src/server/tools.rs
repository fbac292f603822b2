//! Tools that only MCP clients need: a program that uses the library has the session itself.

use super::client_sessions::{ForkRunner, Forks, MAIN, find, lock};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cellblock_tools::{Context, Output, Part, RegistryBuilder, Tool, ToolError, Uses};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// Adds the tools for clients: `fork`, `variables` and `write_file`.
pub fn with_tools_for_clients(builder: RegistryBuilder) -> RegistryBuilder {
    builder
        .tool(ForkTool)
        .tool(VariablesTool)
        .tool(WriteFileTool)
}

/// Makes a second session.
#[derive(Debug)]
pub struct ForkTool;

/// Makes a second session that begins where this one stands: the same variables, imports and files, all its own from then on. Use it to
/// try something without risk, or several ways from the same point. Pass the name that you get as `session` to the other tools. A
/// fork's own files and variables never come back by themselves: when it went well, run the same code in main.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Fork {
    /// A name for it, such as try-2. A fork that already has this name is ended and replaced.
    #[serde(default)]
    name: Option<String>,
    /// The session to copy: main, or the name of a fork.
    #[serde(default = "main_session")]
    from: String,
}

fn main_session() -> String {
    MAIN.to_owned()
}

impl Tool for ForkTool {
    type Parameters = Fork;
    type Output = Output;

    fn uses(&self) -> Uses {
        Uses::Interpreter
    }

    async fn call(&self, fork: Fork, context: &Context) -> Result<Output, ToolError> {
        let main = context.runner();
        let forks = main.state::<Forks>();
        let (name, parent, place) = {
            let mut forks = lock(&forks);
            let parent = find(main, &forks, &fork.from).map_err(ToolError::new)?;
            let name = forks.name(fork.name).map_err(ToolError::new)?;
            (name, parent, forks.place().map_err(ToolError::new)?)
        };
        let session = parent.session().await?.fork().await?;
        let runner = main.with_new_state(session);
        // Opens the session now. It is closed with the tool runner.
        let not_copied = runner.session().await?.not_copied().to_vec();
        let earlier = lock(&forks).keep(name.clone(), ForkRunner { runner, place });
        let mut text = format!(
            "The session `{name}` is there, with the variables and files of `{}`. Pass \"session\": \"{name}\" to use it.",
            fork.from
        );
        if let Some(earlier) = earlier {
            earlier.runner.close().await;
            drop(earlier.place);
            text.push_str(" The fork that had this name before is gone.");
        }
        for what in &not_copied {
            text.push_str(&format!("\nNot copied: {what}."));
        }
        let mut structured = json!({"session": name});
        if !not_copied.is_empty() {
            structured["not_copied"] = json!(not_copied);
        }
        Ok(Output {
            structured: Some(structured),
            parts: vec![Part::Text(text)],
        })
    }
}

/// The most variables in an answer.
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

/// Writes a file of the workspace.
#[derive(Debug)]
pub struct WriteFileTool;

/// Writes a file into the workspace, where code reads it under the same path. What was there before is replaced; directories above it are
/// made. Use it to hand over data or source that you have; use Python to make files from data that is already there.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct WriteFile {
    /// The path, relative to the workspace.
    path: String,
    /// What to write.
    content: String,
    /// How the content is given: utf-8 for text as it is, base64 for anything else.
    #[serde(default)]
    encoding: Encoding,
}

/// How content is given.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
enum Encoding {
    /// A text.
    #[default]
    #[serde(rename = "utf-8")]
    Utf8,
    /// Bytes.
    #[serde(rename = "base64")]
    Base64,
}

impl Tool for WriteFileTool {
    type Parameters = WriteFile;
    type Output = Output;

    fn uses(&self) -> Uses {
        Uses::Interpreter
    }

    async fn call(&self, file: WriteFile, context: &Context) -> Result<Output, ToolError> {
        let contents = match file.encoding {
            Encoding::Utf8 => file.content.into_bytes(),
            Encoding::Base64 => STANDARD.decode(file.content.trim()).map_err(|error| {
                ToolError::new(format!(
                    "the content of {:?} is not base64: {error}",
                    file.path
                ))
            })?,
        };
        let session = context.runner().session().await?;
        let path = session
            .workspace_at()
            .to_str()
            .and_then(|root| file.path.strip_prefix(root)?.strip_prefix('/'))
            .unwrap_or(&file.path);
        let bytes = contents.len();
        session.put_file(path, contents).await?;
        Ok(Output {
            structured: Some(json!({"path": path, "bytes": bytes})),
            parts: vec![Part::Text(format!("Wrote {path} ({bytes} bytes)."))],
        })
    }
}
