//! `cellblock env`: sets of packages that sessions run in.

mod create;
mod list;
mod remove;
mod show;

use crate::terminal::Console;
use cellblock::env::{Environments, StoredEnvironment};
use cellblock::{Error, Packages};
use clap::{Args, Subcommand};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct EnvArgs {
    #[command(subcommand)]
    command: EnvCommand,
}

#[derive(Debug, Subcommand)]
enum EnvCommand {
    /// List the environments, the last used first
    List(list::ListArgs),
    /// Make an environment and give it a name
    Create(create::CreateArgs),
    /// Show what is in one
    Show(show::ShowArgs),
    /// Remove environments
    Remove(remove::RemoveArgs),
    /// Remove those that were not used for longest, down to a size
    Gc(remove::GcArgs),
}

const EXAMPLES: &str = "\
An environment is made once and shared, read-only, by all sessions that name it. Two that resolve to the same versions
are one. Packages that were added to sessions while they lived are kept beside them, as layers.

Examples:
  cellblock env create web httpx 'pydantic>=2'
  cellblock env create project --file pyproject.toml
  cellblock exec --env web -c 'import httpx'
  cellblock env list
  cellblock env gc --keep 5GB";

pub(crate) fn run(args: EnvArgs, console: &Console) -> anyhow::Result<ExitCode> {
    match args.command {
        EnvCommand::List(args) => list::run(&args, console),
        EnvCommand::Create(args) => create::run(args, console),
        EnvCommand::Show(args) => show::run(&args, console),
        EnvCommand::Remove(args) => remove::run(&args, console),
        EnvCommand::Gc(args) => remove::collect(&args, console),
    }
}

fn environments() -> Result<Environments, Error> {
    Ok(Packages::from_process()?.environments().clone())
}

/// `3 min`, `2 h`, `5 days`.
fn age(since: u64) -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let seconds = now.saturating_sub(since);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h", seconds / 3600),
        86_400..172_800 => "1 day".to_owned(),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// What to call it: its names, else what was asked for.
fn called(stored: &StoredEnvironment) -> String {
    if !stored.names.is_empty() {
        return stored.names.join(", ");
    }
    let asked = stored.requirements.join(" ");
    let short: String = asked.chars().take(40).collect();
    if short.len() < asked.len() {
        format!("({short}…)")
    } else {
        format!("({short})")
    }
}
