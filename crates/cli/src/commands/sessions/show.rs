//! `cellblock sessions show`.

use crate::terminal::{Console, DisplayText, Style, date, milliseconds};
use cellblock::Status;
use cellblock::journal::{CellFate, CellSummary, Journal, Journals, RecordedCall, SessionFate};
use clap::Args;
use serde_json::{Value, json};
use std::io;
use std::process::ExitCode;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ShowArgs {
    /// The id of a journal, or its beginning, or `last`
    id: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  cellblock sessions show last
  cellblock sessions show k3f9 --json | python3 -m json.tool";

pub(super) fn run(
    args: &ShowArgs,
    journals: &Journals,
    console: &Console,
) -> anyhow::Result<ExitCode> {
    let journal = journals.find(&args.id)?.read()?;
    if args.json {
        console.print_json(&as_json(&journal))?;
    } else {
        JournalPage { console }.print(&journal)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn as_json(journal: &Journal) -> Value {
    let summary = journal.summary();
    let cell = |cell: &CellSummary| {
        let ended = cell.ended.as_ref();
        json!({
            "cell": cell.number, "code": cell.cell.code, "timeout": cell.cell.timeout, "atomic": cell.cell.atomic,
            "begun_at": cell.begun_at, "fate": cell.fate,
            "result": ended.map(|ended| &ended.result),
            "calls": ended.map(|ended| &ended.calls),
            "inputs": ended.map(|ended| &ended.inputs),
            "left_out": ended.map(|ended| &ended.left_out),
        })
    };
    let reason = match &journal.fate {
        SessionFate::Ended(reason) => Some(reason),
        _ => None,
    };
    json!({
        "id": journal.id, "session": journal.session, "opened_at": journal.opened_at,
        "state": journal.fate.name(), "reason": reason, "incomplete": journal.incomplete,
        "workspace": journal.workspace, "python": journal.opened.python, "isolation": journal.opened.isolation,
        "options": journal.opened.options,
        "cells": summary.cells.iter().map(cell).collect::<Vec<Value>>(),
    })
}

struct JournalPage<'a> {
    console: &'a Console,
}

impl JournalPage<'_> {
    fn print(&self, journal: &Journal) -> io::Result<()> {
        let console = self.console;
        let opened = &journal.opened;
        let title = console.on_out(Style::Heading, &format!("Session {}", journal.session));
        console.print_line(&format!(
            "{title} · {} · {} · Python {} · isolation {}",
            journal.id,
            date(journal.opened_at),
            opened.python.version,
            opened.isolation
        ))?;
        console.print_guest(&format!("workspace {}\n", journal.workspace.display()))?;
        let summary = journal.summary();
        for cell in &summary.cells {
            self.cell(cell)?;
        }
        let running = summary.cells.iter().rfind(|cell| cell.ended.is_none());
        let end = match (&journal.fate, running) {
            (SessionFate::Alive, _) => "it is alive".to_owned(),
            (SessionFate::Ended(reason), _) => format!("it ended: {reason}"),
            (SessionFate::Died, Some(cell)) => {
                format!("its host died while cell {} ran", cell.number)
            }
            (SessionFate::Died, None) => "its host died".to_owned(),
        };
        console.print_guest(&format!("\n{end}\n"))?;
        if let Some(problem) = &journal.incomplete {
            console.print_guest(&format!("the journal is not complete: {problem}\n"))?;
        }
        Ok(())
    }

    fn cell(&self, cell: &CellSummary) -> io::Result<()> {
        let console = self.console;
        let mut words = vec![format!("cell {}", cell.number)];
        if let Some(ended) = &cell.ended {
            words.push(ended.result.status.to_string());
            words.push(milliseconds(ended.result.usage.wall));
        }
        if cell.fate != CellFate::Kept {
            words.push(cell.fate.name().to_owned());
        }
        console.print_line(&format!(
            "\n{}",
            console.on_out(Style::Dim, &words.join(" · "))
        ))?;
        for (at, line) in cell.cell.code.lines().enumerate() {
            let mark = if at == 0 { ">>>" } else { "..." };
            console.print_guest(&format!("{mark} {line}\n"))?;
        }
        let Some(ended) = &cell.ended else {
            return Ok(());
        };
        for call in &ended.calls {
            console.print_guest(&format!("[{}]\n", called(call)))?;
        }
        let result = &ended.result;
        self.text(&result.output)?;
        for display in &result.displays {
            let (DisplayText::Text(text) | DisplayText::Description(text)) =
                DisplayText::of(display);
            self.text(&text)?;
        }
        if let Some(value) = &result.value {
            self.text(&value.repr)?;
        }
        match &result.error {
            Some(error) => self.text(&error.traceback)?,
            None if result.status != Status::Success => {
                self.text(result.status.name())?;
            }
            None => {}
        }
        for what in &ended.left_out {
            self.text(&format!("(not kept: {what})"))?;
        }
        Ok(())
    }

    /// A guest's text, with a line break at its end.
    fn text(&self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let end = if text.ends_with('\n') { "" } else { "\n" };
        self.console.print_guest(&format!("{text}{end}"))
    }
}

fn called(call: &RecordedCall) -> String {
    let arguments: Vec<String> = call
        .arguments
        .to_map()
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let outcome = serde_json::to_string(&call.outcome).unwrap_or_default();
    format!("{}({}) → {outcome}", call.name, arguments.join(", "))
}
