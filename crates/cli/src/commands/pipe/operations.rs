//! The operations that ask something of a session and get one answer.

use super::files::work_with_files;
use super::output::{FilePart, Writer};
use super::server::PipeServer;
use cellblock::Session;
use cellblock::operations::answer_question;
use cellblock::pipe::{Operation, RequestId, Response};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// Why something could not be done: what the `error` event says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OperationError {
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

impl OperationError {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> OperationError {
        OperationError {
            code,
            message: message.into(),
        }
    }
}

impl From<cellblock::Error> for OperationError {
    fn from(error: cellblock::Error) -> OperationError {
        let message = match error.hint() {
            Some(hint) => format!("{error}; {hint}"),
            None => error.to_string(),
        };
        OperationError::new(error.code(), message)
    }
}

/// What comes of an operation.
#[derive(Debug)]
pub(crate) enum OperationAnswer {
    /// A value.
    Value(Value),
    /// The contents of a file, which are read while they are written.
    File(FilePart),
}

/// Tells what came of an operation.
pub(crate) async fn send_outcome(
    writer: &Writer,
    id: Option<RequestId>,
    name: String,
    outcome: Result<OperationAnswer, OperationError>,
) {
    match outcome {
        Ok(OperationAnswer::Value(answer)) => writer.send(Response::answer(id, name, answer)).await,
        Ok(OperationAnswer::File(part)) => writer.send_file(id, name, part).await,
        Err(error) => writer.send(error.response(id, name)).await,
    }
}

/// Does what an operation asks of a session that is open. `run`, `open` and `close` are not for here: they are more than a question.
pub(crate) async fn ask(
    session: &Session,
    operation: Operation,
) -> Result<OperationAnswer, OperationError> {
    let failed = |error| OperationError::from(cellblock::Error::Session(error));
    if let Operation::GetFile {
        path,
        offset,
        length,
    } = operation
    {
        let file = session.open_file(&path).await.map_err(failed)?;
        let part = FilePart::new(file, offset, length);
        return part.map(OperationAnswer::File).map_err(|error| {
            OperationError::new(
                "file",
                format!("the file `{path}` in the workspace: {error}"),
            )
        });
    }
    answer(session, operation).await.map(OperationAnswer::Value)
}

async fn answer(session: &Session, operation: Operation) -> Result<Value, OperationError> {
    let failed = |error| OperationError::from(cellblock::Error::Session(error));
    match operation {
        Operation::Compute { code, description } => session
            .compute(&code, &description)
            .await
            .map_err(failed)
            .and_then(value),
        Operation::Seed { variables } => session.seed(variables).await.map_err(failed).map(nothing),
        Operation::Vars => session.vars().await.map_err(failed).and_then(value),
        Operation::Inspect { name } => session.inspect(&name).await.map_err(failed).and_then(value),
        Operation::Files(operation) => work_with_files(session, operation).await,
        Operation::Reset => session.reset().await.map_err(failed).map(nothing),
        Operation::Tools { tools } => session.set_tools(tools).await.map_err(failed).map(nothing),
        Operation::PutFile { path, contents } => session
            .put_file(&path, contents)
            .await
            .map_err(failed)
            .map(nothing),
        Operation::ListFiles => session.list_files().await.map_err(failed).and_then(value),
        Operation::ReadOutput {
            cell,
            stream,
            offset,
            length,
        } => {
            let length = length.unwrap_or(u64::MAX);
            let text = session
                .read_output(cell, stream, offset, length)
                .await
                .map_err(failed)?;
            Ok(json!({ "text": text }))
        }
        Operation::Undo { n } => {
            let count = usize::try_from(n).unwrap_or(usize::MAX);
            session.undo(count).await.map_err(failed).and_then(value)
        }
        Operation::Checkpoints => value(session.checkpoints().await.map_err(failed)?.entries),
        operation => match answer_question(session, &operation).await {
            Some(answer) => answer.map_err(OperationError::from),
            None => Err(OperationError::new(
                "unsupported",
                "this operation cannot be done here",
            )),
        },
    }
}

/// Serves a session whose code waits for an answer. An operation that changes the state is refused, for it would wait for the cell, and
/// the cell waits for the client; variables can be looked at, and files worked with, for the tool that is called may well want to leave one.
pub(crate) fn serve_while_waiting(
    server: &Arc<PipeServer>,
    session: Option<Session>,
    id: Option<RequestId>,
    name: String,
    operation: Operation,
) -> Option<Response> {
    let is_free = matches!(
        operation,
        Operation::PutFile { .. }
            | Operation::GetFile { .. }
            | Operation::ListFiles
            | Operation::ReadOutput { .. }
            | Operation::Vars
            | Operation::Inspect { .. }
            | Operation::Complete(_)
            | Operation::InspectAt { .. }
            | Operation::IsComplete { .. }
            | Operation::Files(_)
            | Operation::Close
    );
    let (Some(session), true) = (session, is_free) else {
        let message = format!(
            "session `{name}` is busy: its cell waits for the answer to a call; answer it first, or interrupt the cell"
        );
        return Some(OperationError::new("busy", message).response(id, name));
    };
    serve_beside_cell(server, session, id, name, operation);
    None
}

/// Does an operation while the session's own task is busy with a cell.
pub(crate) fn serve_beside_cell(
    server: &Arc<PipeServer>,
    session: Session,
    id: Option<RequestId>,
    name: String,
    operation: Operation,
) {
    let writer = server.writer.clone();
    tokio::spawn(async move {
        let outcome = match operation {
            // The session's task sees the end of its cell, and of its session.
            Operation::Close => {
                session.close().await;
                Ok(OperationAnswer::Value(json!({})))
            }
            operation => ask(&session, operation).await,
        };
        send_outcome(&writer, id, name, outcome).await;
    });
}

fn value(answer: impl Serialize) -> Result<Value, OperationError> {
    serde_json::to_value(answer).map_err(|error| OperationError::new("system", error.to_string()))
}

fn nothing((): ()) -> Value {
    json!({})
}
