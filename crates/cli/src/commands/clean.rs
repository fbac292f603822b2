//! `cellblock clean`: what ended sessions left behind, and how much of it goes.

use crate::kept_workspaces::retention_of_user;
use crate::terminal::{Console, Style, age, plural, size};
use anyhow::Context as _;
use cellblock::env::Dirs;
use cellblock::{KeptWorkspace, KeptWorkspaces, WorkspaceRetention, parse_age, parse_size};
use clap::Args;
use serde_json::json;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CleanArgs {
    /// Remove workspaces in which nothing changed for this long [default: 7d]
    #[arg(long, value_name = "AGE", value_parser = parse_age)]
    older_than: Option<Duration>,
    /// Remove the oldest workspaces until the rest has this size [default: 10GB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max: Option<u64>,
    /// Remove the workspaces of all ended sessions
    #[arg(long, conflicts_with_all = ["older_than", "max"])]
    all: bool,
    /// Only show what there is
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Sessions that were not given a directory work in a fresh one below the state directory. It stays when the session ends, so that its \
files can be fetched; after 7 days, or beyond 10 GB, the oldest are removed when a session is opened. CELLBLOCK_KEEP_WORKSPACES=30d and \
CELLBLOCK_MAX_WORKSPACES=50GB change that. Workspaces of living sessions and directories of yours are never removed.

Examples:
  cellblock clean --dry-run
  cellblock clean
  cellblock clean --older-than 1d
  cellblock clean --all";

/// Shows what there is, and removes what may go.
pub(crate) fn run(args: &CleanArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let state = Dirs::from_process()?.state;
    let kept = KeptWorkspaces::new(&state);
    let usual = retention_of_user()?;
    let retention = match args.all {
        true => WorkspaceRetention {
            max_age: Duration::ZERO,
            max_bytes: 0,
        },
        false => WorkspaceRetention {
            max_age: args.older_than.unwrap_or(usual.max_age),
            max_bytes: args.max.unwrap_or(usual.max_bytes),
        },
    };
    let mut all = kept.list().context("workspaces cannot be listed")?;
    // Those of sessions that are kept ready, or that have written nothing: there is nothing to clean.
    all.retain(|one| !(one.is_in_use && one.bytes == 0));
    let removed = match args.dry_run {
        true => Vec::new(),
        false => kept.remove_expired(retention)?,
    };
    if args.json {
        print_json(&all, &removed, console)?;
    } else {
        print_table(&all, &removed, &state, console)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn total(workspaces: &[KeptWorkspace]) -> u64 {
    workspaces.iter().map(|one| one.bytes).sum()
}

fn seconds_since_1970(time: SystemTime) -> f64 {
    let since = time.duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}

fn print_json(
    all: &[KeptWorkspace],
    removed: &[KeptWorkspace],
    console: &Console,
) -> anyhow::Result<()> {
    let workspaces = all.iter().map(|one| {
        json!({
            "path": one.path,
            "bytes": one.bytes,
            "last_change": seconds_since_1970(one.last_change),
            "in_use": one.is_in_use,
            "removed": removed.iter().any(|gone| gone.path == one.path),
        })
    });
    let workspaces: Vec<_> = workspaces.collect();
    console.print_json(&json!({"workspaces": workspaces, "freed": total(removed)}))?;
    Ok(())
}

fn print_table(
    all: &[KeptWorkspace],
    removed: &[KeptWorkspace],
    state: &Path,
    console: &Console,
) -> anyhow::Result<()> {
    for workspace in all {
        let is_removed = removed.iter().any(|gone| gone.path == workspace.path);
        let what = match (workspace.is_in_use, is_removed) {
            (true, _) => "in use",
            (_, true) => "removed",
            _ => "kept",
        };
        let line = format!(
            "{:>10}  {:>8} ago  {what:<8}  {}",
            size(workspace.bytes),
            age(seconds_since_1970(workspace.last_change)),
            console.name_on_out(&workspace.path.display().to_string())
        );
        console.print_guest(&format!("{line}\n"))?;
    }
    let count = plural(all.len() as u64, "workspace");
    let line = format!(
        "{count}, {}; {} freed",
        size(total(all)),
        size(total(removed))
    );
    console.say(&console.on_err(Style::Dim, &line));
    for (directory, what, command) in [
        ("journals", "journals", "cellblock sessions remove"),
        ("runs", "runs", "cellblock runs remove"),
    ] {
        let bytes = size_of_files(&state.join(directory));
        if bytes > 0 {
            let line = format!("{what}: {} (`{command}`)", size(bytes));
            console.say(&console.on_err(Style::Dim, &line));
        }
    }
    Ok(())
}

fn size_of_files(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| entry.metadata().ok());
    files.map(|metadata| metadata.len()).sum()
}
