//! Runs a cell and streams what it writes, one JSON object in a line.

use super::contexts::{CodeContext, Language};
use super::error::E2bError;
use super::javascript::{Interpreter, InterpreterMessage};
use super::joined_output::{JoinedOutput, Output};
use super::outputs::{display_line, error_line, value_line};
use super::sandbox::Sandbox;
use super::time::rfc3339;
use crate::state::AppState;
use axum::body::{Body, Bytes};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use cellblock_protocol::{Cell, CellResult, Event, ProcessStream, Spawn};
use cellblock_session::{AttachedProcess, Process, ProcessEvent, Running};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc;

/// How often a client that hears nothing gets a sign of life: a connection that is gone is noticed by it at the latest.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// Runs a cell of the shell (`$2`) with the variables, functions and directory that the last one left in a file (`$1`), and leaves its own
/// there. Variables that were given for this cell alone (their names follow) win over those that were left, and are not left themselves
/// unless the cell changed them.
const SHELL_CELL: &str = r#"__state=$1 __code=$2; shift 2
declare -A __own; for __name; do __own[$__name]=${!__name}; done; set --
[ -f "$__state" ] && . "$__state" 2>/dev/null
for __name in "${!__own[@]}"; do export "$__name=${__own[$__name]}"; done
__leave() {
  for __name in "${!__own[@]}"; do [ "${!__name}" = "${__own[$__name]}" ] && unset "$__name"; done
  unset __code __own __name; unset -f __leave
  { declare -p | grep -vE '^declare -[a-zA-Z]*r|^declare -- __state='; declare -f; printf 'cd %q\n' "$PWD"; } > "$__state"
}
trap __leave EXIT
eval "$__code""#;

/// A cell that a client wants to run.
pub(super) struct Execution {
    pub(super) code: String,
    /// Variables of the environment for this cell alone, beside those of the sandbox.
    pub(super) variables: BTreeMap<String, String>,
}

/// Runs a cell in a context. A client that goes away interrupts it.
pub(super) async fn run(
    state: &AppState,
    sandbox: Arc<Sandbox>,
    context: Arc<CodeContext>,
    execution: Execution,
) -> Result<Response, E2bError> {
    let caller = &sandbox.caller;
    state.check_cell_quota(caller).await?;
    let own_variables: Vec<String> = execution.variables.keys().cloned().collect();
    let mut cell = Cell::new(execution.code);
    cell.env = sandbox.settings.variables.clone();
    cell.env.extend(execution.variables);
    cell.validate().map_err(cellblock_session::Error::from)?;
    const MAX_WAITING: usize = 64;
    let (sender, receiver) = mpsc::channel(MAX_WAITING);
    let run = CellRun {
        state: state.clone(),
        sandbox,
        context,
        own_variables,
        lines: LineSender(sender),
    };
    tokio::spawn(run.run(cell));
    let lines = futures_util::stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|line| (line, receiver))
    });
    let mut response = Response::new(Body::from_stream(lines));
    let kind = HeaderValue::from_static("application/x-ndjson");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}

/// The sending end of the lines.
#[derive(Debug)]
struct LineSender(mpsc::Sender<Result<Bytes, std::io::Error>>);

/// The client is gone, or the sandbox is.
#[derive(Clone, Copy, Debug)]
struct BrokenOff;

impl LineSender {
    async fn send(&self, line: &Value) -> Result<(), BrokenOff> {
        let line = format!("{line}\n");
        self.0.send(Ok(line.into())).await.map_err(|_| BrokenOff)
    }

    async fn outputs(&self, outputs: impl IntoIterator<Item = Output>) -> Result<(), BrokenOff> {
        for output in outputs {
            self.output(output.stream, &output.text).await?;
        }
        Ok(())
    }

    async fn output(&self, stream: &str, text: &str) -> Result<(), BrokenOff> {
        let timestamp = rfc3339(SystemTime::now());
        self.send(&json!({"type": stream, "text": text, "timestamp": timestamp}))
            .await
    }

    /// Breaks the connection off, so that the client asks whether the sandbox lives.
    async fn break_off(&self) {
        let broken = std::io::Error::new(std::io::ErrorKind::ConnectionReset, "the sandbox ended");
        let _ = self.0.send(Err(broken)).await;
    }
}

/// A cell on its way.
struct CellRun {
    state: AppState,
    sandbox: Arc<Sandbox>,
    context: Arc<CodeContext>,
    /// The names of the variables that the client gave for this cell alone.
    own_variables: Vec<String>,
    lines: LineSender,
}

