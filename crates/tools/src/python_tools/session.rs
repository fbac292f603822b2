//! The session in which tools written in Python run: how it is opened and what it loads.

use super::ToolFile;
use crate::SessionFuture;
use cellblock_protocol::{Cell, CellResult, Event, Seed, Status, ToolSpec};
use cellblock_session::Session;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::time::Duration;

const LOADER: &str = include_str!("loader.py");
const SERVE: &str = include_str!("serve.py");
/// The function by which code in the session gives a result to the host: a tool of this session.
pub(super) const SEND_VALUE: &str = "cellblock_give";
/// The function by which code in the session takes the next call from the host: a tool of this session.
pub(super) const RECEIVE_VALUE: &str = "cellblock_take";
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

/// What the session of the tools is made of. It is opened again after it has ended.
pub(super) struct ToolsSource {
    pub(super) files: Vec<ToolFile>,
    pub(super) secrets: Map<String, Value>,
    pub(super) open: Box<dyn Fn() -> SessionFuture + Send + Sync>,
}

/// The outcome of the cell that loads the tools.
struct CellWithResult {
    result: CellResult,
    /// The arguments of the last call of [`SEND_VALUE`].
    given: Option<Map<String, Value>>,
}

impl ToolsSource {
    /// Opens the session and finds the tools.
    pub(super) async fn start(&self) -> Result<(Session, Vec<LoadedFunction>), String> {
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
        let function = |name: &str, description: &str| ToolSpec {
            name: name.to_owned(),
            description: description.to_owned(),
            parameters: Map::new(),
        };
        let functions = vec![
            function(SEND_VALUE, "Gives a result to the host."),
            function(RECEIVE_VALUE, "Takes the next call from the host."),
        ];
        session
            .set_tools(functions)
            .await
            .map_err(|error| error.to_string())?;
        // As modules, so that their names do not collide with those of the tools.
        let code = format!(
            "import sys, types\n\
             for name, source in (('cellblock_loader', {}), ('cellblock_serve', {})):\n    \
                 module = sys.modules[name] = types.ModuleType(name)\n    \
                 exec(compile(source, f'<{{name}}>', 'exec'), vars(module))\n\
             {SEND_VALUE}(kind='json', data=sys.modules['cellblock_loader'].load('.', globals().pop('cellblock_secrets')))",
            python_literal(LOADER),
            python_literal(SERVE),
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

/// Runs the cell that loads the tools, and keeps the result that its code gives to the host.
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
