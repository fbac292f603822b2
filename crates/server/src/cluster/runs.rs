//! Runs that any node takes: submitted to the queue of the cluster, and worked on by the nodes that have room.

use super::journaling::{packed, unpacked};
use super::run_journal::RunJournal;
use super::{Cluster, unavailable};
use crate::agents::QueuedRun;
use crate::auth::{Caller, random_id};
use crate::error::ApiError;
use crate::routes::chats::{AskedRun, MessageRequest};
use crate::state::AppState;
use axum::http::StatusCode;
use cellblock_cluster::engine::{Digest, NodeState, Placed, SessionState};
use cellblock_cluster::{OpenRun, RunId, RunTicket, Submitted, TakenRun};
use cellblock_tools::HappenedCell;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::Notify;

/// How often a node looks for runs. A run that is submitted here is looked for at once.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How many runs of one user may be in the queue.
const MAX_OPEN_OF_USER: usize = 1_000;
/// How many nodes may begin a run and be lost before it counts as one that kills its nodes.
const MAX_ATTEMPTS: u32 = 50;
/// How often a run may be given to a node at all: what no node can begin must end too.
const MAX_DELIVERIES: u32 = 2_000;
/// The share of the newest run in the average time of runs.
const NEWEST_SHARE: f64 = 0.2;

/// The runs of the queue that this node works on.
#[derive(Default)]
pub(crate) struct RunWork {
    held: Mutex<HashSet<RunId>>,
    /// The average time of the runs that ended here, in milliseconds.
    mean_ms: Mutex<Option<f64>>,
    submitted: Notify,
}

impl RunWork {
    fn held(&self) -> MutexGuard<'_, HashSet<RunId>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The average time of the runs that ended here, in milliseconds. 0 if none has.
    pub(super) fn mean_ms(&self) -> u64 {
        let mean = self.mean_ms.lock().unwrap_or_else(PoisonError::into_inner);
        mean.map_or(0, |mean| mean as u64)
    }

    /// How many runs this node works on.
    pub(crate) fn count(&self) -> usize {
        self.held().len()
    }

    fn note_time(&self, time: Duration) {
        let mut mean = self.mean_ms.lock().unwrap_or_else(PoisonError::into_inner);
        let ms = time.as_secs_f64() * 1000.0;
        *mean = Some(mean.map_or(ms, |mean| mean + (ms - mean) * NEWEST_SHARE));
    }
}

impl Cluster {
    /// Puts a run into the queue, once for each key of a user, and describes it.
    pub(crate) async fn submit(
        &self,
        state: &AppState,
        caller: &Caller,
        request: MessageRequest,
        key: Option<String>,
    ) -> Result<Value, ApiError> {
        let user = &caller.user.name;
        let asked = request.check(state)?;
        let used = state.store().usage_today(caller.id()).await?;
        state
            .quotas_of(&caller.user)
            .check_run(&used, 0, state.store())?;
        let of_user = self.queue.open_count(user).await;
        let of_user = of_user.map_err(|error| unavailable(&error.0))?;
        if of_user >= MAX_OPEN_OF_USER {
            return Err(ApiError::too_many(
                "quota_queue",
                format!("{of_user} runs are in the queue, and {MAX_OPEN_OF_USER} may"),
                60,
            ));
        }
        let id = match &key {
            Some(key) => {
                let digest = Digest::of(format!("{user}\n{key}").as_bytes());
                format!("r{}", &digest.as_str()[..24])
            }
            None => random_id("r")?,
        };
        let id = RunId::new(id).map_err(|error| ApiError::internal(error.to_string()))?;
        let request = serde_json::to_value(&asked.request).unwrap_or_default();
        let digest = Digest::of(request.to_string().as_bytes());
        let packed = packed(&*self.engine.blobs, request).await;
        let record = json!({
            "user": user, "chat": format!("c{}", &id.as_str()[1..]), "title": asked.title, "model": asked.model,
            "created_at": state.store().now(), "digest": digest, "request": packed.map_err(|error| unavailable(&error))?,
        });
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let ticket = RunTicket {
            user: user.clone(),
            asked_ms: u64::try_from(since.as_millis()).unwrap_or(0),
            priority: asked.request.priority,
            deliveries: 0,
            given_back: 0,
            about: json!({
                "question": asked.title, "model": asked.model, "chat": record["chat"],
                "created_at": record["created_at"],
            }),
        };
        let submitted = self
            .queue
            .submit(&id, &self.node.id(), &ticket, &record)
            .await;
        match submitted.map_err(|error| unavailable(&error.0))? {
            Submitted::Known(known) if known["digest"] != record["digest"] => {
                return Err(ApiError::conflict(
                    "key_reused",
                    "this Idempotency-Key belongs to another question",
                ));
            }
            Submitted::New | Submitted::Known(_) => {}
        }
        self.work.submitted.notify_one();
        state
            .audit(caller.id(), "run.ask", Some(id.as_str()), None)
            .await;
        match self.find_run(&id).await? {
            Some(run) => self.describe_open(&run).await,
            None => Ok(self
                .ended_run(&id)
                .await?
                .map(|ended| ended.end["run"].clone())
                .unwrap_or_default()),
        }
    }

