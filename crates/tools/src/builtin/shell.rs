//! The tools `run_shell` and `background_process`: commands of a shell in the session's walls, beside its interpreter.

use crate::{Context, Effects, Tool, ToolError};
use cellblock_protocol::{ProcessEnd, ProcessStatus, Spawn};
use cellblock_session::{Process, ProcessEvent, Session};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// The longest time that a command may take when it has no name.
const MAX_SECONDS: u64 = 600;
/// The characters of the beginning and of the end of an output that are shown.
const SHOWN_CHARS: usize = 6_000;
/// How long a background process is watched after its start: a mistake in its command shows at once.
const FIRST_OUTPUT_TIME: Duration = Duration::from_millis(700);
/// How long a read waits for the output that is there already.
const READ_TIME: Duration = Duration::from_millis(100);
/// The most background processes of a session at a time.
const MAX_BACKGROUND: usize = 16;

/// Runs a shell command in the session.
#[derive(Debug)]
pub struct RunShellTool;

/// Runs a command with sh in the workspace, behind the walls of the session. Returns its output and exit code. With a name it goes on in
/// the background, such as a local server: read its output and end it with background_process. Variables of Python are not seen here.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RunShell {
    /// The command, as in a shell script.
    command: String,
    /// Seconds until the command is ended. Not for a background process.
    #[serde(default = "default_seconds")]
    #[schemars(range(min = 1, max = 600))]
    timeout: u64,
    /// A name, to run the command in the background.
    #[serde(default)]
    name: Option<String>,
}

fn default_seconds() -> u64 {
    60
}

impl Tool for RunShellTool {
    type Parameters = RunShell;
    type Output = String;

    fn effects(&self) -> Effects {
        Effects::Code {
            argument: "command",
        }
    }

    fn time_limit(&self) -> Option<Duration> {
        // The command has its own limit.
        Some(Duration::from_secs(MAX_SECONDS + 30))
    }

    async fn call(&self, run: RunShell, context: &Context) -> Result<String, ToolError> {
        let session = context.runner().session().await?;
        let spawn = Spawn {
            argv: vec!["/bin/sh".to_owned(), "-c".to_owned(), run.command],
            ..Spawn::default()
        };
        match run.name {
            Some(name) => start(&session, spawn, name, context).await,
            None => {
                let timeout = Duration::from_secs(run.timeout.clamp(1, MAX_SECONDS));
                let spawn = Spawn {
                    timeout: Some(timeout),
                    ..spawn
                };
                let process = session.spawn(spawn).await?;
                let finished = process.output().await;
                let mut text = part("output", &String::from_utf8_lossy(&finished.stdout));
                text += &part("errors", &String::from_utf8_lossy(&finished.stderr));
                Ok(text + &ended(finished.end))
            }
        }
    }
}

/// Starts a background process, and returns what it wrote at once.
async fn start(
    session: &Session,
    spawn: Spawn,
    name: String,
    context: &Context,
) -> Result<String, ToolError> {
    let running = session.processes();
    if running.iter().any(|info| info.tag.as_ref() == Some(&name)) {
        return Err(ToolError::new(format!(
            "the process `{name}` runs already: end it first with background_process"
        )));
    }
    if running.len() >= MAX_BACKGROUND {
        let message = format!("{MAX_BACKGROUND} processes run already: end one first");
        return Err(ToolError::new(message));
    }
    let spawn = Spawn {
        tag: Some(name.clone()),
        ..spawn
    };
    let process = session.spawn(spawn).await?;
    let started = format!("`{name}` was started.\n");
    let text = new_output(&process, &name, FIRST_OUTPUT_TIME, context).await;
    Ok(started + &text)
}

/// Reads and ends background processes.
#[derive(Debug)]
pub struct BackgroundProcessTool;

/// Reads what a background process of run_shell wrote since the last time, or ends it. Without a name it lists the processes that run.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct BackgroundProcess {
    /// The name that run_shell was given.
    #[serde(default)]
    name: Option<String>,
    /// Whether the process is ended.
    #[serde(default)]
    end: bool,
}

