//! A run of the cluster's queue on the node that took it: it begins, or goes on from its record.

use super::live_run::LiveRun;
use super::start::{Question, RunParts};
use crate::auth::Caller;
use crate::cluster::RunJournal;
use crate::error::ApiError;
use crate::state::AppState;
use crate::store::{ChatRow, RunRow};
use axum::http::StatusCode;
use cellblock_agent::{RunEvent, RunStart, TemplateRun, UnfinishedRun};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A run that this node took, and what is known of it.
pub(crate) struct QueuedRun {
    pub(crate) id: String,
    pub(crate) chat: String,
    pub(crate) title: String,
    pub(crate) model: String,
    /// The session in which it worked before.
    pub(crate) session: Option<String>,
    pub(crate) created_at: i64,
    pub(crate) question: Question,
    /// What happened on the nodes that had it before.
    pub(crate) events: Vec<RunEvent>,
    pub(crate) journal: Arc<RunJournal>,
}

impl AppState {
    /// Begins a run of the queue, or goes on with it.
    pub(crate) async fn run_queued(
        &self,
        caller: &Caller,
        queued: QueuedRun,
    ) -> Result<Arc<LiveRun>, ApiError> {
        let chat_row = self.queued_chat(caller, &queued).await?;
        // The chat is answered by this run alone. What is in memory of an earlier attempt has lost its session.
        self.chats().remove(&chat_row.id);
        let chat = self.live_chat(&chat_row);
        let mut question = queued.question;
        question.journal = Some(Arc::clone(&queued.journal));
        let TemplateRun {
            agent,
            question: text,
        } = self.agent_for(caller, &chat_row, &chat, question)?;
        let mut unfinished = UnfinishedRun::from_events(queued.events.clone());
        if let (Some(run), Some(session)) = (&unfinished, &chat_row.session) {
            let happened = self
                .happened_cells(caller, session, run.last_cell())
                .await?;
            unfinished = unfinished.map(|run| run.with_happened(happened));
        }
        let start = RunStart {
            question: text.clone(),
            model: queued.model.clone(),
            options: json!({"server": {"chat": chat_row.id, "user": caller.id()}}),
        };
        let writer = self.start_record(start, queued.events).await?;
        let row = RunRow {
            id: queued.id,
            user: caller.id().to_owned(),
            chat: Some(chat_row.id.clone()),
            session: chat_row.session.clone(),
            record: Some(writer.id()),
            question: text,
            model: queued.model,
            status: "running".to_owned(),
            answer: None,
            cost: None,
            created_at: queued.created_at,
        };
        self.store().put_run(&row).await?;
        self.metrics().runs.fetch_add(1, Ordering::Relaxed);
        let parts = RunParts {
            chat_row,
            row,
            writer,
            agent,
            unfinished,
            journal: Some(queued.journal),
        };
        Ok(self.start(caller, parts))
    }

    /// The cells that the run's session has and its record has not. The session is brought here first, so that no more can be added
    /// elsewhere.
    async fn happened_cells(
        &self,
        caller: &Caller,
        session: &str,
        last: u64,
    ) -> Result<Vec<cellblock_tools::HappenedCell>, ApiError> {
        let Some(cluster) = self.cluster() else {
            return Ok(Vec::new());
        };
        match self.session(caller, session).await {
            Ok(_) => cluster.cells_after(session, last).await,
            Err(error) if error.status() == StatusCode::GONE => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    async fn queued_chat(&self, caller: &Caller, queued: &QueuedRun) -> Result<ChatRow, ApiError> {
        let known = self.store().chat(caller.id(), &queued.chat).await?;
        let is_known = known.is_some();
        let row = ChatRow {
            id: queued.chat.clone(),
            user: caller.id().to_owned(),
            title: queued.title.clone(),
            model: queued.model.clone(),
            session: queued.session.clone(),
            parent: None,
            created_at: queued.created_at,
            used_at: self.store().now(),
        };
        match is_known {
            true => self.store().update_chat(&row).await?,
            false => self.store().add_chat(row.clone()).await?,
        }
        Ok(row)
    }
}
