//! Operations on files by absolute path, on the events of a session, and on its snapshots.

use super::operations::OperationError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cellblock::pipe::{FileOperation, OpenFile};
use cellblock::{EventReader, Existing, Session, SessionEvent};
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// The most events of one answer.
const MAX_EVENTS: usize = 1000;

/// Does something with the files that a session sees.
pub(crate) async fn work_with_files(
    session: &Session,
    operation: FileOperation,
) -> Result<Value, OperationError> {
    let failed = |error| OperationError::from(cellblock::Error::Session(error));
    let paths = session.paths();
    match operation {
        FileOperation::Stat { path } => paths.stat(&path).await.map(|found| json!(found)),
        FileOperation::ListDir { path, depth } => {
            paths.list(&path, depth).await.map(|found| json!(found))
        }
        FileOperation::MakeDir { path } => paths.make_dir(&path).await.map(|()| json!({})),
        FileOperation::Move { path, to } => paths.rename(&path, &to).await.map(|()| json!({})),
        FileOperation::Remove { path } => paths.remove(&path).await.map(|()| json!({})),
        FileOperation::Read {
            path,
            offset,
            length,
        } => {
            let read = paths.read(&path, offset, length).await;
            read.map(|contents| {
                let is_at_end = (contents.len() as u64) < length;
                json!({"base64": STANDARD.encode(&contents), "eof": is_at_end})
            })
        }
        FileOperation::Write {
            path,
            offset,
            contents,
            truncate,
        } => {
            let existing = match truncate {
                true => Existing::CutOff,
                false => Existing::Kept,
            };
            let written = paths.write(&path, offset, contents, existing).await;
            written.map(|()| json!({}))
        }
        FileOperation::CopyIn { path, source } => {
            let source = open_of_client(source, OpenOptions::new().read(true))?;
            let path = full_path(session, &path);
            let copied = paths.copy_in(&path, source).await;
            copied.map(|bytes| json!({"bytes": bytes}))
        }
        FileOperation::CopyOut { path, target } => {
            let target = open_of_client(target, OpenOptions::new().write(true))?;
            let path = full_path(session, &path);
            let copied = paths.copy_out(&path, target).await;
            copied.map(|bytes| json!({"bytes": bytes}))
        }
    }
    .map_err(failed)
}

/// A path of the session, absolute or in the workspace, as an absolute one.
fn full_path(session: &Session, path: &str) -> String {
    let full = session.workspace_at().join(path);
    full.to_string_lossy().into_owned()
}

/// Opens a plain file that a process of this user has open, anew: the offset of its descriptor stays where it is.
///
/// The process is named by the client of the pipe, which may do all that this user may. A path could lead through a workspace, where
/// code of a session can put a link; a descriptor cannot.
fn open_of_client(open: OpenFile, options: &OpenOptions) -> Result<File, OperationError> {
    let OpenFile {
        process,
        descriptor,
    } = open;
    let refused = |problem: String| {
        let message =
            format!("the descriptor {descriptor} of process {process} cannot be used: {problem}");
        OperationError::new("descriptor", message)
    };
    let link = format!("/proc/{process}/fd/{descriptor}");
    // To open a pipe or a terminal could wait for ever, so it is looked at first.
    let is_plain = |metadata: std::fs::Metadata| match metadata.is_file() {
        true => Ok(()),
        false => Err(refused("it is no plain file".to_owned())),
    };
    let failed = |error: std::io::Error| refused(error.to_string());
    std::fs::metadata(&link)
        .map_err(failed)
        .and_then(is_plain)?;
    let file = options.open(&link).map_err(failed)?;
    file.metadata().map_err(failed).and_then(is_plain)?;
    Ok(file)
}

/// The events after a number: those that are there, or the next one when it comes within `wait`.
pub(crate) async fn read_events(
    session: &Session,
    after: u64,
    wait: Duration,
) -> Result<Value, OperationError> {
    let failed = |error| OperationError::from(cellblock::Error::Session(error));
    let mut reader = session.events(after).map_err(failed)?;
    let mut events: Vec<Arc<SessionEvent>> = Vec::new();
    if let Ok(Some(first)) = timeout(wait, reader.next()).await {
        events.push(first.map_err(|gap| failed(gap.into()))?);
        take_kept(&mut reader, &mut events);
    }
    let last = events.last().map_or(after, |event| event.seq);
    let events: Vec<&SessionEvent> = events.iter().map(Arc::as_ref).collect();
    Ok(json!({"events": events, "last": last, "ended": session.end().is_some()}))
}

/// Takes what is there already, and stops at a gap: the next request is told of it.
fn take_kept(reader: &mut EventReader, events: &mut Vec<Arc<SessionEvent>>) {
    while events.len() < MAX_EVENTS
        && let Some(Ok(event)) = reader.next_kept()
    {
        events.push(event);
    }
}
