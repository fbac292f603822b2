//! The task of one session on its node: one cell at a time, in the order of the requests.

use super::{MAX_WAITING, Node, REPLY_WITHIN, refuse};
use crate::engine::{Entry, Epoch, Incoming, SessionState};
use crate::message::{Refusal, Reply, encode};
use crate::names::{RequestKey, SessionId};
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
    /// Put the session to sleep, then say so.
    Sleep(oneshot::Sender<()>),
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
    let mut asleep = Vec::new();
    while asleep.is_empty() {
        let request = match waiting.pop_front() {
            Some(request) => request,
            None => match commands.recv().await {
                Some(Command::Run(request)) => request,
                Some(Command::Sleep(done)) => {
                    asleep.push(done);
                    break;
                }
                None => break,
            },
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
                        Some(Command::Sleep(done)) => asleep.push(done),
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
    let (session, epoch) = (owner.session().clone(), owner.epoch());
    drop(owner);
    node.forget(&session, epoch);
    if !asleep.is_empty() {
        put_to_sleep(node, &session, epoch).await;
    }
    commands.close();
    for request in waiting {
        refuse(request.incoming, Refusal::Moved);
    }
    while let Some(command) = commands.recv().await {
        match command {
            Command::Run(request) => refuse(request.incoming, Refusal::Moved),
            Command::Sleep(done) => asleep.push(done),
        }
    }
    for done in asleep {
        let _ = done.send(());
    }
}

/// Writes into the directory that the session sleeps. If that fails, the session is found to be gone from here, and moves all the same.
async fn put_to_sleep(node: &Node, session: &SessionId, epoch: Epoch) {
    let entry = Entry {
        node: node.id(),
        state: SessionState::Asleep,
    };
    let directory = &node.surroundings.engine.directory;
    let _ = directory.claim(session, Some(epoch), &entry).await;
}
