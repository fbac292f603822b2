//! `cellblock sessions list`.

use super::age;
use crate::terminal::{Console, Style};
use cellblock::journal::{Journals, Summary};
use clap::Args;
use std::process::ExitCode;

#[derive(Debug, Default, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ListArgs {
    /// Print a JSON list instead of a table
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
STATE is alive while the session goes on, ended when it was closed or ended by itself, died when its host was killed. LAST is \
how the last cell ended; `running` if it did not. A journal marked with * is not complete.

Examples:
  cellblock sessions list
  cellblock sessions list --json";

pub(super) fn run(
    args: &ListArgs,
    journals: &Journals,
    console: &Console,
) -> anyhow::Result<ExitCode> {
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
        console.print_json(&summaries)?;
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
    let rows: Vec<[String; 7]> = summaries
        .iter()
        .map(|summary| row(summary).map(|cell| console.name_on_out(&cell).into_owned()))
        .collect();
    let widths: [usize; 7] = std::array::from_fn(|column| {
        let cells = rows.iter().chain([&head]);
        cells
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    });
    console.print_guest(&line(&head, &widths))?;
    for row in &rows {
        console.print_guest(&line(row, &widths))?;
    }
    Ok(ExitCode::SUCCESS)
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
        summary.life.to_owned(),
        summary.workspace.display().to_string(),
    ]
}

fn line(row: &[String; 7], widths: &[usize; 7]) -> String {
    let cells = row.iter().zip(widths);
    let text: Vec<String> = cells
        .map(|(cell, width)| format!("{cell:<width$}"))
        .collect();
    format!("{}\n", text.join("  ").trim_end())
}
