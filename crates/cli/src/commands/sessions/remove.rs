//! `cellblock sessions remove`.

use crate::failure::Usage;
use crate::terminal::{Console, Style, plural, size};
use cellblock::journal::{JournalError, JournalFile, Journals};
use cellblock::parse_duration;
use clap::Args;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct RemoveArgs {
    /// Ids of journals, or their beginnings
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Remove all, but those of sessions that are alive
    #[arg(long, conflicts_with_all = ["ids", "older_than"])]
    all: bool,
    /// Remove those that were last written to before this time, such as 12h or 7d
    #[arg(long, value_name = "AGE", value_parser = parse_duration, conflicts_with = "ids")]
    older_than: Option<Duration>,
}

const EXAMPLES: &str = "\
Examples:
  cellblock sessions remove k3f9 x2mq
  cellblock sessions remove --older-than 7d
  cellblock sessions remove --all";

pub(super) fn run(
    args: &RemoveArgs,
    journals: &Journals,
    console: &Console,
) -> anyhow::Result<ExitCode> {
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
    let (mut removed, mut bytes, mut kept) = (0, 0, 0);
    for file in chosen {
        match file.remove() {
            Ok(()) => {
                removed += 1;
                bytes += file.bytes;
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
        "{} removed, {}{alive}",
        plural(removed, "journal"),
        size(bytes)
    );
    console.say(&console.on_err(Style::Dim, &line));
    Ok(ExitCode::SUCCESS)
}
