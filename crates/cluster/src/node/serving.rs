//! The task of one session on its node: one cell at a time, in the order of the requests.

use super::{MAX_WAITING, Node, REPLY_WITHIN, refuse};
use crate::engine::{ClaimError, Incoming, SessionEntry, SessionState};
use crate::interpreter::OwnRecord;
use crate::message::{Refusal, Reply, encode};
use crate::names::RequestKey;
use crate::owner::{Owner, RunError};
use serde_json::Value;
use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// What the node tells the task of a session.
pub(super) enum Command {
    /// Run a cell.
    Run(RunRequest),
    /// End the session here once nothing runs in it, and say in the directory what it is from then on.
    End(SessionState, oneshot::Sender<()>),
    /// Change what the directory says about the session.
    Describe(Value, oneshot::Sender<Result<(), ClaimError>>),
}

/// A request to run a cell, with its sender.
pub(super) struct RunRequest {
    pub(super) incoming: Incoming,
    pub(super) key: RequestKey,
    pub(super) cell: Value,
}

/// Serves a session until it is put to sleep or another node takes it.
pub(super) async fn serve_session(
    node: &Arc<Node>,
    mut owner: Owner,
    mut commands: mpsc::Receiver<Command>,
) {
    let mut waiting = VecDeque::new();
    let mut ending = Ending::default();
    let mut records = owner.take_records();
    while ending.state.is_none() {
        let request = match waiting.pop_front() {
            Some(request) => request,
            None => {
                let command = tokio::select! {
                    biased;
                    Some(record) = next(&mut records) => {
                        match owner.commit_own(record).await {
                            Ok(()) => continue,
                            Err(_) => break,
                        }
                    }
                    command = commands.recv() => command,
                };
                match command {
                    Some(Command::Run(request)) => request,
                    Some(Command::End(state, done)) => {
                        ending.ask(state, done);
                        break;
                    }
                    Some(Command::Describe(about, done)) => {
                        let before = owner.epoch();
                        let described = owner.describe(about).await;
                        if let Ok(epoch) = described {
                            node.change_epoch(owner.session(), before, epoch);
                        }
                        let _ = done.send(described.map(drop));
                        continue;
                    }
                    None => break,
                }
            }
        };
        if let Some(result) = owner.recorded(&request.key) {
            let result = result.clone();
            let rebuilt = None;
            let reply = Reply::Result { result, rebuilt };
            request.incoming.reply(encode(&reply));
            continue;
        }
        if !node.has_lease() {
            refuse(request.incoming, Refusal::Lease);
            continue;
        }
        let mut senders = vec![request.incoming];
        let outcome = {
            let key = &request.key;
            let mut run = pin!(owner.run(key, &request.cell));
            let mut is_open = true;
            loop {
                tokio::select! {
                    biased;
                    outcome = &mut run => break outcome,
                    command = commands.recv(), if is_open => match command {
                        Some(Command::Run(again)) if again.key == *key => senders.push(again.incoming),
                        Some(Command::Run(next)) if waiting.len() < MAX_WAITING => waiting.push_back(next),
                        Some(Command::Run(next)) => refuse(next.incoming, Refusal::Busy),
                        Some(Command::End(state, done)) => ending.ask(state, done),
                        // Its sender sees a closed channel, and may try again.
                        Some(Command::Describe(..)) => {}
                        None => is_open = false,
                    },
                    () = node.surroundings.runtime.sleep(REPLY_WITHIN) => {
                        // Each sender asks again, or has gone away. What no sender waits for is not run.
                        let waiting = waiting.drain(..).map(|request| request.incoming);
                        for sender in senders.drain(..).chain(waiting) {
                            sender.reply(encode(&Reply::Running));
                        }
                    }
                }
            }
        };
        let reply = match outcome {
            Ok(result) => Reply::Result {
                result,
                rebuilt: owner.take_rebuilt(),
            },
            Err(RunError::Fenced) => Reply::Refused {
                why: Refusal::Moved,
            },
            Err(error @ RunError::Unrecordable(_)) => Reply::Refused {
                why: Refusal::Failed {
                    message: error.to_string(),
                },
            },
        };
        let is_over = matches!(reply, Reply::Refused { .. });
        let reply = encode(&reply);
        for sender in senders {
            sender.reply(reply.clone());
        }
        if is_over {
            break;
        }
    }
    if ending.state.is_some() && !commit_until_quiet(&mut owner, &mut records).await {
        ending.state = None;
    }
    let (session, epoch) = (owner.session().clone(), owner.epoch());
    let entry = ending.state.map(|state| SessionEntry {
        state,
        ..owner.entry().clone()
    });
    drop(owner);
    node.forget(&session, epoch);
    if let Some(entry) = entry {
        // If this fails, the session is found to be gone from here, and moves all the same.
        let directory = &node.surroundings.engine.directory;
        let _ = directory.claim(&session, Some(epoch), &entry).await;
    }
    commands.close();
    for request in waiting {
        refuse(request.incoming, Refusal::Moved);
    }
    while let Some(command) = commands.recv().await {
        match command {
            Command::Run(request) => refuse(request.incoming, Refusal::Moved),
            Command::End(_, done) => ending.done.push(done),
            Command::Describe(..) => {}
        }
    }
    for done in ending.done {
        let _ = done.send(());
    }
}

/// The end that a session was asked to come to.
#[derive(Default)]
struct Ending {
    state: Option<SessionState>,
    done: Vec<oneshot::Sender<()>>,
}

impl Ending {
    fn ask(&mut self, state: SessionState, done: oneshot::Sender<()>) {
        // A session that was closed does not sleep.
        if self.state != Some(SessionState::Closed) {
            self.state = Some(state);
        }
        self.done.push(done);
    }
}

/// The next record that the interpreter made by itself. Without such records it waits for ever.
async fn next(records: &mut Option<mpsc::Receiver<OwnRecord>>) -> Option<OwnRecord> {
    match records {
        Some(receiver) => {
            let record = receiver.recv().await;
            if record.is_none() {
                *records = None;
            }
            record
        }
        None => std::future::pending().await,
    }
}

/// Commits records until nothing runs in the session. Returns whether all were committed.
async fn commit_until_quiet(
    owner: &mut Owner,
    records: &mut Option<mpsc::Receiver<OwnRecord>>,
) -> bool {
    let mut quiet = owner.quiet();
    loop {
        let record = tokio::select! {
            biased;
            Some(record) = next(records) => record,
            () = &mut quiet => return true,
        };
        if owner.commit_own(record).await.is_err() {
            return false;
        }
    }
}
