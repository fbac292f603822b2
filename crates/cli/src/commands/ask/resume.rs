//! A run that was cut off goes on.

use super::attended::Errand;
use super::options::Ground;
use super::{AskArgs, Keeper, conduct, files, prepare, run_store};
use crate::failure::Usage;
use crate::terminal::{Console, Style, plural};
use cellblock::agent::{
    CompletedCell, ResumedRun, RunEvent, RunStoreError, StoredRun, UnfinishedRun,
};
use cellblock::journal::{Fate, Journal, Journals, Restore};
use cellblock::tools::RecordedCall;
use cellblock::{Event, Host, Session, tools};
use serde_json::{Value, json};
use std::path::PathBuf;

/// How a person wants it to go on.
#[derive(Debug)]
pub(crate) struct Wish {
    /// Its id, the beginning of it, or `last`.
    pub(crate) id: String,
    /// Every event as a line of JSON.
    pub(crate) json: bool,
    /// The answer alone.
    pub(crate) quiet: bool,
    /// Work here.
    pub(crate) workspace: Option<PathBuf>,
}

/// A session to be made again from its journal.
pub(crate) struct Restoration {
    journal: Journal,
    /// What ran, by the record of the run. The journal is written a moment later, and may lack the last of them.
    cells: Vec<CompletedCell>,
    workspace: Option<PathBuf>,
}

/// Takes the run up; its exit status is that of `ask`.
pub(crate) async fn resume(wish: Wish, console: &Console) -> anyhow::Result<u8> {
    let ResumedRun { run, writer } = run_store()?.resume(&wish.id).map_err(told)?;
    let mut args = remembered(&run)?;
    (args.json, args.quiet) = (wish.json, wish.quiet);
    let events = run.events.iter();
    let past = UnfinishedRun::from_events(
        events.filter_map(|stored| serde_json::from_value::<RunEvent>(stored.event.clone()).ok()),
    );
    let journal = journal_of(&run)?;
    if let Some(problem) = &run.incomplete {
        let text = format!("the record of the run is not complete: {problem}");
        console.note(&console.on_err(Style::Warning, "warning:"), &text);
    }
    // Of a session that is made again, the journal has the files too; then only a check wants them.
    let untrusted = args.equipment.session.untrusted_directories();
    let files = match files::read(&args.files, &untrusted) {
        Err(_) if journal.is_some() => Vec::new(),
        files => files?,
    };
    let ground = Ground {
        files,
        restoration: journal.map(|journal| Restoration {
            journal,
            cells: past.as_ref().map(UnfinishedRun::cells).unwrap_or_default(),
            workspace: wish.workspace,
        }),
        ..Ground::default()
    };
    let keeper = Keeper::resume(writer, console);
    ground.note.attach(&keeper);
    let prepared = prepare(&args, ground, console).await?;
    let (conversation, errand) = match past {
        Some(past) => (prepared.agent.resume(past), Errand::GoOn),
        None => (
            prepared.agent.conversation(),
            Errand::Ask(&run.start.question),
        ),
    };
    conduct(
        &args,
        conversation,
        errand,
        keeper,
        prepared.servers,
        console,
    )
    .await
}

/// What `ask` was told then.
fn remembered(run: &StoredRun) -> anyhow::Result<AskArgs> {
    let options = &run.start.options;
    let Some(args) = options.get("ask") else {
        return Err(Usage::hinted(
            format!("the run `{}` is not one of `cellblock ask`", run.id),
            "its session may be restored: see `cellblock sessions`",
        ));
    };
    let args: Result<AskArgs, _> = serde_json::from_value(args.clone());
    let mut args = args.map_err(|error| {
        Usage::plain(format!(
            "how the run `{}` was started cannot be read: {error}",
            run.id
        ))
    })?;
    // What was not known then, or not kept, may be in the environment.
    (args.equipment, _) = args.equipment.settled()?;
    if args.template.is_none() {
        args.question = Some(run.start.question.clone());
    }
    // Paths are relative to where it was started.
    let place = options.get("directory").and_then(Value::as_str);
    if let Some(place) = place {
        std::env::set_current_dir(place)
            .map_err(|error| Usage::plain(format!("the run was started in {place}: {error}")))?;
    }
    Ok(args)
}

/// The journal of the session that it worked in last.
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

impl Restoration {
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
        for (cell, _) in
            unfinished.filter(|(cell, fate)| *fate == Fate::Unfinished && is_open(*cell))
        {
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

impl Restoration {
    /// The cells that the journal does not know the end of.
    fn missing(&self) -> Vec<&CompletedCell> {
        let story = self.journal.story();
        let ended = story.cells.iter().filter(|cell| cell.ended.is_some());
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

/// What a later resume must know about how `ask` was told to work.
pub(super) fn to_remember(args: &AskArgs) -> Value {
    let directory = std::env::current_dir().unwrap_or_default();
    let mut args = args.clone();
    args.equipment.model.forget_secrets();
    json!({"ask": args, "directory": directory})
}

fn told(error: RunStoreError) -> anyhow::Error {
    match &error {
        RunStoreError::Ended { id, .. } => {
            let hint = format!("`cellblock runs show {id}` shows it");
            Usage::hinted(error.to_string(), hint)
        }
        _ => Usage::hinted(error.to_string(), "`cellblock runs` lists what there is"),
    }
}
