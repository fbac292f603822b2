//! `cellblock env remove` and `cellblock env gc`.

use super::{called, environments};
use crate::terminal::{Console, plural, size};
use cellblock::env::DEFAULT_BUDGET_BYTES;
use cellblock::parse_size;
use clap::Args;
use std::process::ExitCode;

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

pub(crate) fn run(args: &RemoveArgs, console: &Console) -> anyhow::Result<ExitCode> {
    let environments = environments()?;
    for name in &args.names {
        match environments.remove(name)? {
            Some(gone) => console.say(&format!("removed {name}, {}", size(gone.bytes))),
            None => console.say(&format!("removed the name {name}")),
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn collect(args: &GcArgs, console: &Console) -> anyhow::Result<ExitCode> {
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