impl CellRun {
    async fn run(self, cell: Cell) {
        let work = async {
            let _turn = self.turn().await?;
            let count = self.context.cells.fetch_add(1, Ordering::SeqCst) + 1;
            let begun = json!({"type": "number_of_executions", "execution_count": count});
            self.lines.send(&begun).await?;
            match self.context.language {
                Language::Python => self.python(cell).await?,
                Language::Bash => self.bash(cell).await?,
                Language::JavaScript => self.javascript(cell).await?,
            }
            self.lines.send(&json!({"type": "end_of_execution"})).await
        };
        let is_gone = tokio::select! {
            biased;
            // The cell ends with its session.
            () = self.sandbox.gone.cancelled() => true,
            outcome = work => outcome.is_err() && self.sandbox.gone.is_cancelled(),
        };
        if is_gone {
            self.lines.break_off().await;
        }
    }

    /// Waits until the cells before this one are over.
    async fn turn(&self) -> Result<tokio::sync::MutexGuard<'_, ()>, BrokenOff> {
        loop {
            tokio::select! {
                turn = self.context.turn.lock() => return Ok(turn),
                () = self.lines.0.closed() => return Err(BrokenOff),
                () = tokio::time::sleep(KEEPALIVE_INTERVAL) => self.keep_alive().await?,
            }
        }
    }

    async fn keep_alive(&self) -> Result<(), BrokenOff> {
        self.lines.send(&json!({"type": "keepalive"})).await
    }

    async fn python(&self, cell: Cell) -> Result<(), BrokenOff> {
        let live = &self.context.live;
        let number = live.last_cell() + 1;
        let by = &self.sandbox.caller.user.name;
        let begun = json!({"code": cell.code, "by": by});
        live.ring.publish_json("cell_begun", Some(number), begun);
        let mut running = match live.session.start_again(cell, number) {
            Ok(running) => running,
            Err(error) => return self.refuse(&error.to_string()).await,
        };
        let outcome = self.follow(&mut running, number).await;
        if outcome.is_err() {
            live.session.interrupt();
            // The next cell of the context begins when this one has ended.
            while let Some(event) = running.next().await {
                self.note(&event);
                live.publish_event(Some(number), event).await;
            }
        }
        outcome
    }

    async fn follow(&self, running: &mut Running, number: u64) -> Result<(), BrokenOff> {
        let mut joined = JoinedOutput::default();
        loop {
            let event = tokio::select! {
                biased;
                () = self.lines.0.closed() => return Err(BrokenOff),
                event = running.next() => event,
                () = joined.is_due() => {
                    self.lines.outputs(joined.take()).await?;
                    continue;
                }
                () = tokio::time::sleep(KEEPALIVE_INTERVAL) => {
                    self.keep_alive().await?;
                    continue;
                }
            };
            let Some(event) = event else {
                return self.lines.outputs(joined.take()).await;
            };
            self.note(&event);
            let sent = self.pass_on(running, &event, &mut joined).await;
            self.context.live.publish_event(Some(number), event).await;
            sent?;
        }
    }

    /// Counts a cell that ended.
    fn note(&self, event: &Event) {
        if let Event::Result { result } = event {
            self.context.live.note_cell(result.cell);
            self.state.count_cell(self.sandbox.caller.id(), result);
        }
    }

    async fn pass_on(
        &self,
        running: &Running,
        event: &Event,
        joined: &mut JoinedOutput,
    ) -> Result<(), BrokenOff> {
        let ready = match event {
            Event::Stdout { text } => joined.add("stdout", text),
            Event::Stderr { text } => joined.add("stderr", text),
            _ => joined.take().into_iter().collect(),
        };
        self.lines.outputs(ready).await?;
        match event {
            Event::Display(display) => self.lines.send(&display_line(&display.mime)).await,
            Event::InputRequest { call, .. } => {
                let problem = "there is no person who could answer: give the value in the code";
                running.input(call, Err(problem.to_owned()));
                Ok(())
            }
            Event::Result { result } => self.finish(result).await,
            Event::Error { message, .. } => self.refuse(message).await,
            _ => Ok(()),
        }
    }

    async fn finish(&self, result: &CellResult) -> Result<(), BrokenOff> {
        if let Some(value) = &result.value {
            self.lines.send(&value_line(value)).await?;
        }
        let Some(line) = error_line(result) else {
            return Ok(());
        };
        let problem = result
            .error
            .as_ref()
            .map_or("", |error| error.traceback.as_str());
        if let Some(hint) = self.sandbox.network_hint.for_text(problem) {
            self.lines.output("stderr", hint).await?;
        }
        self.lines.send(&line).await
    }

    async fn refuse(&self, message: &str) -> Result<(), BrokenOff> {
        let line = json!({
            "type": "error", "name": "ExecutionError", "value": message, "traceback": message,
        });
        self.lines.send(&line).await
    }

    /// Runs a cell of the shell. Its variables, functions and directory are kept for the next one.
    async fn bash(&self, cell: Cell) -> Result<(), BrokenOff> {
        let state_path = self.context.shell_state_path();
        let arguments = [
            "/bin/bash",
            "-c",
            SHELL_CELL,
            "bash",
            &state_path,
            &cell.code,
        ];
        let own = self.own_variables.iter().map(String::as_str);
        let mut spawn = Spawn::new(arguments.into_iter().chain(own));
        spawn.cwd = Some(self.context.cwd.clone());
        spawn.env = cell.env;
        let session = &self.context.live.session;
        let AttachedProcess {
            process,
            mut events,
        } = match session.spawn_attached(spawn).await {
            Ok(started) => started,
            Err(error) => return self.refuse(&error.to_string()).await,
        };
        let guard = KillGuard(Some(process));
        loop {
            let event = tokio::select! {
                () = self.lines.0.closed() => return Err(BrokenOff),
                event = events.next() => event,
                () = tokio::time::sleep(KEEPALIVE_INTERVAL) => {
                    self.keep_alive().await?;
                    continue;
                }
            };
            match event {
                Some(ProcessEvent::Output { stream, bytes, .. }) => {
                    let name = match stream {
                        ProcessStream::Stderr => "stderr",
                        ProcessStream::Stdout | ProcessStream::Pty => "stdout",
                    };
                    self.lines
                        .output(name, &String::from_utf8_lossy(&bytes))
                        .await?;
                }
                Some(ProcessEvent::Dropped { .. }) => {}
                Some(ProcessEvent::End(_)) | None => break,
            }
        }
        guard.release();
        Ok(())
    }

    /// Runs a cell of JavaScript in the `node` of the context. A cell that is broken off ends it, and its variables with it.
    async fn javascript(&self, cell: Cell) -> Result<(), BrokenOff> {
        let mut own = cell.env;
        own.retain(|name, _| self.own_variables.contains(name));
        let mut restarts = self.context.restarts.subscribe();
        let kept = self.context.javascript.lock().await.take();
        let mut interpreter = match kept.filter(Interpreter::is_alive) {
            Some(interpreter) => interpreter,
            None => {
                let variables = self.sandbox.settings.variables.clone();
                let session = &self.context.live.session;
                match Interpreter::start(session, &self.context.cwd, variables).await {
                    Ok(interpreter) => interpreter,
                    Err(error) => return self.refuse(&error.to_string()).await,
                }
            }
        };
        if let Err(error) = interpreter.begin(&cell.code, &own).await {
            return self.refuse(&error.to_string()).await;
        }
        loop {
            let message = tokio::select! {
                () = self.lines.0.closed() => return Err(BrokenOff),
                Ok(()) = restarts.changed() => InterpreterMessage::Gone,
                message = interpreter.next() => message,
                () = tokio::time::sleep(KEEPALIVE_INTERVAL) => {
                    self.keep_alive().await?;
                    continue;
                }
            };
            match message {
                InterpreterMessage::Output { stream, text } => {
                    self.lines.output(stream, &text).await?
                }
                InterpreterMessage::Line(line) => self.lines.send(&line).await?,
                InterpreterMessage::End => break,
                InterpreterMessage::Gone => {
                    let problem = "the JavaScript interpreter ended in this cell, and its variables with it; the next cell starts a new one";
                    return self.refuse(problem).await;
                }
            }
        }
        *self.context.javascript.lock().await = Some(interpreter);
        Ok(())
    }
}

/// Ends a process whose client is gone.
struct KillGuard(Option<Process>);

impl KillGuard {
    fn release(mut self) {
        self.0 = None;
    }
}

impl Drop for KillGuard {
    fn drop(&mut self) {
        if let Some(process) = self.0.take() {
            tokio::spawn(async move { process.kill().await });
        }
    }
}
