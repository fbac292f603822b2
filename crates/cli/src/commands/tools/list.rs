//! The tools there are.

use crate::args::PythonArgs;
use crate::commands::runtime;
use crate::commands::toolbox::{Audience, ToolboxArgs};
use crate::config::ConfigArgs;
use crate::failure::Usage;
use crate::terminal::{Console, Style};
use cellblock::tools::{Registry, SchemaForm, ToolDefinition, function_schema};
use clap::Args;
use serde_json::Value;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only this tool
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Print the schemas as a JSON list, in the form of OpenAI's API
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    toolbox: ToolboxArgs,
    #[command(flatten)]
    python: PythonArgs,
}

pub(crate) fn run(args: &ListArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let runtime = runtime::on_this_thread()?;
    runtime.block_on(list(args, console))
}

async fn list(args: &ListArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let config = args.config.load()?;
    let toolbox = args
        .toolbox
        .open(
            &args.python.settled(&config)?,
            &config,
            Audience::Us,
            console,
        )
        .await?;
    let printed = args.print(&toolbox.registry, console);
    toolbox.close().await;
    printed?;
    Ok(ExitCode::SUCCESS)
}

impl ListArgs {
    fn print(&self, registry: &Registry, console: &Console) -> anyhow::Result<()> {
        let mut chosen: Vec<&ToolDefinition> = registry.definitions().collect();
        if let Some(name) = &self.name {
            let definition = registry.get(name).ok_or_else(|| {
                Usage::hinted(
                    format!("there is no tool `{name}`"),
                    format!("the tools are {}", registry.names().join(", ")),
                )
            })?;
            chosen = vec![definition];
        }
        if self.json {
            let schemas: Vec<Value> = chosen
                .iter()
                .map(|definition| function_schema(definition, SchemaForm::Plain))
                .collect();
            console.print_pretty_json(&schemas)?;
        } else {
            let texts: Vec<String> = chosen.iter().map(|tool| described(tool, console)).collect();
            console.print(&texts.join("\n"))?;
        }
        Ok(())
    }
}

fn described(tool: &ToolDefinition, console: &Console) -> String {
    let mut text = format!(
        "{}\n",
        console.on_out(Style::Heading, &console.name_on_out(&tool.name))
    );
    for line in wrapped(&console.safe_on_out(&tool.description), 96) {
        text.push_str(&format!("  {line}\n"));
    }
    let required: Vec<&str> = match tool.parameters.get("required") {
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let properties = tool.parameters.get("properties").and_then(Value::as_object);
    for (name, schema) in properties.into_iter().flatten() {
        let mut notes = vec![kind(schema)];
        match schema.get("default") {
            Some(default) => notes.push(format!("default {default}")),
            None if !required.contains(&name.as_str()) => notes.push("optional".to_owned()),
            None => {}
        }
        let about = schema
            .get("description")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let about = console.safe_on_out(about);
        let label = console.on_out(Style::Good, &console.name_on_out(name));
        text.push_str(
            &format!("    {label} ({}): {about}\n", notes.join(", ")).replace(": \n", "\n"),
        );
    }
    text
}

fn kind(schema: &Value) -> String {
    let name = |kind: &Value| kind.as_str().unwrap_or("any").to_owned();
    match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().map(name).collect::<Vec<_>>().join(" or "),
        Some(kind) => name(kind),
        None => match schema.get("$ref").and_then(Value::as_str) {
            Some(target) => target.rsplit('/').next().unwrap_or("object").to_owned(),
            None => "any".to_owned(),
        },
    }
}

/// The words on lines of at most so many characters; empty lines stay.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in text.split("\n\n") {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        let mut line = String::new();
        for word in paragraph.split_whitespace() {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    lines
}
