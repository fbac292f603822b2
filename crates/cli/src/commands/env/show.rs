//! `cellblock env show`.

use super::{age, called, environments};
use crate::terminal::{Console, size};
use clap::Args;
use std::process::ExitCode;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  cellblock env show web\n  cellblock env show 3f2a9c01 --json")]
pub(crate) struct ShowArgs {
    /// Its name, or the beginning of its id
    name: String,
    /// Print it as one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &ShowArgs, console: &Console) -> anyhow::Result<ExitCode> {
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
