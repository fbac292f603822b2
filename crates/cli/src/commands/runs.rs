//! `cellblock runs`: what was asked before.

use super::ask::{ResumeOptions, resume};
use crate::agent_run::{journal_of, run_store};
use crate::args::SessionArgs;
use crate::failure::Usage;
use crate::process;
use crate::terminal::{Console, date};
use anyhow::Context as _;
use cellblock::agent::{RunProgress, RunStoreError, StoredRun};
use cellblock::journal::{RunRecord, notebook_of_run, script_of_run};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunsArgs {
    /// Print the list as JSON lines
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    command: Option<RunsCommand>,
}

#[derive(Debug, Subcommand)]
enum RunsCommand {
    /// List the runs, the newest first
    List {
        /// Print JSON lines
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
    /// Go on with a run whose program was killed, that was stopped, or whose model failed: its session is rebuilt, and nothing is asked twice
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
  cellblock runs --json
  cellblock runs show last
  cellblock runs resume last
  cellblock runs export last --script answer.py --notebook answer.ipynb";

/// Does what was ordered.
pub(crate) fn run(args: RunsArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let command = match args.command {
        None => RunsCommand::List { json: args.json },
        Some(_) if args.json => return Err(Usage::misplaced_json("runs list --json")),
        Some(command) => command,
    };
    match command {
        RunsCommand::List { json } => list(json, console)?,
        RunsCommand::Show { id, json } => show(&id, json, console)?,
        RunsCommand::Resume {
            id,
            json,
            quiet,
            workspace,
        } => {
            return resume_run(
                ResumeOptions {
                    id,
                    json,
                    quiet,
                    workspace,
                },
                console,
            );
        }
        RunsCommand::Export(args) => export(&args, console)?,
        RunsCommand::Remove { id } => {
            run_store()?.remove(&id).map_err(unfound)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn resume_run(options: ResumeOptions, console: &Console) -> anyhow::Result<ExitCode> {
    let runtime = process::runtime_on_threads(2)?;
    let outcome = runtime.block_on(resume(options, console));
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
            format!(
                "{}  {}  {:<18} {question}",
                run.id,
                date(run.at),
                status(&run)
            )
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
        lines.extend(event_text(&stored.event));
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

/// An event in words. `None` for events that are not shown.
fn event_text(event: &Value) -> Option<String> {
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

#[derive(Debug, Args)]
#[command(after_help = EXPORT_EXAMPLES)]
struct ExportArgs {
    /// Its id, the beginning of it, or last
    id: String,
    /// Write a Jupyter notebook to this file, or - for standard output
    #[arg(long, value_name = "FILE", required_unless_present = "script")]
    notebook: Option<PathBuf>,
    /// Write a script for python3 alone to this file, or - for standard output
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
}

const EXPORT_EXAMPLES: &str = "\
Both have the cells whose effects were kept, with recorded answers of tools. The script prints what the \
cells compute. Where they no longer give the numbers that the answer stands on, it says so and ends with 1.

Examples:
  cellblock runs export last --script answer.py
  cellblock runs export last --notebook answer.ipynb
  cellblock runs export last --script - | python3 -";

fn export(args: &ExportArgs, console: &Console) -> anyhow::Result<()> {
    let run = run_store()?.read(&args.id).map_err(unfound)?;
    let Some(journal) = journal_of(&run)? else {
        return Err(Usage::plain(format!(
            "the run `{}` ran no code: there is nothing to export",
            run.id
        )));
    };
    let told = transcript(&run);
    if let Some(path) = &args.script {
        let script = script_of_run(&journal, &told);
        match is_standard_output(path) {
            true => console.print_guest(&script)?,
            false => write_file(path, &script)?,
        }
    }
    if let Some(path) = &args.notebook {
        let notebook = notebook_of_run(&journal, &told);
        match is_standard_output(path) {
            true => console.print_pretty_json(&notebook)?,
            false => write_file(
                path,
                &format!("{}\n", serde_json::to_string_pretty(&notebook)?),
            )?,
        }
    }
    if let Some(problem) = &journal.incomplete {
        console.say(&format!("the journal is not complete: {problem}"));
    }
    Ok(())
}

fn is_standard_output(path: &Path) -> bool {
    path == Path::new("-")
}

fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    let written = SessionArgs::default()
        .untrusted_directories()
        .write(path, text.as_bytes());
    written.with_context(|| format!("{} cannot be written", path.display()))
}

fn transcript(run: &StoredRun) -> RunRecord {
    let answer = match &run.progress {
        RunProgress::Ended(end) => end.answer.clone(),
        RunProgress::Running | RunProgress::CutOff => None,
    };
    RunRecord {
        run: run.id.clone(),
        question: run.start.question.clone(),
        thoughts: run.thoughts_by_cell(),
        answer,
    }
}
