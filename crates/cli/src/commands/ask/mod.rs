//! `cellblock ask`: a question, and an answer that was computed.

mod attended;
mod display;
mod files;
mod keeping;
mod options;

use crate::commands::live::Signals;
use crate::failure::Usage;
use crate::terminal::{Console, Style};
use anyhow::Context as _;
use cellblock::agent::{Agent, Observer, Outcome, RunStatus, Template};
use cellblock::mcp::Connected;
use clap::Args;
use serde_json::{Map, Value, json};
use std::io::{self, IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

pub(crate) use attended::ask_attended;
pub(crate) use display::Display;
pub(crate) use keeping::{Keeper, kept_runs};
pub(crate) use options::Equipment;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AskArgs {
    /// The question, or - for standard input
    #[arg(value_name = "QUESTION", required_unless_present = "template")]
    question: Option<String>,
    /// Put this file into the workspace
    #[arg(long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Copy the files that the code writes into this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The answer must fit the JSON schema in this file
    #[arg(long, value_name = "FILE", conflicts_with = "template")]
    schema: Option<PathBuf>,
    /// Run this template instead of a question
    #[arg(long, value_name = "FILE", conflicts_with = "question")]
    template: Option<PathBuf>,
    /// An argument of the template: --arg 'readings=[1, 2, 3]'
    #[arg(long = "arg", value_name = "NAME=JSON", requires = "template")]
    arguments: Vec<String>,
    /// Run the cells of the answer again in a clean session, and report what differs
    #[arg(long, conflicts_with = "workspace")]
    verify: bool,
    /// Print every event as a line of JSON, and nothing else
    #[arg(long)]
    json: bool,
    /// Print the answer alone
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    equipment: Equipment,
}

const EXAMPLES: &str = "\
The answer goes to standard output, everything else to standard error.
Ctrl-C interrupts the running code; twice ends the run.

Examples:
  cellblock ask 'How many primes are below a million?' --model gpt-4o-mini
  cellblock ask 'Which month sold best?' --file sales.csv --out charts
  cellblock ask 'The mean and the median?' --file data.csv --schema answer.json --verify
  cellblock ask --template outlier_count.md --arg 'readings=[12, 19, 23, 31, 8, 27]'

Exit status:
  0 answered
  10 max_steps, 11 max_time, 12 max_tokens, 13 max_cost, 14 max_failures, 15 stuck,
  16 malformed_replies, 17 invalid_answer, 18 model_error, 130 cancelled: no answer
  19 answered, but --verify found a difference
  2 wrong usage, 3 could not start";

/// Asks.
pub(crate) fn run(args: &AskArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(ask(args, console));
    // A thread may still wait for a line on standard input.
    runtime.shutdown_background();
    outcome.map(ExitCode::from)
}

async fn ask(args: &AskArgs, console: &Console) -> anyhow::Result<u8> {
    let (agent, question, servers) = prepare(args, console).await?;
    let mut signals = Signals::new()?;
    let observer: Observer = if args.json {
        let console = console.clone();
        Arc::new(move |event| {
            if let Ok(line) = serde_json::to_string(event) {
                // Nobody reads it any more: the run goes on and its status tells.
                let _ = console.print_line(&line);
            }
        })
    } else if args.quiet {
        Arc::new(|_| {})
    } else {
        Display::new(console).observer()
    };
    let mut conversation = agent.conversation();
    let options = json!({"format": agent.format()});
    let keeper = Keeper::begin(&question, agent.model_name(), options, console);
    // Until the end of the run: what it writes is written when it is dropped.
    let _trace = cellblock_trace::start(&cellblock::env::Dirs::from_process()?.state);
    if let Some(id) = keeper.id() {
        conversation.set_run_id(id);
    }
    let observer = keeper.observer(observer);
    let outcome = ask_attended(
        &mut conversation,
        &question,
        observer,
        &mut signals,
        console,
    )
    .await;
    let outcome = outcome.map_err(|error| Usage::plain(error.to_string()))?;
    keeper.end(&outcome);
    let told = tell(args, &outcome, console);
    let taken = match &args.out {
        Some(directory) => take_out(&outcome, &conversation, directory, console).await,
        None => Ok(()),
    };
    conversation.room().close().await;
    servers.close().await;
    told?;
    taken?;
    Ok(status(&outcome))
}

/// The agent, its question, and the servers that tools of it come from.
async fn prepare(args: &AskArgs, console: &Console) -> anyhow::Result<(Agent, String, Connected)> {
    let question = match args.question.as_deref() {
        Some("-") => read_standard_input()?,
        Some(question) => question.to_owned(),
        None => String::new(),
    };
    if args.template.is_none() && question.trim().is_empty() {
        return Err(Usage::plain("the question is empty"));
    }
    let files = files::read(&args.files)?;
    let schema = args.schema.as_deref().map(read_json).transpose()?;
    let template = args.template.as_deref().map(read_template).transpose()?;
    let model = args.equipment.model.open()?;
    let (builder, servers) = args.equipment.agent(model, files, console).await?;
    let mut builder = builder.verify(args.verify);
    if let Some(schema) = schema {
        builder = builder.answer_schema(schema);
    }
    let unfit = |error: cellblock::agent::AgentError| Usage::plain(error.to_string());
    let agent = builder.build().map_err(unfit)?;
    let (agent, question) = match template {
        Some(template) => agent
            .for_template(&template, arguments(&args.arguments)?)
            .map_err(unfit)?,
        None => (agent, question),
    };
    Ok((agent, question, servers))
}

fn tell(args: &AskArgs, outcome: &Outcome, console: &Console) -> anyhow::Result<()> {
    if args.json {
        console.print_line(&json!({"event": "outcome", "outcome": outcome}).to_string())?;
        return Ok(());
    }
    print_outcome(outcome, args.quiet, console)?;
    Ok(())
}

/// The answer on standard output; on a terminal under its label.
pub(crate) fn print_outcome(
    outcome: &Outcome,
    is_quiet: bool,
    console: &Console,
) -> io::Result<()> {
    if outcome.answer.is_some() {
        if !is_quiet {
            console.say(&console.on_err(Style::Heading, "Final answer"));
        }
        console.print_guest(&format!("{}\n", outcome.answer_text()))?;
    } else {
        console.error(&format!(
            "no answer ({}): {}",
            outcome.status,
            outcome.message.as_deref().unwrap_or("no reason is known")
        ));
        if let Some(reached) = outcome.reached.as_ref().filter(|_| !is_quiet) {
            let text: String = reached.chars().take(2_000).collect();
            console.note(&console.on_err(Style::Heading, "reached:"), &text);
        }
    }
    for warning in &outcome.warnings {
        console.note(&console.on_err(Style::Warning, "warning:"), warning);
    }
    if !is_quiet {
        let cost = outcome
            .cost
            .map(|cost| format!(", cost {:.4}", cost.0))
            .unwrap_or_default();
        let line = format!(
            "{} in {} steps, {:.1} s, {} tokens{cost}",
            outcome.status,
            outcome.steps.len(),
            outcome.ms as f64 / 1000.0,
            outcome.usage.total()
        );
        console.say(&console.on_err(Style::Dim, &line));
    }
    Ok(())
}

async fn take_out(
    outcome: &Outcome,
    conversation: &cellblock::agent::Conversation,
    directory: &Path,
    console: &Console,
) -> anyhow::Result<()> {
    let count = files::take_out(outcome, conversation.room().as_ref(), directory).await?;
    let words = format!("{count} files were copied to {}", directory.display());
    console.note(&console.on_err(Style::Dim, "note:"), &words);
    Ok(())
}

fn status(outcome: &Outcome) -> u8 {
    match outcome.status {
        RunStatus::Answered => match &outcome.verification {
            Some(verification) if !verification.is_good() => 19,
            _ => 0,
        },
        RunStatus::MaxSteps => 10,
        RunStatus::MaxTime => 11,
        RunStatus::MaxTokens => 12,
        RunStatus::MaxCost => 13,
        RunStatus::MaxFailures => 14,
        RunStatus::Stuck => 15,
        RunStatus::MalformedReplies => 16,
        RunStatus::InvalidAnswer => 17,
        RunStatus::ModelError => 18,
        RunStatus::Cancelled => 130,
    }
}

fn read_standard_input() -> anyhow::Result<String> {
    if io::stdin().is_terminal() {
        return Err(Usage::hinted(
            "standard input is a terminal",
            "write the question as an argument",
        ));
    }
    let mut text = String::new();
    io::stdin()
        .lock()
        .read_to_string(&mut text)
        .context("cannot read the question from standard input")?;
    Ok(text)
}

fn read_text(flag: &str, path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path)
        .map_err(|error| Usage::plain(format!("{flag} {}: {error}", path.display())))
}

fn read_json(path: &Path) -> anyhow::Result<Value> {
    let text = read_text("--schema", path)?;
    serde_json::from_str(&text).map_err(|error| {
        Usage::plain(format!(
            "--schema {}: it is not JSON: {error}",
            path.display()
        ))
    })
}

fn read_template(path: &Path) -> anyhow::Result<Template> {
    let text = read_text("--template", path)?;
    Template::from_markdown(&text)
        .map_err(|error| Usage::plain(format!("--template {}: {error}", path.display())))
}

fn arguments(entries: &[String]) -> anyhow::Result<Map<String, Value>> {
    entries
        .iter()
        .map(|entry| {
            let (name, json) = entry.split_once('=').ok_or_else(|| {
                Usage::hinted(
                    format!("--arg {entry}: a name and a value are needed"),
                    "write --arg 'name=value'",
                )
            })?;
            let value = serde_json::from_str(json).map_err(|error| {
                let quoted = Value::from(json);
                Usage::hinted(
                    format!("--arg {name}: the value is not JSON: {error}"),
                    format!("a text needs quotes: --arg '{name}={quoted}'"),
                )
            })?;
            Ok((name.to_owned(), value))
        })
        .collect()
}
