//! A session of an earlier run that is rebuilt from its journal.

use crate::failure::Usage;
use crate::terminal::{Console, Style, plural};
use cellblock::agent::{CompletedCell, StoredRun};
use cellblock::journal::{CellFate, Journal, Journals, Restore};
use cellblock::tools::RecordedCall;
use cellblock::{Event, Host, Session, tools};
use serde_json::Value;
use std::path::PathBuf;

/// A session to be made again from its journal.
pub(crate) struct RunRestoration {
    pub(crate) journal: Journal,
    /// What ran, by the record of the run. The journal is written a moment later, and may lack the last of them.
    pub(crate) cells: Vec<CompletedCell>,
    pub(crate) workspace: Option<PathBuf>,
}

/// The journal of the session that a run worked in last.
pub(crate) fn journal_of(run: &StoredRun) -> anyhow::Result<Option<Journal>> {
    let noted = run.events.iter().rev().find_map(|stored| {
        let is_session = stored.event.get("event").and_then(Value::as_str) == Some("session");
        let id = stored.event.get("journal").and_then(Value::as_str);
        id.filter(|_| is_session)
    });
    let Some(id) = noted else {
        return Ok(None);
    };
    let found = journals()?.find(id).and_then(|file| file.read());
    found.map(Some).map_err(|error| {
        Usage::plain(format!(
            "the session of the run `{}` is not known any more: {error}",
            run.id
        ))
    })
}

fn journals() -> anyhow::Result<Journals> {
    let state = cellblock::env::Dirs::from_process()?.state;
    Ok(Journals::new(state.join("journals")))
}

impl RunRestoration {
    /// Replays the cells, and says what differs.
    pub(super) async fn restore(
        self,
        host: &Host,
        console: &Console,
    ) -> anyhow::Result<tools::Session> {
        let mut how = Restore::default().journal(true);
        if let Some(workspace) = &self.workspace {
            how = how.workspace(workspace);
        }
        let restored = how.run(host, &self.journal).await?;
        let report = &restored.report;
        let missing = self.missing();
        for past in &missing {
            run_again(&restored.session, past).await?;
        }
        let dim = |text: &str| console.note(&console.on_err(Style::Dim, "note:"), text);
        let replayed = report.replayed.len() + missing.len();
        let replayed = plural(replayed as u64, "cell");
        dim(&format!("the session was rebuilt: {replayed} replayed"));
        let unfinished = report.left_out.iter();
        let is_open = |cell: u64| !missing.iter().any(|past| past.number == cell);
        for left_out in unfinished
            .filter(|left_out| left_out.fate == CellFate::Unfinished && is_open(left_out.cell))
        {
            let cell = left_out.cell;
            dim(&format!("cell {cell} had not finished; it runs again"));
        }
        if !self.journal.opened.workspace_was_empty && self.workspace.is_none() {
            let place = restored.options.workspace.unwrap_or_default();
            let text = format!("it works in a copy of its directory: {}", place.display());
            dim(&text);
        }
        for difference in &report.differences {
            let label = console.on_err(Style::Warning, "differs:");
            console.note(&label, &difference.to_string());
        }
        if let Some(problem) = &report.incomplete {
            let text = format!("the journal is not complete: {problem}");
            console.note(&console.on_err(Style::Warning, "warning:"), &text);
        }
        Ok(restored.session)
    }
}

impl RunRestoration {
    /// The cells that the journal does not know the end of.
    fn missing(&self) -> Vec<&CompletedCell> {
        let summary = self.journal.summary();
        let ended = summary.cells.iter().filter(|cell| cell.ended.is_some());
        let last = ended.map(|cell| cell.number).max().unwrap_or(0);
        let cells = self.cells.iter();
        cells.filter(|past| past.number > last).collect()
    }
}

/// Runs a cell as it ran then, with the answers that it got.
async fn run_again(session: &Session, past: &CompletedCell) -> anyhow::Result<()> {
    let mut calls = past.calls.clone();
    let mut running = session.start(past.cell.clone())?;
    while let Some(event) = running.next().await {
        match event {
            Event::ToolCall {
                call,
                name,
                arguments,
            } => {
                let arguments = arguments.to_map();
                let same =
                    |known: &RecordedCall| known.name == name && known.arguments == arguments;
                let answer = calls.iter().position(same).map(|index| calls.remove(index));
                running.tool_result(&call, given(answer));
            }
            Event::InputRequest { call, .. } => {
                running.input(&call, Err("no person can type here".to_owned()));
            }
            _ => {}
        }
    }
    Ok(())
}

fn given(answer: Option<RecordedCall>) -> Result<Value, String> {
    match answer {
        Some(RecordedCall {
            output: Some(output),
            ..
        }) => Ok(output
            .structured
            .clone()
            .unwrap_or_else(|| output.to_text().into())),
        Some(RecordedCall { error, .. }) => Err(error.unwrap_or_default()),
        None => Err("this call was not recorded".to_owned()),
    }
}
