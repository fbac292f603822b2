//! The session in which tools written in Python run.

use super::ToolFile;
use crate::{Output, Part, SessionFuture, ToolError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cellblock_protocol::{Cell, CellResult, Event, Seed, Status, ToolSpec};
use cellblock_session::Session;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

const LOADER: &str = include_str!("loader.py");
/// The function by which code in the session gives a result to the host: a tool of this session.
const GIVE: &str = "cellblock_give";
/// The characters of what a tool prints that a trace keeps.
const MAX_TRACED_CHARS: usize = 10_000;
/// The time limit of loading. Imports of large libraries are slow.
const LOAD_TIME_LIMIT: Duration = Duration::from_secs(120);

/// A function that can be a tool, as the loader describes it.
#[derive(Debug, Deserialize)]
pub(super) struct LoadedFunction {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) parameters: Map<String, Value>,
    pub(super) effects: Option<String>,
    pub(super) time_limit: Option<f64>,
}

/// The session of the tools, which is opened again after it has ended.
pub(super) struct ToolsSession {
    files: Vec<ToolFile>,
    secrets: Map<String, Value>,
    open: Box<dyn Fn() -> SessionFuture + Send + Sync>,
    /// Calls run one after the other: there is one interpreter.
    session: Arc<Mutex<Option<Session>>>,
}

/// The outcome of a cell in this session.
struct CellWithResult {
    result: CellResult,
    /// The arguments of the last call of [`GIVE`].
    given: Option<Map<String, Value>>,
}

impl ToolsSession {
    pub(super) fn new(
        files: Vec<ToolFile>,
        secrets: Map<String, Value>,
        open: Box<dyn Fn() -> SessionFuture + Send + Sync>,
    ) -> ToolsSession {
        ToolsSession {
            files,
            secrets,
            open,
            session: Arc::default(),
        }
    }

    /// Opens the session and finds the tools.
    pub(super) async fn load(&self) -> Result<Vec<LoadedFunction>, String> {
        let mut current = self.session.lock().await;
        let (session, functions) = self.start().await?;
        *current = Some(session);
        Ok(functions)
    }

    /// Calls a tool.
    pub(super) async fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        time_limit: Duration,
    ) -> Result<Output, ToolError> {
        let mut current = Arc::clone(&self.session).lock_owned().await;
        let session = match current.as_ref().filter(|session| session.end().is_none()) {
            Some(session) => session.clone(),
            None => {
                let (session, _) = self.start().await.map_err(ToolError::new)?;
                *current = Some(session.clone());
                session
            }
        };
        let code = format!(
            "__cellblock_loader__.call({}, {}, {GIVE})",
            python_literal(name),
            python_literal(&Value::Object(arguments).to_string())
        );
        let cell = Cell::new(code).timeout(time_limit);
        // On a task of its own: a cancelled call keeps the lock until its cell has really ended.
        let mut guard = InterruptOnDrop(Some(session.clone()));
        let running = tokio::spawn(async move {
            let ran = run(&session, cell).await;
            drop(current);
            ran
        });
        let ran = running.await;
        guard.0 = None;
        let CellWithResult { result, given } = ran?.map_err(ToolError::new)?;
        if !result.output.is_empty() {
            let printed: String = result.output.chars().take(MAX_TRACED_CHARS).collect();
            tracing::info!(tool = name, printed, "tool printed");
        }
        match (result.status, given) {
            (Status::Success, Some(given)) => output(given),
            (Status::Timeout, _) => Err(ToolError::new(format!(
                "`{name}` did not answer within {} s and was given up",
                time_limit.as_secs_f64()
            ))),
            _ => Err(ToolError::new(describe_failure(&result))),
        }
    }

    async fn start(&self) -> Result<(Session, Vec<LoadedFunction>), String> {
        let session = (self.open)().await.map_err(|error| error.to_string())?;
        for file in &self.files {
            session
                .put_file(&file.path, file.content.clone())
                .await
                .map_err(|error| error.to_string())?;
        }
        let secrets = Seed::from_iter([(
            "cellblock_secrets".to_owned(),
            Value::Object(self.secrets.clone()),
        )]);
        session
            .seed(secrets)
            .await
            .map_err(|error| error.to_string())?;
        let give = ToolSpec {
            name: GIVE.to_owned(),
            description: "Gives a result to the host.".to_owned(),
            parameters: Map::new(),
        };
        session
            .set_tools(vec![give])
            .await
            .map_err(|error| error.to_string())?;
        // As a module, so that its names do not collide with those of the tools.
        let code = format!(
            "import sys, types\n\
             __cellblock_loader__ = types.ModuleType('cellblock_loader')\n\
             sys.modules['cellblock_loader'] = __cellblock_loader__\n\
             exec(compile({}, '<cellblock loader>', 'exec'), vars(__cellblock_loader__))\n\
             {GIVE}(kind='json', data=__cellblock_loader__.load('.', globals().pop('cellblock_secrets')))",
            python_literal(LOADER),
        );
        let CellWithResult { result, given } =
            run(&session, Cell::new(code).timeout(LOAD_TIME_LIMIT)).await?;
        let Some(mut given) = given.filter(|_| result.status == Status::Success) else {
            let problem = describe_failure(&result);
            session.close().await;
            return Err(problem);
        };
        let functions = serde_json::from_value(given.remove("data").unwrap_or_default());
        Ok((session, functions.map_err(|error| error.to_string())?))
    }
}

