//! Operations of the pipe that have one answer, and events in the form of the pipe: for every way by which requests come in.

use crate::Error;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cellblock_protocol::pipe::{FileOperation, Operation};
use cellblock_protocol::{Event, SessionEvent};
use cellblock_session::{EventReader, Existing, ProcessEvent, Refusal, Session};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// The most events of one answer.
const MAX_EVENTS: usize = 1000;

/// Answers a question of an editor, or stops and continues the processes of a session. `None`: the operation is another one.
pub async fn answer_question(
    session: &Session,
    operation: &Operation,
) -> Option<Result<Value, Error>> {
    let answer = match operation {
        Operation::Complete(cursor) => {
            let found = session.complete(cursor.clone()).await;
            found.map(|found| json!(found))
        }
        Operation::InspectAt { cursor, detail } => {
            let found = session.inspect_at(cursor.clone(), *detail).await;
            found.map(|found| json!(found))
        }
        Operation::IsComplete { code } => {
            session.is_complete(code).await.map(|answer| json!(answer))
        }
        Operation::Pause => session.pause().await.map(|()| json!({})),
        Operation::Resume => session.resume().await.map(|()| json!({})),
        _ => return None,
    };
    Some(answer.map_err(Error::from))
}

/// Does something with the files that a session sees. Open files of the caller are not for here: only the caller's machine has them.
pub async fn work_with_files(session: &Session, operation: FileOperation) -> Result<Value, Error> {
    let paths = session.paths();
    let answer = match operation {
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
        FileOperation::CopyIn { .. } | FileOperation::CopyOut { .. } => {
            Err(cellblock_session::Error::from(Refusal::NoDescriptors))
        }
    };
    answer.map_err(Error::from)
}

/// The events after a number: those that are there, or the next one when it comes within `wait`.
pub async fn read_events(session: &Session, after: u64, wait: Duration) -> Result<Value, Error> {
    let mut reader = session.events(after)?;
    let mut events: Vec<Arc<SessionEvent>> = Vec::new();
    if let Ok(Some(first)) = timeout(wait, reader.next()).await {
        events.push(first.map_err(cellblock_session::Error::from)?);
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

/// What a process wrote, or how it ended, as an event of the pipe.
pub fn process_event(proc: &str, event: ProcessEvent) -> Event {
    let proc = proc.to_owned();
    match event {
        ProcessEvent::Output {
            stream,
            offset,
            bytes,
        } => Event::ProcOutput {
            proc,
            stream,
            offset,
            base64: STANDARD.encode(bytes),
        },
        ProcessEvent::Dropped { bytes } => Event::ProcDropped { proc, bytes },
        ProcessEvent::End(end) => Event::ProcEnd { proc, end },
    }
}
