//! `cellblock env list`.

use super::{age, called, environments};
use crate::terminal::{Console, Style, plural, size};
use cellblock::env::{StoredEnvironment, StoredKind};
use clap::Args;
use std::process::ExitCode;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  cellblock env list\n  cellblock env list --json")]
pub(crate) struct ListArgs {
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &ListArgs, console: &Console) -> anyhow::Result<ExitCode> {
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
