//! The queue of runs: each waits until a node has room for it, and goes to another node when its node is gone.
//!
//! A run is like a session: an entry of a directory says which node has it, and its journal is its truth and its fence. The first record
//! is what was asked, the last one how the run ended. A node that takes a run appends first, so a node that lost the run can neither add
//! to it nor end it. There is no scheduler: each node chooses by itself, by the same rule, and the claims decide.
//!
//! No request lists the directory: each handle follows its changes and keeps the open runs in memory ([`index`]), so what a request costs
//! does not depend on how many runs wait.

mod index;
mod order;

pub use order::Wait;

use crate::engine::{
    AppendError, ClaimError, Engine, EngineError, Epoch, Placed, RequestError, Sequence,
    SessionEntry, SessionState,
};
use crate::message::{Request, encode};
use crate::names::{NodeId, SessionId};
use crate::owner::{AdoptError, RunError};
use crate::record::{Chain, RecordBody};
use crate::runtime::{Runtime, timeout};
use crate::writer::JournalWriter;
use index::RunIndex;
use order::{fair_order, running_of_users};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// The id of a run. A run has a journal and a directory entry as a session has.
pub type RunId = SessionId;

/// How long a node that is asked whether it is there may take.
const PING_SILENCE: Duration = Duration::from_millis(500);
/// How often an outcome that is not known is looked at, and the pause between.
const MAX_ATTEMPTS: usize = 20;
const ATTEMPT_PAUSE: Duration = Duration::from_millis(50);
/// How long the index may be behind a claim before the claim is judged without it.
const MAX_INDEX_LAG: Duration = Duration::from_secs(1);

/// What the queue says about a run that has not ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunTicket {
    /// The user whose run it is. Shares and limits are counted for each user.
    pub user: String,
    /// When it was asked, in milliseconds since 1970.
    pub asked_ms: u64,
    /// Of the runs of one user, those with a higher number come first. Runs of other users do not wait for it.
    #[serde(default)]
    pub priority: i8,
    /// How often a node took it.
    #[serde(default)]
    pub deliveries: u32,
    /// How often a node gave it back because it could not begin it or stopped.
    #[serde(default)]
    pub given_back: u32,
    /// What lists say about it.
    #[serde(default)]
    pub about: Value,
}

impl RunTicket {
    /// How often a node took it and neither gave it back nor ended it. The node that has it now counts.
    pub fn attempts(&self) -> u32 {
        self.deliveries.saturating_sub(self.given_back)
    }
}

/// A run that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenRun {
    /// The run.
    pub id: RunId,
    /// The number of its directory entry.
    pub epoch: Epoch,
    /// The node that has it. `None`: it waits.
    pub node: Option<NodeId>,
    /// What is known of it.
    pub ticket: RunTicket,
}

/// What became of a submitted run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// It waits now.
    New,
    /// A run of this id was submitted before, with this question. It may have ended.
    Known(Value),
}

/// A run that a node took.
pub struct TakenRun {
    /// The run.
    pub run: OpenRun,
    /// What was asked.
    pub asked: Value,
    /// What happened before on other nodes.
    pub events: Vec<Value>,
    /// The way to its journal. Every append is refused once another node took the run.
    pub journal: JournalWriter,
}

/// The runs of a cluster. A clone is another handle to the same queue.
#[derive(Clone)]
pub struct RunQueue {
    engine: Engine,
    runtime: Arc<dyn Runtime>,
    index: RunIndex,
}

impl RunQueue {
    /// The queue of a cluster. Starts a task that follows its changes until the last clone is dropped.
    pub fn new(engine: Engine, runtime: Arc<dyn Runtime>) -> RunQueue {
        let index = RunIndex::start(&engine.runs, &runtime);
        RunQueue {
            engine,
            runtime,
            index,
        }
    }

    /// Adds a run, once for each id. Once this returns, the run is not lost any more. A caller that got no answer submits it again.
    pub async fn submit(
        &self,
        id: &RunId,
        node: &NodeId,
        ticket: &RunTicket,
        asked: &Value,
    ) -> Result<Submitted, EngineError> {
        let body = RecordBody::Event {
            event: json!({ "asked": asked }),
        };
        let record = Chain::start().encode(Epoch(0), body).map_err(failed)?;
        let journals = &self.engine.journals;
        let mut attempts = 0;
        let is_new = loop {
            let appended = journals.append(id, Sequence::START, record.clone().into());
            match appended.await {
                Ok(_) => break true,
                Err(AppendError::Conflict) => break false,
                Err(AppendError::Unknown(_)) if attempts < MAX_ATTEMPTS => attempts += 1,
                Err(error) => return Err(failed(error)),
            }
            self.runtime.sleep(ATTEMPT_PAUSE).await;
        };
        let mut known = Submitted::Known(asked.clone());
        if !is_new {
            let (events, end) = self.read(id).await?;
            known = Submitted::Known(events.into_iter().next().unwrap_or_default());
            if end.is_some() {
                return Ok(known);
            }
        }
        match self
            .write_entry(id, None, node, SessionState::Asleep, ticket)
            .await
        {
            Ok(_) => Ok(Submitted::New),
            Err(ClaimError::Lost) => Ok(known),
            Err(error @ ClaimError::Unknown(_)) => Err(failed(error)),
        }
    }

