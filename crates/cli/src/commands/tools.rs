//! `cellblock tools`: what models can call, and calling it by hand.

use crate::args::{ApprovalArgs, Audience, ToolboxArgs, tool_runner};
use crate::args::{EnvironmentArgs, PythonArgs, ResultArgs, SessionArgs};
use crate::cell_run::{CellStop, Signals};
use crate::config::ConfigArgs;
use crate::failure::Usage;
use crate::terminal::{Console, Style};
use crate::{failure, process};
use cellblock::tools::{
    Answer, ApprovalRule, Call, Caller, Failure, Registry, SchemaForm, ToolDefinition,
    function_schema,
};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::io::Read as _;
use std::process::ExitCode;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct ToolsArgs {
    #[command(subcommand)]
    command: Option<ToolsCommand>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, Subcommand)]
enum ToolsCommand {
    /// Call a tool by hand
    Call(Box<CallArgs>),
}

const EXAMPLES: &str = "\
Examples:
  cellblock tools                       every tool with its parameters
  cellblock tools undo                  one of them
  cellblock tools --json                their schemas, as a model gets them
  cellblock tools call list_files '{}'  call one";

/// Lists or calls.
pub(crate) fn run(args: ToolsArgs, console: &Console) -> anyhow::Result<ExitCode> {
    match args.command {
        None => list_tools(&args.list, console),
        Some(ToolsCommand::Call(call)) => call_tool(&call, console),
    }
}

#[derive(Debug, Args)]
#[command(after_help = CALL_EXAMPLES)]
pub(crate) struct CallArgs {
    /// The tool
    #[arg(value_name = "NAME")]
    name: String,
    /// Its arguments as a JSON object, or - for standard input
    #[arg(value_name = "JSON", default_value = "{}", hide_default_value = true)]
    arguments: String,
    #[command(flatten)]
    form: ResultArgs,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    toolbox: ToolboxArgs,
    #[command(flatten)]
    approval: ApprovalArgs,
    #[command(flatten)]
    session: SessionArgs,
    #[command(flatten)]
    python: PythonArgs,
    #[command(flatten)]
    environment: EnvironmentArgs,
}

const CALL_EXAMPLES: &str = "\
Examples:
  cellblock tools call compute '{\"code\": \"2**100\", \"description\": \"a power\"}'
  cellblock tools call file_reader '{\"file_path\": \"notes.txt\"}' --workspace .
  echo '{\"python_code_snippet\": \"print(1)\"}' | cellblock tools call execute_python_code -
  cellblock tools call execute_python_code '{\"python_code_snippet\": \"print(1)\"}' --approve all

Exit status:
  0 the tool answered, 1 the call failed or was not allowed, 130 interrupted,
  2 wrong usage: no such tool, or arguments that do not fit, 3 could not start";

/// Calls the tool.
fn call_tool(args: &CallArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let runtime = process::runtime_on_this_thread()?;
    let outcome = runtime.block_on(call(args, console));
    // A thread may still wait for a person.
    runtime.shutdown_background();
    outcome.map(ExitCode::from)
}

async fn call(args: &CallArgs, console: &Console) -> anyhow::Result<u8> {
    let arguments = match args.arguments.as_str() {
        "-" => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| Usage::plain(format!("standard input cannot be read: {error}")))?;
            text
        }
        text => text.to_owned(),
    };
    let mut signals = Signals::new()?;
    let config = args.config.load()?;
    let python = args.python.resolve(&config)?;
    let toolbox = args
        .toolbox
        .open(&python, &config, Audience::Local, console)
        .await?;
    let mut policy = args.approval.policy(&config);
    if args.approval.approve.is_none() {
        // A person who calls a tool by hand has approved it.
        policy = policy.with(args.name.as_str(), ApprovalRule::Allow);
    }
    let runner = tool_runner(
        toolbox.registry.clone(),
        policy,
        &args.session.resolve(&config)?,
        (&python, &args.environment),
        console,
    )?;
    let call = Call {
        id: "call".to_owned(),
        name: args.name.clone(),
        arguments: arguments.into(),
        caller: Caller::User,
    };
    let answer = match signals.or(runner.call(call)).await {
        Ok(answer) => answer,
        Err(CellStop::Signal(signal)) => {
            runner.close().await;
            toolbox.close().await;
            return Ok(128 + signal as u8);
        }
        Err(_) => return Ok(1),
    };
    // Printed before the session is closed, so that a reader does not wait for the clean-up.
    let told = args.tell(&answer, console);
    runner.close().await;
    toolbox.close().await;
    told?;
    Ok(status(&answer))
}

impl CallArgs {
    fn tell(&self, answer: &Answer, console: &Console) -> anyhow::Result<()> {
        if self.form.json {
            let whole = match &answer.outcome {
                Ok(output) => json!({"ok": true, "output": output, "notes": answer.notes}),
                Err(failure) => {
                    json!({"ok": false, "error": failure.to_string(), "notes": answer.notes})
                }
            };
            console.print_json(&whole)?;
            return Ok(());
        }
        if self.form.for_model {
            let text = answer.for_model(self.form.locale, 20_000);
            console.print_guest(&format!("{text}\n"))?;
            return Ok(());
        }
        for note in &answer.notes {
            console.say(&console.on_err(Style::Dim, &console.safe_on_err(note)));
        }
        match &answer.outcome {
            Ok(output) => console.print_guest(&format!("{}\n", output.to_text()))?,
            Err(failure) => console.error(&failure.to_string()),
        }
        Ok(())
    }
}

fn status(answer: &Answer) -> u8 {
    match &answer.outcome {
        Ok(_) => 0,
        Err(Failure::UnknownTool { .. } | Failure::NotJson { .. } | Failure::Invalid { .. }) => {
            failure::USAGE
        }
        Err(_) => 1,
    }
}

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

fn list_tools(args: &ListArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let runtime = process::runtime_on_this_thread()?;
    runtime.block_on(list(args, console))
}

async fn list(args: &ListArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let config = args.config.load()?;
    let toolbox = args
        .toolbox
        .open(
            &args.python.resolve(&config)?,
            &config,
            Audience::Local,
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

/// Wraps a text at this width. Empty lines stay.
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
