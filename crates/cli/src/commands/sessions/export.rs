//! `cellblock sessions export`.

use crate::args::SessionArgs;
use crate::terminal::Console;
use anyhow::Context as _;
use cellblock::journal::{Journals, notebook, script};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ExportArgs {
    /// The id of a journal, or its beginning, or `last`
    id: String,
    /// What to make of it: script or notebook
    #[arg(
        long = "as",
        value_name = "FORM",
        default_value = "script",
        hide_possible_values = true,
        hide_default_value = true,
        help = "script, for python3 alone, or notebook, for Jupyter [default: script]"
    )]
    form: Form,
    /// Write to this file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Form {
    Script,
    Notebook,
}

const EXAMPLES: &str = "\
Only what was kept is exported: no cell that was undone, crashed or ran out of time. The script prints what the cells \
printed, with the values of last expressions as `repl` shows them; tools and input() give the recorded answers. It works in \
a new temporary directory (in the current one if the session's workspace was not empty), or in DIR with `python3 SCRIPT \
DIR`, and ends with 1 if a cell ends otherwise than it did.

Examples:
  cellblock sessions export last | python3 -
  cellblock sessions export k3f9 -o analysis.py
  cellblock sessions export k3f9 --as notebook -o analysis.ipynb";

pub(super) fn run(
    args: &ExportArgs,
    journals: &Journals,
    console: &Console,
) -> anyhow::Result<ExitCode> {
    let journal = journals.find(&args.id)?.read()?;
    match (&args.output, args.form) {
        (None, Form::Script) => console.print_guest(&script(&journal))?,
        (None, Form::Notebook) => console.print_pretty_json(&notebook(&journal))?,
        (Some(path), form) => {
            let text = match form {
                Form::Script => script(&journal),
                Form::Notebook => {
                    format!("{}\n", serde_json::to_string_pretty(&notebook(&journal))?)
                }
            };
            SessionArgs::default()
                .untrusted_directories()
                .write(path, text.as_bytes())
                .with_context(|| format!("{} cannot be written", path.display()))?;
        }
    }
    if let Some(problem) = &journal.incomplete {
        console.say(&format!("the journal is not complete: {problem}"));
    }
    Ok(ExitCode::SUCCESS)
}