    /// All runs that have not ended. The list may be behind by a moment.
    pub async fn open_runs(&self) -> Result<Vec<Arc<OpenRun>>, EngineError> {
        self.index.runs().await
    }

    /// How many runs of a user have not ended. The number may be behind by a moment.
    pub async fn open_count(&self, user: &str) -> Result<usize, EngineError> {
        let runs = self.open_runs().await?;
        Ok(runs.iter().filter(|run| run.ticket.user == user).count())
    }

    /// How long a run waits, if `slots` runs go on at a time and one takes `mean` on average. `None`: it does not wait.
    pub async fn wait(
        &self,
        id: &RunId,
        slots: usize,
        mean: Option<Duration>,
    ) -> Result<Option<Wait>, EngineError> {
        Ok(self.index.order().await?.wait(id, slots, mean))
    }

    /// A run that has not ended.
    pub async fn find(&self, id: &RunId) -> Result<Option<OpenRun>, EngineError> {
        let placed = self.engine.runs.get(id).await?;
        placed
            .map(|placed| open_run(id.clone(), placed))
            .transpose()
    }

    /// What was asked and what happened in a run, and how it ended, from its journal. Nothing if there is no such run.
    pub async fn read(&self, id: &RunId) -> Result<(Vec<Value>, Option<Value>), EngineError> {
        let Some(last) = self.engine.journals.last(id).await? else {
            return Ok((Vec::new(), None));
        };
        let mut chain = Chain::start();
        let mut bodies = Vec::new();
        for stored in self.engine.journals.read(id, last.sequence).await? {
            bodies.push(chain.follow(&stored.record).map_err(failed)?.body);
        }
        Ok(split(bodies))
    }

    /// Takes the run whose turn it is, if there is one: one that waits, or one whose node is gone. `has` says which runs this node works
    /// on. A user has at most `per_user` runs at a time.
    pub async fn take(
        &self,
        node: &NodeId,
        per_user: usize,
        has: impl Fn(&RunId) -> bool,
    ) -> Result<Option<TakenRun>, EngineError> {
        let runs = self.open_runs().await?;
        if runs.is_empty() {
            return Ok(None);
        }
        let runs = runs.iter().map(|run| OpenRun::clone(run)).collect();
        let runs = self.without_gone(runs, node, &has).await?;
        let mut running = running_of_users(&runs);
        for run in fair_order(&runs) {
            let count = running.entry(run.ticket.user.as_str()).or_default();
            if *count >= per_user {
                continue;
            }
            *count += 1;
            if let Some(taken) = self.claim(run, node, per_user).await? {
                return Ok(Some(taken));
            }
        }
        Ok(None)
    }

    /// Takes this run, if it waits or its node is gone: to end it.
    pub async fn take_for_end(
        &self,
        run: &OpenRun,
        node: &NodeId,
    ) -> Result<Option<TakenRun>, EngineError> {
        let runs = self.without_gone(vec![run.clone()], node, &|_| true);
        match runs.await?.first() {
            Some(run) if run.node.is_none() => self.claim(run, node, usize::MAX).await,
            _ => Ok(None),
        }
    }