impl Tool for BackgroundProcessTool {
    type Parameters = BackgroundProcess;
    type Output = String;

    async fn call(
        &self,
        wanted: BackgroundProcess,
        context: &Context,
    ) -> Result<String, ToolError> {
        let session = context.runner().session().await?;
        let running = session.processes();
        let names = || {
            let names = running.iter().filter_map(|info| info.tag.clone());
            match names.collect::<Vec<_>>().join(", ").as_str() {
                "" => "No background process runs.".to_owned(),
                names => format!("These processes run: {names}"),
            }
        };
        let Some(name) = wanted.name else {
            return Ok(names());
        };
        let known = context.state::<ReadPositions>();
        let known = known
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .process(&session, &name);
        let process = running
            .iter()
            .find(|info| info.tag.as_ref() == Some(&name))
            .map(|info| info.proc.clone())
            .or(known)
            .and_then(|process| session.process(&process).ok());
        let Some(process) = process else {
            return Err(ToolError::new(format!(
                "there is no process `{name}`. {}",
                names()
            )));
        };
        if wanted.end {
            process.kill().await;
        }
        Ok(new_output(&process, &name, READ_TIME, context).await)
    }
}

/// How far the output of each background process was read, by session and name.
#[derive(Debug, Default)]
struct ReadPositions(HashMap<(String, String), ReadPosition>);

#[derive(Clone, Debug, Default)]
struct ReadPosition {
    process: String,
    bytes: u64,
}

impl ReadPositions {
    /// The process that had this name last.
    fn process(&self, session: &Session, name: &str) -> Option<String> {
        let key = (session.id().to_owned(), name.to_owned());
        Some(self.0.get(&key)?.process.clone())
    }

    fn bytes(&self, key: &(String, String), process: &str) -> u64 {
        let known = self.0.get(key).filter(|known| known.process == process);
        known.map_or(0, |known| known.bytes)
    }
}

/// What a process wrote since the last read, and whether it ended.
async fn new_output(process: &Process, name: &str, time: Duration, context: &Context) -> String {
    let positions = context.state::<ReadPositions>();
    let locked = || {
        positions
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    };
    let session = context.runner().session().await;
    let session = session.map(|session| session.id().to_owned());
    let key = (session.unwrap_or_default(), name.to_owned());
    let proc = process.info().proc.clone();
    let mut at = locked().bytes(&key, &proc);
    let mut events = process.attach(at);
    let mut written = Vec::new();
    let deadline = Instant::now() + time;
    while let Ok(Some(event)) = timeout_at(deadline, events.next()).await {
        match event {
            ProcessEvent::Output { bytes, .. } => {
                at += bytes.len() as u64;
                written.extend_from_slice(&bytes);
            }
            ProcessEvent::Dropped { bytes } => at += bytes,
            ProcessEvent::End(_) => break,
        }
    }
    let position = ReadPosition {
        process: proc,
        bytes: at,
    };
    locked().0.insert(key, position);
    let text = part("output", &String::from_utf8_lossy(&written));
    match process.end() {
        Some(end) => text + &ended(end),
        None => text + "It runs.",
    }
}

/// A labelled part of an output, with its beginning and its end where it is long.
fn part(label: &str, text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let count = text.chars().count();
    let shown = if count > 2 * SHOWN_CHARS {
        let start: String = text.chars().take(SHOWN_CHARS).collect();
        let end: String = text.chars().skip(count - SHOWN_CHARS).collect();
        let left_out = count - 2 * SHOWN_CHARS;
        format!("{start}\n[… {left_out} characters left out …]\n{end}")
    } else {
        text.to_owned()
    };
    format!("{label}:\n{}\n", shown.trim_end_matches('\n'))
}

fn ended(end: ProcessEnd) -> String {
    match (end.status, end.exit_code) {
        (ProcessStatus::Timeout, _) => "It was ended: its time was over.".to_owned(),
        (ProcessStatus::Killed, _) => "It was ended.".to_owned(),
        (_, Some(code)) => format!("exit code: {code}"),
        (_, None) => format!("It was ended by signal {}.", end.signal.unwrap_or_default()),
    }
}