    /// A run that has not ended.
    pub(super) async fn find_run(&self, id: &RunId) -> Result<Option<OpenRun>, ApiError> {
        let found = self.queue.find(id).await;
        found.map_err(|error| unavailable(&error.0))
    }

    /// Whether this node works on a run of the queue.
    pub(super) fn holds_run(&self, id: &RunId) -> bool {
        self.work.held().contains(id)
    }

    /// A run that has not ended, as JSON.
    pub(super) async fn describe_open(&self, run: &OpenRun) -> Result<Value, ApiError> {
        let about = &run.ticket.about;
        let mut json = json!({
            "id": run.id, "chat": about["chat"], "session": null, "question": about["question"],
            "model": about["model"], "answer": null, "cost": null, "created_at": about["created_at"],
            "seq": null, "approvals": [], "node": run.node, "deliveries": run.ticket.deliveries,
            "status": if run.node.is_some() { "running" } else { "waiting" },
        });
        if run.node.is_none() {
            let nodes = self.peers.list().await?;
            let ready = nodes.iter().filter(|node| node.state == NodeState::Ready);
            let slots: u32 = ready.clone().map(|node| node.run_slots).sum();
            let times: Vec<u64> = ready.map(|node| node.run_ms).filter(|ms| *ms > 0).collect();
            let mean = times.iter().sum::<u64>().checked_div(times.len() as u64);
            let slots = usize::try_from(slots).unwrap_or(1);
            let mean = mean.map(Duration::from_millis);
            let wait = self.queue.wait(&run.id, slots, mean).await;
            json["wait"] = json!(wait.map_err(|error| unavailable(&error.0))?);
        }
        Ok(json)
    }

    /// The runs of a user that have not ended, as JSON.
    pub(crate) async fn open_runs_of(&self, user: &str) -> Result<Vec<Value>, ApiError> {
        let runs = self
            .queue
            .open_runs()
            .await
            .map_err(|error| unavailable(&error.0))?;
        let mut found = Vec::new();
        for run in runs.iter().filter(|run| run.ticket.user == user) {
            found.push(self.describe_open(run).await?);
        }
        Ok(found)
    }

    /// A run of the queue that has ended.
    pub(super) async fn ended_run(&self, id: &RunId) -> Result<Option<EndedRun>, ApiError> {
        let read = self.queue.read(id).await;
        let (mut events, end) = read.map_err(|error| unavailable(&error.0))?;
        let Some(end) = end.filter(|_| !events.is_empty()) else {
            return Ok(None);
        };
        let asked = events.remove(0);
        Ok(Some(EndedRun { asked, events, end }))
    }

    /// Ends a run that waits, or whose node is gone.
    pub(super) async fn cancel_waiting(&self, run: &OpenRun) -> Result<bool, ApiError> {
        let node = self.node.id();
        let taken = self.queue.take_for_end(run, &node).await;
        let Some(mut taken) = taken.map_err(|error| unavailable(&error.0))? else {
            return Ok(false);
        };
        let mut json = self.describe_open(&taken.run).await?;
        json["status"] = json!("cancelled");
        let end = json!({"run": json, "node": node, "outcome": {"status": "cancelled"}});
        let ended = self.queue.finish(&run.id, &mut taken.journal, end).await;
        Ok(ended.is_ok())
    }

    /// What happened in a run, as its events were recorded.
    pub(super) async fn run_events(&self, recorded: Vec<Value>) -> Result<Vec<Value>, ApiError> {
        let mut events = Vec::new();
        for event in recorded {
            let event = unpacked(&*self.engine.blobs, event).await;
            events.push(event?);
        }
        Ok(events)
    }

    /// Takes runs of the queue as long as this node has room, until the server stops.
    pub(super) async fn work_on_runs(self: Arc<Self>, state: AppState) {
        if state.agent_setup().is_err() {
            return;
        }
        let per_user = state.options().quotas.runs;
        while !state.stop().is_cancelled() {
            let pause = tokio::time::sleep(LOOK_INTERVAL);
            tokio::select! {
                () = pause => {}
                () = self.work.submitted.notified() => {}
            }
            while self.takes_runs() {
                let node = self.node.id();
                let taken = self.queue.take(&node, per_user, |id| self.holds_run(id));
                let Ok(Some(taken)) = taken.await else {
                    break;
                };
                self.work.held().insert(taken.run.id.clone());
                tokio::spawn(Arc::clone(&self).work_on(state.clone(), taken));
            }
        }
    }

    fn takes_runs(&self) -> bool {
        let has_room = self.work.count() < usize::try_from(self.run_slots).unwrap_or(usize::MAX);
        has_room && self.node.state() == NodeState::Ready && self.node.has_lease()
    }