    /// Lets a run wait again: this node stops or cannot begin it, or its user has too many.
    pub async fn give_back(&self, run: &OpenRun, node: &NodeId) -> Result<(), EngineError> {
        let mut ticket = run.ticket.clone();
        ticket.given_back += 1;
        let asleep = SessionState::Asleep;
        let written = self.write_entry(&run.id, Some(run.epoch), node, asleep, &ticket);
        match written.await {
            Ok(_) | Err(ClaimError::Lost) => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }

    /// Ends a run: its end is recorded first, and then it leaves the queue. Refused if another node has it by now.
    pub async fn finish(
        &self,
        id: &RunId,
        journal: &mut JournalWriter,
        end: Value,
    ) -> Result<(), RunError> {
        let event = json!({ "ended": end });
        journal.append(RecordBody::Event { event }).await?;
        // If this fails, the next node that takes the run finds its end, and removes it.
        let _ = self.remove(id).await;
        Ok(())
    }

    /// Takes the entry and the journal of a run. `None`: another node was first, or the run has ended.
    async fn claim(
        &self,
        run: &OpenRun,
        node: &NodeId,
        per_user: usize,
    ) -> Result<Option<TakenRun>, EngineError> {
        let mut ticket = run.ticket.clone();
        ticket.deliveries += 1;
        let live = SessionState::Live;
        let epoch = match self
            .write_entry(&run.id, Some(run.epoch), node, live, &ticket)
            .await
        {
            Ok(epoch) => epoch,
            // What is not known is found by the next look at the queue.
            Err(_) => return Ok(None),
        };
        let run = OpenRun {
            epoch,
            node: Some(node.clone()),
            ticket,
            ..run.clone()
        };
        if per_user < usize::MAX && self.is_over_limit(&run, per_user).await? {
            self.give_back(&run, node).await?;
            return Ok(None);
        }
        let (engine, runtime) = (&self.engine, &self.runtime);
        let journal = match JournalWriter::fence(engine, runtime, node, &run.id, epoch).await {
            Ok(journal) => journal,
            Err(AdoptError::Lost) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let (events, end) = split(journal.read().await.map_err(failed)?);
        let mut events = events.into_iter();
        match (events.next(), end) {
            (Some(asked), None) => Ok(Some(TakenRun {
                run,
                asked,
                events: events.collect(),
                journal,
            })),
            // It has ended, and the node that ended it did not remove it.
            _ => {
                self.remove(&run.id).await?;
                Ok(None)
            }
        }
    }

    /// Whether nodes that chose at the same time took too many runs of a user: those that were claimed last go back.
    ///
    /// Changes come in the order of their epochs: once this claim has come, so have all that count.
    async fn is_over_limit(&self, run: &OpenRun, per_user: usize) -> Result<bool, EngineError> {
        let reached = self.index.reached(run.epoch);
        timeout(&*self.runtime, MAX_INDEX_LAG, reached).await;
        let runs = self.open_runs().await?;
        let is_before = |other: &&Arc<OpenRun>| {
            let is_of_user = other.ticket.user == run.ticket.user;
            is_of_user && other.node.is_some() && other.epoch < run.epoch
        };
        Ok(runs.iter().filter(is_before).count() >= per_user)
    }

    /// The runs, with those of nodes that are gone as if they waited.
    async fn without_gone(
        &self,
        mut runs: Vec<OpenRun>,
        node: &NodeId,
        has: &impl Fn(&RunId) -> bool,
    ) -> Result<Vec<OpenRun>, EngineError> {
        let holders: HashSet<NodeId> = runs.iter().filter_map(|run| run.node.clone()).collect();
        let mut gone = HashSet::new();
        if holders.iter().any(|holder| holder != node) {
            let members = self.engine.members.list().await?;
            let listed: HashSet<&NodeId> = members.iter().map(|member| &member.node).collect();
            for holder in holders.into_iter().filter(|holder| holder != node) {
                if !listed.contains(&holder) || !self.answers(&holder).await {
                    gone.insert(holder);
                }
            }
        }
        for run in &mut runs {
            let is_lost = match &run.node {
                Some(holder) if holder == node => !has(&run.id),
                Some(holder) => gone.contains(holder),
                None => false,
            };
            if is_lost {
                run.node = None;
            }
        }
        Ok(runs)
    }

    /// Whether the process of a node is there. A silent one is, until its lease ends.
    async fn answers(&self, node: &NodeId) -> bool {
        let router = &self.engine.router;
        let asked = router.request(node, encode(&Request::Ping), PING_SILENCE);
        !matches!(asked.await, Err(RequestError::NoResponder))
    }

    async fn write_entry(
        &self,
        id: &RunId,
        seen: Option<Epoch>,
        node: &NodeId,
        state: SessionState,
        ticket: &RunTicket,
    ) -> Result<Epoch, ClaimError> {
        let unknown = |error: serde_json::Error| ClaimError::Unknown(error.to_string());
        let entry = SessionEntry {
            node: node.clone(),
            state,
            about: serde_json::to_value(ticket).map_err(unknown)?,
        };
        let epoch = self.engine.runs.claim(id, seen, &entry).await?;
        self.index.note_own(id, Placed { entry, epoch });
        Ok(epoch)
    }

    async fn remove(&self, id: &RunId) -> Result<(), EngineError> {
        self.engine.runs.remove(id).await?;
        self.index.forget(id);
        Ok(())
    }
}

fn open_run(id: RunId, placed: Placed) -> Result<OpenRun, EngineError> {
    let Placed { entry, epoch } = placed;
    Ok(OpenRun {
        id,
        epoch,
        node: (entry.state == SessionState::Live).then_some(entry.node),
        ticket: serde_json::from_value(entry.about).map_err(failed)?,
    })
}

/// What was asked and what happened, and the end.
fn split(bodies: Vec<RecordBody>) -> (Vec<Value>, Option<Value>) {
    let (mut events, mut end) = (Vec::new(), None);
    for body in bodies {
        let RecordBody::Event { mut event } = body else {
            continue;
        };
        if let Some(ended) = event.get_mut("ended") {
            end = Some(ended.take());
        } else if let Some(asked) = event.get_mut("asked") {
            events.push(asked.take());
        } else {
            events.push(event);
        }
    }
    (events, end)
}

fn failed(error: impl std::fmt::Display) -> EngineError {
    EngineError(error.to_string())
}
