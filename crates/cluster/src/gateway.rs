//! A gateway: it finds the node of a session, and repeats a request until it is answered.

use crate::engine::{Engine, EngineError, Placed, RequestError, SessionState};
use crate::lock::lock;
use crate::message::{Rebuilt, Refusal, Reply, Request, encode};
use crate::names::{NodeId, RequestKey, SessionId};
use crate::placement::{Wanted, choose};
use crate::runtime::Runtime;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long a gateway waits for a node's reply. A node replies within a second.
const REPLY_TIMEOUT: Duration = Duration::from_secs(3);

/// How long a gateway waits for a node that only says that it is there. Right after the end of a node the engine may still hold it for a
/// listener; then this is what a caller waits too long.
const PING_SILENCE: Duration = Duration::from_millis(500);

/// The pauses between attempts.
const MIN_ATTEMPT_PAUSE: Duration = Duration::from_millis(5);
const MAX_ATTEMPT_PAUSE: Duration = Duration::from_millis(160);

/// The answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub struct CellReply {
    /// The result of the cell.
    pub result: Value,
    /// Set if the session was rebuilt since the request before.
    pub rebuilt: Option<Rebuilt>,
}

/// Why a request got no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The time is over. The cell may have happened; the same key tells.
    #[error("the session did not answer in time: {0}")]
    Deadline(String),
    /// The session has ended.
    #[error("the session is closed")]
    Closed,
    /// The session cannot go on.
    #[error("{0}")]
    Failed(String),
}

/// Sends requests to sessions wherever they are. Any number of gateways may run anywhere.
pub struct Gateway {
    engine: Engine,
    runtime: Arc<dyn Runtime>,
    routes: Mutex<HashMap<SessionId, Placed>>,
}

/// Whether a node that did not answer has its sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeHealth {
    /// The node answers, or is silent within its lease: wait for it.
    Alive,
    /// The node has ended, or its lease has. The session was given to another node, or is given with the next request.
    Gone,
}

/// What an attempt came to.
enum AttemptOutcome {
    Answered(CellReply),
    /// Try at once: something was learnt.
    Again,
    /// Try after a pause.
    Wait(String),
    Failed(CallError),
}

impl Gateway {
    /// A gateway.
    pub fn new(engine: Engine, runtime: Arc<dyn Runtime>) -> Gateway {
        Gateway {
            engine,
            runtime,
            routes: Mutex::default(),
        }
    }

    /// Runs a cell in a session, and starts the session if no node has it. Sent again with the same key, the cell runs once.
    pub async fn call(
        &self,
        session: &SessionId,
        key: &RequestKey,
        cell: &Value,
        time: Duration,
    ) -> Result<CellReply, CallError> {
        let end = self.runtime.now() + time;
        let mut pause = MIN_ATTEMPT_PAUSE;
        loop {
            let problem = match self.attempt(session, key, cell).await {
                AttemptOutcome::Answered(answer) => return Ok(answer),
                AttemptOutcome::Failed(error) => return Err(error),
                AttemptOutcome::Again => String::from("the session moved"),
                AttemptOutcome::Wait(problem) => {
                    self.runtime.sleep(pause).await;
                    pause = (pause * 2).min(MAX_ATTEMPT_PAUSE);
                    problem
                }
            };
            if self.runtime.now() >= end {
                return Err(CallError::Deadline(problem));
            }
        }
    }

    /// Finds the node that has a session, and has a node take the session if none has it. `None`: there is no such session.
    pub async fn find(
        &self,
        session: &SessionId,
        time: Duration,
    ) -> Result<Option<Placed>, CallError> {
        let end = self.runtime.now() + time;
        let mut pause = MIN_ATTEMPT_PAUSE;
        loop {
            let attempt = match self.route(session).await {
                Ok(None) => return Ok(None),
                Ok(Some(placed)) => match placed.entry.state {
                    SessionState::Live => return Ok(Some(placed)),
                    SessionState::Asleep => self.place(session, Some(&placed)).await,
                    SessionState::Closed => return Err(CallError::Closed),
                },
                Err(error) => AttemptOutcome::Wait(error.to_string()),
            };
            let problem = match attempt {
                AttemptOutcome::Failed(error) => return Err(error),
                AttemptOutcome::Wait(problem) => {
                    self.runtime.sleep(pause).await;
                    pause = (pause * 2).min(MAX_ATTEMPT_PAUSE);
                    problem
                }
                AttemptOutcome::Again | AttemptOutcome::Answered(_) => {
                    String::from("the session moved")
                }
            };
            if self.runtime.now() >= end {
                return Err(CallError::Deadline(problem));
            }
        }
    }

    /// Looks after a node that did not answer a request for a session. If the node is gone, another one is asked to take the session.
    pub async fn check(&self, session: &SessionId, known: &Placed) -> NodeHealth {
        let ping = encode(&Request::Ping);
        let router = &self.engine.router;
        let is_gone = match router.request(&known.entry.node, ping, PING_SILENCE).await {
            Ok(_) => false,
            Err(RequestError::NoResponder) => true,
            Err(RequestError::Silent) => self.has_lapsed(&known.entry.node).await.unwrap_or(false),
        };
        if !is_gone {
            return NodeHealth::Alive;
        }
        let _ = self.look_again(session, known).await;
        NodeHealth::Gone
    }

