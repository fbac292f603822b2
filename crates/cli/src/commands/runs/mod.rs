//! `cellblock runs`: what was asked before.

mod export;

use crate::commands::ask::{Wish, resume, run_store};
use crate::commands::runtime;
use crate::failure::Usage;
use crate::terminal::Console;
use cellblock::agent::{RunProgress, RunStoreError, StoredRun};
use clap::{Args, Subcommand};
use export::ExportArgs;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunsArgs {
    #[command(subcommand)]
    order: Option<Order>,
}

#[derive(Debug, Subcommand)]
enum Order {
    /// List the runs, the newest first
    List {
        /// As JSON lines
        #[arg(long)]
        json: bool,
    },
    /// Show what happened in a run
    Show {
        /// Its id, the beginning of it, or last
        id: String,
        /// Every event as a line of JSON
        #[arg(long)]
        json: bool,
    },
    /// Go on with a run whose program was killed: its session is rebuilt, and nothing is asked twice
    Resume {
        /// Its id, the beginning of it, or last
        id: String,
        /// Every event as a line of JSON
        #[arg(long)]
        json: bool,
        /// Print the answer alone
        #[arg(short, long)]
        quiet: bool,
        /// Work in this directory, which may be the one the run worked in [default: a copy of it, or a fresh one]
        #[arg(short, long, value_name = "DIR")]
        workspace: Option<PathBuf>,
    },
    /// Write a run as a notebook or as a script
    Export(ExportArgs),
    /// Remove a run
    Remove {
        /// Its id, or the beginning of it
        id: String,
    },
}

const EXAMPLES: &str = "\
Examples:
  cellblock runs
  cellblock runs show last
  cellblock runs resume last
  cellblock runs export last --script answer.py --notebook answer.ipynb";

/// Does what was ordered.
pub(crate) fn run(args: RunsArgs, console: &Console) -> anyhow::Result<ExitCode> {
    match args.order.unwrap_or(Order::List { json: false }) {
        Order::List { json } => list(json, console)?,
        Order::Show { id, json } => show(&id, json, console)?,
        Order::Resume {
            id,
            json,
            quiet,
            workspace,
        } => {
            return go_on(
                Wish {
                    id,
                    json,
                    quiet,
                    workspace,
                },
                console,
            );
        }
        Order::Export(args) => export::run(&args, console)?,
        Order::Remove { id } => {
            run_store()?.remove(&id).map_err(unfound)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn go_on(wish: Wish, console: &Console) -> anyhow::Result<ExitCode> {
    let runtime = runtime::on_threads(2)?;
    let outcome = runtime.block_on(resume(wish, console));
    runtime.shutdown_background();
    outcome.map(ExitCode::from)
}

fn list(is_json: bool, console: &Console) -> anyhow::Result<()> {
    for file in run_store()?.list()? {
        // One that cannot be read does not hide the others.
        let Ok(run) = StoredRun::read(&file.path) else {
            continue;
        };
        let line = if is_json {
            json!({"id": run.id, "at": run.at, "question": run.start.question, "model": run.start.model, "status": status(&run)}).to_string()
        } else {
            let question: String = run
                .start
                .question
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .chars()
                .take(60)
                .collect();
            format!("{}  {:<18} {question}", run.id, status(&run))
        };
        console.print_guest(&format!("{line}\n"))?;
    }
    Ok(())
}

fn show(id: &str, is_json: bool, console: &Console) -> anyhow::Result<()> {
    let run = run_store()?.read(id).map_err(unfound)?;
    if is_json {
        for stored in &run.events {
            console.print_json(&stored.event)?;
        }
        return Ok(());
    }
    let mut lines = vec![format!("Question\n{}", run.start.question)];
    for stored in &run.events {
        lines.extend(told(&stored.event));
    }
    match &run.progress {
        RunProgress::Ended(end) => match &end.answer {
            Some(answer) => lines.push(format!("Final answer\n{answer}")),
            None => lines.push(format!("No answer ({})", end.status)),
        },
        RunProgress::Running => lines.push("(it goes on)".to_owned()),
        RunProgress::CutOff => lines.push("(its program ended before it)".to_owned()),
    }
    lines.extend(
        run.incomplete
            .iter()
            .map(|problem| format!("(not complete: {problem})")),
    );
    console.print_guest(&format!("{}\n", lines.join("\n")))?;
    Ok(())
}

/// An event in words, where it is worth some.
fn told(event: &Value) -> Option<String> {
    let text = |pointer: &str| {
        event
            .pointer(pointer)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
    };
    match text("/event")? {
        "thought" => Some(format!("Thinking\n{}", text("/text")?)),
        "code" => Some(format!("Executing code\n{}", text("/code")?)),
        "call" => Some(format!(
            "Calling {}\n{}",
            text("/name")?,
            event.get("arguments")?
        )),
        "done" => Some(format!("Result\n{}", text("/done/text")?)),
        "malformed" => Some(format!("Note\n{}", text("/problem")?)),
        "note" => Some(format!("Note\n{}", text("/text")?)),
        _ => None,
    }
}

fn status(run: &StoredRun) -> &str {
    match &run.progress {
        RunProgress::Running => "running",
        RunProgress::CutOff => "cut off",
        RunProgress::Ended(end) => &end.status,
    }
}

fn unfound(error: RunStoreError) -> anyhow::Error {
    Usage::hinted(error.to_string(), "`cellblock runs` lists what there is")
}
