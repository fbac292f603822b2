//! `cellblock sessions`: the journals of earlier sessions.

mod restore;
mod show;

use crate::args::SessionArgs;
use crate::failure::Usage;
use crate::terminal::{Console, Style, age, aligned, plural, size};
use anyhow::Context as _;
use cellblock::env::Dirs;
use cellblock::journal::{JournalError, JournalFile, Journals, Summary, notebook, script};
use cellblock::{KeptWorkspaces, parse_age};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SessionsArgs {
    /// Look for journals here [default: journals/ in the state directory]
    #[arg(long, global = true, value_name = "DIR")]
    directory: Option<PathBuf>,
    #[command(flatten)]
    list: ListArgs,
    #[command(subcommand)]
    command: Option<SessionsCommand>,
}

#[derive(Debug, Subcommand)]
enum SessionsCommand {
    /// List the journals, the newest first
    List(ListArgs),
    /// Show the cells of one, with what they printed
    Show(show::ShowArgs),
    /// Replay one into a new session, and go on in it
    Restore(restore::RestoreArgs),
    /// Print one as a script or a notebook
    Export(ExportArgs),
    /// Remove journals, with the workspaces that were made for their sessions
    Remove(RemoveArgs),
}

const EXAMPLES: &str = "\
`repl` and `pipe` write down each cell, its result and what tools answered, so that a session can be made again after \
this program was killed; `exec --journal` does so too. The newest 200 journals, or 200 MB, are kept. An ID may be \
shortened as long as only one journal begins like it; `last` is the newest.

Examples:
  cellblock sessions
  cellblock sessions --json
  cellblock sessions show last
  cellblock sessions restore k3f9
  cellblock sessions restore last --check
  cellblock sessions export last -o analysis.py
  cellblock sessions export last --as notebook -o analysis.ipynb
  cellblock sessions remove --older-than 7d";

/// Runs the subcommand; without one, lists the journals.
pub(crate) fn run(args: SessionsArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let directory = match args.directory {
        Some(directory) => directory,
        None => Dirs::from_process()?.state.join("journals"),
    };
    let journals = Journals::new(directory);
    match args.command {
        None => list(&args.list, &journals, console),
        Some(_) if args.list.json => Err(Usage::misplaced_json("sessions list --json")),
        Some(SessionsCommand::List(args)) => list(&args, &journals, console),
        Some(SessionsCommand::Show(args)) => show::run(&args, &journals, console),
        Some(SessionsCommand::Restore(args)) => restore::run(&args, &journals, console),
        Some(SessionsCommand::Export(args)) => export(&args, &journals, console),
        Some(SessionsCommand::Remove(args)) => remove(&args, &journals, console),
    }
}

#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLES)]
struct ListArgs {
    /// Print a JSON list instead of a table
    #[arg(long)]
    json: bool,
}

const LIST_EXAMPLES: &str = "\
STATE is alive while the session goes on, ended when it was closed or ended by itself, died when its host was killed. LAST is \
how the last cell ended; `running` if it did not. WORKSPACE is `removed` where the directory is not there any more. A journal \
marked with * is not complete.

Examples:
  cellblock sessions list
  cellblock sessions list --json";