/// Runs a cell, and keeps the result that its code gives to the host.
async fn run(session: &Session, cell: Cell) -> Result<CellWithResult, String> {
    let mut running = session.start(cell).map_err(|error| error.to_string())?;
    let mut given = None;
    while let Some(event) = running.next().await {
        match event {
            Event::ToolCall {
                call, arguments, ..
            } => {
                given = Some(arguments.to_map());
                running.tool_result(&call, Ok(Value::Null));
            }
            Event::InputRequest { call, .. } => {
                running.input(&call, Err("a tool cannot ask for input".to_owned()));
            }
            Event::Result { result } => {
                return Ok(CellWithResult {
                    result: *result,
                    given,
                });
            }
            Event::Error { message, .. } => return Err(message),
            _ => {}
        }
    }
    Err("the session of the tools ended".to_owned())
}

fn output(mut given: Map<String, Value>) -> Result<Output, ToolError> {
    let data = given.remove("data").unwrap_or_default();
    match (given.get("kind").and_then(Value::as_str), data) {
        (Some("text"), Value::String(text)) => Ok(Output::text(text)),
        (Some("json"), value) => Ok(Output::json(value)),
        // Code gets the value with its tags, and a model the text.
        (Some("value"), value) => {
            let text = given.get("text").and_then(Value::as_str);
            let text = text.unwrap_or_default().to_owned();
            Ok(Output {
                structured: Some(value),
                parts: vec![Part::Text(text)],
            })
        }
        (Some(mime), Value::String(base64)) => Ok(Output {
            structured: None,
            parts: vec![Part::blob(mime, STANDARD.decode(base64)?)],
        }),
        _ => Err(ToolError::new("the tool gave no result")),
    }
}

/// Why a cell gave no result: the message of the loader or of Python.
fn describe_failure(result: &CellResult) -> String {
    match (&result.error, result.status) {
        (Some(error), _) if error.type_.ends_with("_Refused") => error.value.clone(),
        (Some(error), _) if error.value.is_empty() => error.type_.clone(),
        (Some(error), _) => format!("{}: {}", error.type_, error.value),
        (None, Status::Timeout) => {
            format!("loading took longer than {} s", LOAD_TIME_LIMIT.as_secs())
        }
        (None, Status::Crashed) => "the tool crashed".to_owned(),
        (None, status) => format!("the cell ended with {status}"),
    }
}

/// The Python literal of a text. JSON's escapes are valid in Python.
fn python_literal(text: &str) -> String {
    json!(text).to_string()
}

/// Interrupts the cell of a call that was cancelled.
struct InterruptOnDrop(Option<Session>);

impl Drop for InterruptOnDrop {
    fn drop(&mut self) {
        if let Some(session) = &self.0 {
            session.interrupt();
        }
    }
}
