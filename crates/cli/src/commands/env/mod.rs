//! `cellblock env`: sets of packages that sessions run in.

mod create;

use crate::terminal::{Console, Style, plural, size};
use cellblock::env::{DEFAULT_BUDGET_BYTES, Environments, StoredEnvironment, StoredKind};
use cellblock::{Error, Packages, parse_size};
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
    List(ListArgs),
    /// Make an environment and give it a name
    Create(create::CreateArgs),
    /// Show what is in one
    Show(ShowArgs),
    /// Remove environments
    Remove(RemoveArgs),
    /// Remove those that were not used for longest, down to a size
    Gc(GcArgs),
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
        EnvCommand::List(args) => list(&args, console),
        EnvCommand::Create(args) => create::run(args, console),
        EnvCommand::Show(args) => show(&args, console),
        EnvCommand::Remove(args) => remove(&args, console),
        EnvCommand::Gc(args) => collect_garbage(&args, console),
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

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  cellblock env list\n  cellblock env list --json")]
pub(crate) struct ListArgs {
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

fn list(args: &ListArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let environments = environments()?;
    let all = environments.list();
    if args.json {
        console.print_json(&all)?;
        return Ok(ExitCode::SUCCESS);
    }
    if all.is_empty() {
        console.say("no environments; `cellblock env create NAME PACKAGE…` makes one");
        return Ok(ExitCode::SUCCESS);
    }
    console.print_line(&row([
        "ID", "PYTHON", "PACKAGES", "SIZE", "MADE", "USED", "NAME",
    ]))?;
    for stored in &all {
        console.print_line(&described(stored))?;
    }
    let total: u64 = all.iter().map(|stored| stored.bytes).sum();
    let line = format!(
        "{}, {}",
        plural(all.len() as u64, "environment"),
        size(total)
    );
    console.say(&console.on_err(Style::Dim, &line));
    Ok(ExitCode::SUCCESS)
}

fn described(stored: &StoredEnvironment) -> String {
    let used = match stored.in_use {
        true => "now".to_owned(),
        false => age(stored.used),
    };
    let name = match stored.kind {
        StoredKind::Environment => called(stored),
        StoredKind::Layer => format!("layer {}", called(stored)),
    };
    row([
        &stored.id[..stored.id.len().min(8)],
        &stored.python.to_string(),
        &stored.packages.len().to_string(),
        &size(stored.bytes),
        &age(stored.made),
        &used,
        &name,
    ])
}

fn row([id, python, packages, size, made, used, name]: [&str; 7]) -> String {
    format!("{id:<8}  {python:<8}  {packages:>8}  {size:>9}  {made:>8}  {used:>8}  {name}")
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  cellblock env show web\n  cellblock env show 3f2a9c01 --json")]
pub(crate) struct ShowArgs {
    /// Its name, or the beginning of its id
    name: String,
    /// Print it as one JSON object
    #[arg(long)]
    json: bool,
}

fn show(args: &ShowArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let stored = environments()?.find(&args.name)?;
    if args.json {
        console.print_json(&stored)?;
        return Ok(ExitCode::SUCCESS);
    }
    let used = match stored.in_use {
        true => "in use now".to_owned(),
        false => format!("used {} ago", age(stored.used)),
    };
    for (label, text) in [
        ("name", called(&stored)),
        ("id", stored.id.clone()),
        ("python", stored.python.to_string()),
        ("path", stored.path.display().to_string()),
        ("size", size(stored.bytes)),
        ("made", format!("{} ago, {used}", age(stored.made))),
        ("by", stored.installer.clone()),
        ("wanted", stored.requirements.join(" ")),
    ] {
        console.print_line(&format!("{label:<8} {text}"))?;
    }
    for package in &stored.packages {
        console.print_line(&format!("  {} {}", package.name, package.version))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  cellblock env remove web\n  cellblock env remove 3f2a9c01 77aa0b12"
)]
pub(crate) struct RemoveArgs {
    /// Names, or the beginnings of ids
    #[arg(required = true)]
    names: Vec<String>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "What is in use stays. The same happens by itself when a new environment is made.\n\nExamples:\n  cellblock env gc\n  cellblock env gc --keep 2GB\n  cellblock env gc --keep 0 --json"
)]
pub(crate) struct GcArgs {
    /// What may stay [default: 10GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    keep: Option<u64>,
    /// Print what went as one JSON array
    #[arg(long)]
    json: bool,
}

fn remove(args: &RemoveArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let environments = environments()?;
    for name in &args.names {
        match environments.remove(name)? {
            Some(gone) => console.say(&format!("removed {name}, {}", size(gone.bytes))),
            None => console.say(&format!("removed the name {name}")),
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn collect_garbage(args: &GcArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let gone = environments()?.collect_garbage(args.keep.unwrap_or(DEFAULT_BUDGET_BYTES))?;
    for stored in &gone {
        if !args.json {
            console.say(&format!(
                "removed {} {}, {}",
                stored.id,
                called(stored),
                size(stored.bytes)
            ));
        }
    }
    if args.json {
        console.print_json(&gone)?;
    } else {
        let total: u64 = gone.iter().map(|stored| stored.bytes).sum();
        let count = plural(gone.len() as u64, "environment");
        console.say(&format!("{count} removed, {} freed", size(total)));
    }
    Ok(ExitCode::SUCCESS)
}