    async fn work_on(self: Arc<Self>, state: AppState, taken: TakenRun) {
        let begun = Instant::now();
        let run = taken.run.clone();
        let worked = self.begin_run(&state, taken).await;
        match worked {
            Ok(live) => live.ended().await,
            Err(error) => self.fail_run(&run, error).await,
        }
        if state.stop().is_cancelled() && matches!(self.find_run(&run.id).await, Ok(Some(_))) {
            // Another node goes on with it at once.
            let _ = self.queue.give_back(&run, &self.node.id()).await;
        }
        self.work.note_time(begun.elapsed());
        self.work.held().remove(&run.id);
        self.work.submitted.notify_one();
    }

    /// A run that could not begin: it waits again if the engine is the reason, and else has ended.
    async fn fail_run(&self, run: &OpenRun, error: ApiError) {
        let node = self.node.id();
        if error.status() == StatusCode::SERVICE_UNAVAILABLE {
            tokio::time::sleep(LOOK_INTERVAL).await;
            let _ = self.queue.give_back(run, &node).await;
            return;
        }
        // The journal that was taken is gone with the attempt: the run is taken once more, only to be ended.
        let waits = OpenRun {
            node: None,
            ..run.clone()
        };
        let Ok(Some(mut taken)) = self.queue.take_for_end(&waits, &node).await else {
            return;
        };
        let mut json = self.describe_open(&taken.run).await.unwrap_or_default();
        json["status"] = json!("error");
        let outcome = json!({"status": "error", "message": error.message});
        let end = json!({"run": json, "node": node, "outcome": outcome});
        let _ = self.queue.finish(&run.id, &mut taken.journal, end).await;
    }

    async fn begin_run(
        &self,
        state: &AppState,
        taken: TakenRun,
    ) -> Result<Arc<crate::agents::LiveRun>, ApiError> {
        let TakenRun {
            run,
            asked,
            events,
            journal,
        } = taken;
        let (attempts, deliveries) = (run.ticket.attempts(), run.ticket.deliveries);
        if attempts > MAX_ATTEMPTS || deliveries > MAX_DELIVERIES {
            return Err(ApiError::internal(format!(
                "nodes took the run {deliveries} times, and none of them ended it"
            )));
        }
        let request = unpacked(&*self.engine.blobs, asked["request"].clone()).await?;
        let request: MessageRequest = serde_json::from_value(request)
            .map_err(|error| ApiError::internal(format!("the question: {error}")))?;
        let AskedRun {
            model,
            title,
            request,
        } = request.check(state)?;
        let user = state.user_of_cluster(&run.ticket.user).await?;
        let caller = Caller {
            user: Arc::new(user),
            token: None,
        };
        let events = self.run_events(events).await?;
        let journal = RunJournal::new(
            self.queue.clone(),
            &self.engine,
            Arc::clone(&self.node),
            run.id.clone(),
            journal,
            &events,
        );
        let chat = asked["chat"].as_str().unwrap_or_default().to_owned();
        let queued = QueuedRun {
            id: run.id.to_string(),
            session: self.session_of_chat(&run.ticket.user, &chat).await?,
            chat,
            title,
            model,
            created_at: asked["created_at"].as_i64().unwrap_or(0),
            question: request.question()?,
            events: events
                .into_iter()
                .filter_map(|mut event| serde_json::from_value(event["run_event"].take()).ok())
                .collect(),
            journal,
        };
        state.run_queued(&caller, queued).await
    }

    /// The session that was opened for a chat, wherever it is. One without a record was never there, because its node was lost while it
    /// opened the session: it is closed, and the run opens another.
    async fn session_of_chat(&self, user: &str, chat: &str) -> Result<Option<String>, ApiError> {
        let sessions = self.sessions_of(user).await?;
        let of_chat = |(_, placed): &(String, Placed)| placed.entry.about["chat"] == chat;
        for (id, placed) in sessions.into_iter().filter(of_chat) {
            if !self.entries(&id).await?.is_empty() {
                return Ok(Some(id));
            }
            if placed.entry.state != SessionState::Closed {
                self.close(&id).await?;
            }
        }
        Ok(None)
    }

    /// The cells of a session after the one with this number, whose effects were kept.
    pub(crate) async fn cells_after(
        &self,
        session: &str,
        last: u64,
    ) -> Result<Vec<HappenedCell>, ApiError> {
        let journal = self.journal(session).await?;
        let cells = journal.summary().cells.into_iter();
        let kept = cells.filter(|cell| {
            cell.number > last && cell.fate == cellblock_session::journal::CellFate::Kept
        });
        let happened = kept.filter_map(|cell| {
            Some(HappenedCell {
                code: cell.cell.code,
                result: cell.ended?.result,
            })
        });
        Ok(happened.collect())
    }
}

/// A run of the queue that has ended, as its journal has it.
pub(super) struct EndedRun {
    pub(super) asked: Value,
    pub(super) events: Vec<Value>,
    pub(super) end: Value,
}