fn list(args: &ListArgs, journals: &Journals, console: &Console) -> anyhow::Result<ExitCode> {
    let mut summaries = Vec::new();
    for file in journals.list()? {
        match file.summary() {
            Ok(summary) => summaries.push(summary),
            // One that cannot be read must not hide the others.
            Err(error) => {
                console.note(&console.on_err(Style::Warning, "note:"), &error.to_string())
            }
        }
    }
    if args.json {
        let listed: Result<Vec<Value>, _> = summaries.iter().map(listed).collect();
        console.print_json(&listed?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if summaries.is_empty() {
        let place = journals.directory().display();
        console.say(&format!("no journals in {place}"));
        return Ok(ExitCode::SUCCESS);
    }
    let head = [
        "ID",
        "SESSION",
        "OPENED",
        "CELLS",
        "LAST",
        "STATE",
        "WORKSPACE",
    ]
    .map(str::to_owned);
    let named = |cells: [String; 7]| cells.map(|cell| console.name_on_out(&cell).into_owned());
    let mut rows = vec![head];
    rows.extend(summaries.iter().map(|summary| named(row(summary))));
    for line in aligned(&rows) {
        console.print_guest(&line)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A journal in JSON: what it says, and whether its workspace is still there.
fn listed(summary: &Summary) -> serde_json::Result<Value> {
    let mut listed = serde_json::to_value(summary)?;
    listed["workspace_removed"] = json!(!summary.workspace.exists());
    Ok(listed)
}

fn row(summary: &Summary) -> [String; 7] {
    let last = match (summary.last_status, summary.cells) {
        (Some(status), _) => status.name(),
        (None, 0) => "",
        (None, _) => "running",
    };
    let mark = if summary.incomplete { "*" } else { "" };
    [
        format!("{}{mark}", summary.id),
        summary.session.clone(),
        format!("{} ago", age(summary.opened_at)),
        summary.cells.to_string(),
        last.to_owned(),
        summary.fate.to_owned(),
        match summary.workspace.exists() {
            true => summary.workspace.display().to_string(),
            false => "removed".to_owned(),
        },
    ]
}

#[derive(Debug, Args)]
#[command(after_help = EXPORT_EXAMPLES)]
struct ExportArgs {
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

const EXPORT_EXAMPLES: &str = "\
Only what was kept is exported: no cell that was undone, crashed or ran out of time. The script prints what the cells \
printed, with the values of last expressions as `repl` shows them; tools and input() give the recorded answers. It works in \
a new temporary directory (in the current one if the session's workspace was not empty), or in DIR with `python3 SCRIPT \
DIR`, and ends with 1 if a cell ends otherwise than it did.

Examples:
  cellblock sessions export last | python3 -
  cellblock sessions export k3f9 -o analysis.py
  cellblock sessions export k3f9 --as notebook -o analysis.ipynb";

fn export(args: &ExportArgs, journals: &Journals, console: &Console) -> anyhow::Result<ExitCode> {
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

#[derive(Debug, Args)]
#[command(after_help = REMOVE_EXAMPLES)]
struct RemoveArgs {
    /// Ids of journals, or their beginnings
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Remove all, but those of sessions that are alive
    #[arg(long, conflicts_with_all = ["ids", "older_than"])]
    all: bool,
    /// Remove those that were last written to before this time, such as 12h or 7d
    #[arg(long, value_name = "AGE", value_parser = parse_age, conflicts_with = "ids")]
    older_than: Option<Duration>,
}

const REMOVE_EXAMPLES: &str = "\
Examples:
  cellblock sessions remove k3f9 x2mq
  cellblock sessions remove --older-than 7d
  cellblock sessions remove --all";

fn remove(args: &RemoveArgs, journals: &Journals, console: &Console) -> anyhow::Result<ExitCode> {
    let chosen = match args.older_than {
        _ if args.all => journals.list()?,
        Some(age) => {
            let is_old =
                |file: &JournalFile| file.modified.elapsed().is_ok_and(|elapsed| elapsed >= age);
            journals.list()?.into_iter().filter(is_old).collect()
        }
        None if args.ids.is_empty() => {
            return Err(Usage::hinted(
                "there is nothing to remove",
                "name journals, or give --older-than AGE or --all",
            ));
        }
        // All are looked for before one is removed.
        None => args
            .ids
            .iter()
            .map(|id| journals.find(id))
            .collect::<Result<Vec<_>, _>>()?,
    };
    let workspaces = KeptWorkspaces::new(&Dirs::from_process()?.state);
    let sizes = workspaces.list().unwrap_or_default();
    let (mut removed, mut bytes, mut kept) = (0, 0, 0);
    let mut removed_workspaces = 0;
    for file in chosen {
        let workspace = file.summary().map(|summary| summary.workspace);
        match file.remove() {
            Ok(()) => {
                removed += 1;
                bytes += file.bytes;
                // A directory of the user, or one that another session works in, stays.
                if let Ok(workspace) = workspace
                    && workspaces.remove(&workspace).unwrap_or(false)
                {
                    removed_workspaces += 1;
                    let measured = sizes.iter().find(|one| one.path == workspace);
                    bytes += measured.map_or(0, |one| one.bytes);
                }
            }
            Err(JournalError::Alive { .. }) if args.ids.is_empty() => kept += 1,
            Err(error) => return Err(error.into()),
        }
    }
    let alive = match kept {
        0 => String::new(),
        kept => format!("; {} alive and stayed", plural(kept, "session")),
    };
    let line = format!(
        "{} and {} removed, {}{alive}",
        plural(removed, "journal"),
        plural(removed_workspaces, "workspace"),
        size(bytes)
    );
    console.say(&console.on_err(Style::Dim, &line));
    Ok(ExitCode::SUCCESS)
}
