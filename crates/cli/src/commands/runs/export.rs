//! `cellblock runs export`.

use super::unfound;
use crate::args::SessionArgs;
use crate::commands::ask::{journal_of, run_store};
use crate::failure::Usage;
use crate::terminal::Console;
use anyhow::Context as _;
use cellblock::agent::{RunEvent, RunProgress, StoredRun};
use cellblock::journal::{RunRecord, notebook_of_run, script_of_run};
use clap::Args;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ExportArgs {
    /// Its id, the beginning of it, or last
    id: String,
    /// Write a Jupyter notebook to this file, or - for standard output
    #[arg(long, value_name = "FILE", required_unless_present = "script")]
    notebook: Option<PathBuf>,
    /// Write a script for python3 alone to this file, or - for standard output
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Both have the cells whose effects were kept, with recorded answers of tools. The script prints what they print and then the \
answer; where they no longer give the numbers that the answer stands on, it says so and ends with 1.

Examples:
  cellblock runs export last --script answer.py
  cellblock runs export last --notebook answer.ipynb
  cellblock runs export last --script - | python3 -";

pub(super) fn run(args: &ExportArgs, console: &Console) -> anyhow::Result<()> {
    let run = run_store()?.read(&args.id).map_err(unfound)?;
    let Some(journal) = journal_of(&run)? else {
        return Err(Usage::plain(format!(
            "the run `{}` ran no code: there is nothing to export",
            run.id
        )));
    };
    let told = run_record(&run);
    if let Some(path) = &args.script {
        let script = script_of_run(&journal, &told);
        match is_standard_output(path) {
            true => console.print_guest(&script)?,
            false => write(path, &script)?,
        }
    }
    if let Some(path) = &args.notebook {
        let notebook = notebook_of_run(&journal, &told);
        match is_standard_output(path) {
            true => console.print_pretty_json(&notebook)?,
            false => write(
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

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let written = SessionArgs::default()
        .untrusted_directories()
        .write(path, text.as_bytes());
    written.with_context(|| format!("{} cannot be written", path.display()))
}

fn run_record(run: &StoredRun) -> RunRecord {
    let mut of_step: HashMap<usize, String> = HashMap::new();
    let mut thoughts: BTreeMap<u64, String> = BTreeMap::new();
    for stored in &run.events {
        match serde_json::from_value(stored.event.clone()) {
            Ok(RunEvent::Thought { step, text }) => {
                of_step.insert(step, text);
            }
            Ok(RunEvent::Done { step, done, .. }) => {
                // Before the first cell of a step, not before each.
                if let Some(cell) = done.result.map(|result| result.cell)
                    && let Some(thought) = of_step.remove(&step)
                {
                    thoughts.insert(cell, thought);
                }
            }
            _ => {}
        }
    }
    let answer = match &run.progress {
        RunProgress::Ended(end) => end.answer.clone(),
        RunProgress::Running | RunProgress::CutOff => None,
    };
    RunRecord {
        run: run.id.clone(),
        question: run.start.question.clone(),
        thoughts,
        answer,
    }
}