    /// Asks the node of a session to let go of it. Returns whether the node is gone or does not have the session, so that the session can
    /// be taken at once; else the directory says when it can.
    pub async fn release(&self, session: &SessionId, known: &Placed) -> bool {
        self.forget(session);
        let request = Request::Release {
            session: session.clone(),
            epoch: known.epoch,
        };
        let moved = Reply::Refused {
            why: Refusal::Moved,
        };
        match self.ask(&known.entry.node, &request).await {
            Ok(reply) => reply == moved,
            Err(RequestError::NoResponder) => true,
            Err(RequestError::Silent) => self.has_lapsed(&known.entry.node).await.unwrap_or(false),
        }
    }

    /// Forgets where a session is, because its node said that it is elsewhere.
    pub fn forget(&self, session: &SessionId) {
        lock(&self.routes).remove(session);
    }

    async fn attempt(&self, session: &SessionId, key: &RequestKey, cell: &Value) -> AttemptOutcome {
        let placed = match self.route(session).await {
            Ok(Some(placed)) => placed,
            Ok(None) => return self.place(session, None).await,
            Err(error) => return AttemptOutcome::Wait(error.to_string()),
        };
        match placed.entry.state {
            SessionState::Live => {}
            SessionState::Asleep => return self.place(session, Some(&placed)).await,
            SessionState::Closed => return AttemptOutcome::Failed(CallError::Closed),
        }
        let request = Request::Run {
            session: session.clone(),
            epoch: placed.epoch,
            key: key.clone(),
            cell: cell.clone(),
        };
        match self.ask(&placed.entry.node, &request).await {
            Ok(Reply::Result { result, rebuilt }) => {
                AttemptOutcome::Answered(CellReply { result, rebuilt })
            }
            Ok(Reply::Running) => AttemptOutcome::Again,
            Ok(Reply::Refused { why }) => match why {
                Refusal::Moved | Refusal::Epoch => self.look_again(session, &placed).await,
                Refusal::Failed { message } => AttemptOutcome::Failed(CallError::Failed(message)),
                Refusal::Lease | Refusal::Full | Refusal::Busy => {
                    self.forget(session);
                    AttemptOutcome::Wait(format!("the node refused: {why:?}"))
                }
            },
            Ok(Reply::Adopted { .. } | Reply::Done) => {
                AttemptOutcome::Wait("the reply was to another request".into())
            }
            Err(RequestError::NoResponder) => self.look_again(session, &placed).await,
            Err(RequestError::Silent) => match self.has_lapsed(&placed.entry.node).await {
                Ok(true) => self.look_again(session, &placed).await,
                Ok(false) => {
                    self.forget(session);
                    AttemptOutcome::Wait("the node is silent".into())
                }
                Err(error) => AttemptOutcome::Wait(error.to_string()),
            },
        }
    }

    /// After the node of an entry turned out not to have the session: goes where the directory says now, or places the session if the
    /// entry is still the same.
    async fn look_again(&self, session: &SessionId, known: &Placed) -> AttemptOutcome {
        self.forget(session);
        match self.route(session).await {
            Ok(Some(placed)) if placed == *known => self.place(session, Some(known)).await,
            Ok(_) => AttemptOutcome::Again,
            Err(error) => AttemptOutcome::Wait(error.to_string()),
        }
    }

    /// Has a node adopt the session.
    async fn place(&self, session: &SessionId, seen: Option<&Placed>) -> AttemptOutcome {
        self.forget(session);
        let nodes = match self.engine.members.list().await {
            Ok(nodes) => nodes,
            Err(error) => return AttemptOutcome::Wait(error.to_string()),
        };
        let environment = seen.and_then(|placed| placed.entry.about["environment"].as_str());
        let mut wanted = Wanted {
            environment: environment.map(str::to_owned),
            ..Wanted::default()
        };
        let seen = seen.map(|placed| placed.epoch);
        while let Some(chosen) = choose(session, &wanted, &nodes) {
            let node = &chosen.node;
            let session = session.clone();
            match self.ask(node, &Request::Adopt { session, seen }).await {
                Ok(Reply::Adopted { .. }) => return AttemptOutcome::Again,
                Ok(Reply::Running) => return AttemptOutcome::Wait("the session is rebuilt".into()),
                Ok(Reply::Refused {
                    why: Refusal::Failed { message },
                }) => return AttemptOutcome::Failed(CallError::Failed(message)),
                Ok(Reply::Refused {
                    why: Refusal::Moved,
                }) => return AttemptOutcome::Again,
                // A silent node may adopt the session all the same. The claims decide.
                Ok(_) | Err(_) => wanted.avoid.insert(node.clone()),
            };
        }
        AttemptOutcome::Wait("no node has room".into())
    }

    async fn ask(&self, node: &NodeId, request: &Request) -> Result<Reply, RequestError> {
        let router = &self.engine.router;
        let reply = router.request(node, encode(request), REPLY_TIMEOUT).await?;
        // A reply that cannot be read, perhaps of a newer version, is as good as none.
        serde_json::from_slice(&reply).map_err(|_| RequestError::Silent)
    }

    async fn has_lapsed(&self, node: &NodeId) -> Result<bool, EngineError> {
        let nodes = self.engine.members.list().await?;
        Ok(!nodes.iter().any(|record| record.node == *node))
    }

    /// Where a session is, as far as this gateway knows; else what the directory says.
    async fn route(&self, session: &SessionId) -> Result<Option<Placed>, EngineError> {
        if let Some(placed) = lock(&self.routes).get(session) {
            return Ok(Some(placed.clone()));
        }
        let placed = self.engine.directory.get(session).await?;
        if let Some(placed) = &placed {
            lock(&self.routes).insert(session.clone(), placed.clone());
        }
        Ok(placed)
    }
}
