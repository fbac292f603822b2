//! Continues a run of `cellblock ask` that was cut off.

use super::{AskArgs, prepare, run_and_report};
use crate::agent_run::{
    RunRecorder, RunRestoration, RunSetup, RunTask, journal_of, read_files, run_store,
};
use crate::failure::Usage;
use crate::terminal::{Console, Style};
use cellblock::agent::{ResumedRun, RunEvent, RunStoreError, StoredRun, UnfinishedRun};
use serde_json::{Value, json};
use std::path::PathBuf;

/// The options of a run that is resumed.
#[derive(Debug)]
pub(crate) struct ResumeOptions {
    /// The id of the run, the beginning of it, or `last`.
    pub(crate) id: String,
    /// Whether every event is printed as a line of JSON.
    pub(crate) json: bool,
    /// Whether the answer alone is printed.
    pub(crate) quiet: bool,
    /// The workspace, in the place of the recorded one.
    pub(crate) workspace: Option<PathBuf>,
}

/// Resumes the run. The exit status is that of `ask`.
pub(crate) async fn resume(options: ResumeOptions, console: &Console) -> anyhow::Result<u8> {
    let ResumedRun { run, writer } = run_store()?.resume(&options.id).map_err(told)?;
    let mut args = remembered(&run)?;
    (args.json, args.quiet) = (options.json, options.quiet);
    let events = run.events.iter();
    let past = UnfinishedRun::from_events(
        events.filter_map(|stored| serde_json::from_value::<RunEvent>(stored.event.clone()).ok()),
    );
    let journal = journal_of(&run)?;
    if let Some(problem) = &run.incomplete {
        let text = format!("the record of the run is not complete: {problem}");
        console.note(&console.on_err(Style::Warning, "warning:"), &text);
    }
    if past.is_some() && args.agent_run_args.has_python_tools() {
        let text = "the tools of --tools-dir begin anew: what they kept in memory is lost";
        console.note(&console.on_err(Style::Warning, "warning:"), text);
    }
    // Of a session that is made again, the journal has the files too; then only a check wants them.
    let untrusted = args.agent_run_args.session.untrusted_directories();
    let files = match read_files(&args.files.files, &untrusted) {
        Err(_) if journal.is_some() => Vec::new(),
        files => files?,
    };
    let setup = RunSetup {
        files,
        restoration: journal.map(|journal| RunRestoration {
            journal,
            cells: past.as_ref().map(UnfinishedRun::cells).unwrap_or_default(),
            workspace: options.workspace,
        }),
        ..RunSetup::default()
    };
    let recorder = RunRecorder::resume(writer, console);
    setup.note.attach(&recorder);
    let prepared = prepare(&args, setup, console).await?;
    let (conversation, task) = match past {
        Some(past) => (prepared.agent.resume(past), RunTask::Resume),
        None => (
            prepared.agent.conversation(),
            RunTask::Ask(&run.start.question),
        ),
    };
    run_and_report(
        &args,
        conversation,
        task,
        recorder,
        prepared.servers,
        console,
    )
    .await
}

/// The arguments that `ask` was started with, from the record of the run.
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
    (args.agent_run_args, _) = args.agent_run_args.resolve()?;
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

/// What a later resume must know about how `ask` was told to work.
pub(super) fn to_remember(args: &AskArgs) -> Value {
    let directory = std::env::current_dir().unwrap_or_default();
    let mut args = args.clone();
    args.agent_run_args.model.forget_secrets();
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
