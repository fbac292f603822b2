//! From a question to a run that goes on in the background.

use super::approvals::PageApprover;
use super::chat::LiveChat;
use super::client_tools::ClientTool;
use super::events::{Forwarder, Told};
use super::given_files::GivenFiles;
use super::live_run::LiveRun;
use crate::auth::{Caller, random_id};
use crate::cluster::{RecordedModel, RunJournal};
use crate::error::ApiError;
use crate::live::{EventRing, Subject};
use crate::state::AppState;
use crate::store::{ChatRow, RunRow, UsageRow};
use cellblock_agent::{
    Agent, AgentError, Outcome, RunBudget, RunEnd, RunEvent, RunStart, RunStatus, RunStore,
    RunStoreError, RunWriter, Template, TemplateRun, UnfinishedRun, Verify,
};
use cellblock_model::Model;
use cellblock_protocol::ClientToolSpec;
use cellblock_tools::{Approval, Approver};
use serde_json::{Map, Value, json};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

/// The longest question.
pub(crate) const MAX_QUESTION_BYTES: usize = 1 << 20;

/// A question of a user, and what belongs to it.
#[derive(Debug, Default)]
pub(crate) struct Question {
    pub(crate) task: QuestionTask,
    pub(crate) verify: Verify,
    /// The JSON schema of the answer.
    pub(crate) schema: Option<Value>,
    /// Variables that the code sees.
    pub(crate) seed: Map<String, Value>,
    /// Files that are in the workspace when the code begins.
    pub(crate) files: GivenFiles,
    /// Tools that the program answers which asks.
    pub(crate) tools: Vec<ClientToolSpec>,
    /// What the run may use, within the limits of the server.
    pub(crate) budget: RunBudget,
    /// The record of the run in its cluster's journal, where the run is one of the queue.
    pub(crate) journal: Option<Arc<RunJournal>>,
}

/// Refuses a question that is empty or too long.
pub(crate) fn check_question(text: &str) -> Result<(), ApiError> {
    match text.trim().is_empty() || text.len() > MAX_QUESTION_BYTES {
        true => Err(ApiError::invalid(format!(
            "text: a question of at most {MAX_QUESTION_BYTES} bytes"
        ))),
        false => Ok(()),
    }
}

/// What is asked.
#[derive(Debug)]
pub(crate) enum QuestionTask {
    Text(String),
    Template {
        template: Box<Template>,
        arguments: Map<String, Value>,
    },
}

impl Default for QuestionTask {
    fn default() -> QuestionTask {
        QuestionTask::Text(String::new())
    }
}

/// What a run needs to start or to go on.
pub(super) struct RunParts {
    pub(super) chat_row: ChatRow,
    pub(super) row: RunRow,
    pub(super) writer: RunWriter,
    pub(super) agent: Agent,
    pub(super) unfinished: Option<UnfinishedRun>,
    /// The record in the cluster's journal, where the run is one of the queue.
    pub(super) journal: Option<Arc<RunJournal>>,
}

/// A run that starts or goes on.
struct Task {
    state: AppState,
    run: Arc<LiveRun>,
    row: RunRow,
    chat: Arc<LiveChat>,
    chat_row: ChatRow,
    record: Arc<Mutex<Option<RunWriter>>>,
    agent: Agent,
    unfinished: Option<UnfinishedRun>,
    journal: Option<Arc<RunJournal>>,
}

impl AppState {
    /// The runs that are kept in files.
    pub(crate) fn run_store(&self) -> RunStore {
        RunStore::new(self.data("runs"))
    }

    /// Starts to answer a question of a chat.
    pub(crate) async fn ask(
        &self,
        caller: &Caller,
        chat_row: ChatRow,
        question: Question,
    ) -> Result<Arc<LiveRun>, ApiError> {
        let chat = self.live_chat(&chat_row);
        let seed = question.seed.clone();
        let TemplateRun {
            agent,
            question: text,
        } = self.agent_for(caller, &chat_row, &chat, question)?;
        check_question(&text)?;
        let used = self.store().usage_today(caller.id()).await?;
        let running = self.runs().running_of(caller.id());
        self.quotas_of(&caller.user)
            .check_run(&used, running, self.store())?;
        self.seed_chat(caller, &chat_row, seed).await?;
        let id = random_id("r")?;
        let start = RunStart {
            question: text.clone(),
            model: chat_row.model.clone(),
            options: json!({"server": {"chat": chat_row.id, "user": caller.id()}}),
        };
        let writer = self.start_record(start, Vec::new()).await?;
        let row = RunRow {
            id: id.clone(),
            user: caller.id().to_owned(),
            chat: Some(chat_row.id.clone()),
            session: chat_row.session.clone(),
            record: Some(writer.id()),
            question: text,
            model: chat_row.model.clone(),
            status: "running".to_owned(),
            answer: None,
            cost: None,
            created_at: self.store().now(),
        };
        self.store().put_run(&row).await?;
        self.metrics().runs.fetch_add(1, Ordering::Relaxed);
        self.audit(caller.id(), "run.ask", Some(&id), None).await;
        let parts = RunParts {
            chat_row,
            row,
            writer,
            agent,
            unfinished: None,
            journal: None,
        };
        Ok(self.start(caller, parts))
    }

    /// Goes on with a run that was cut off when the server ended.
    pub(crate) async fn resume_run(
        &self,
        caller: &Caller,
        chat_row: ChatRow,
        row: RunRow,
    ) -> Result<Arc<LiveRun>, ApiError> {
        let (store, record) = (self.run_store(), row.record.clone().unwrap_or_default());
        let resumed = tokio::task::spawn_blocking(move || store.resume(&record)).await;
        let resumed = resumed.map_err(|error| ApiError::internal(error.to_string()))?;
        let resumed = resumed.map_err(|error| ApiError::conflict("ended", error.to_string()))?;
        let events = resumed.run.events.into_iter();
        let events = events.filter_map(|stored| serde_json::from_value(stored.event).ok());
        let unfinished = UnfinishedRun::from_events(events);
        let row = RunRow {
            status: "running".to_owned(),
            ..row
        };
        self.store().put_run(&row).await?;
        self.audit(caller.id(), "run.resume", Some(&row.id), None)
            .await;
        // The tools of the program that asked are gone with the connection.
        let chat = self.live_chat(&chat_row);
        let agent = self.agent_for(caller, &chat_row, &chat, Question::default())?;
        let parts = RunParts {
            chat_row,
            row,
            writer: resumed.writer,
            agent: agent.agent,
            unfinished,
            journal: None,
        };
        Ok(self.start(caller, parts))
    }

    /// Begins the record of a run in a file, with what happened before.
    pub(super) async fn start_record(
        &self,
        start: RunStart,
        events: Vec<RunEvent>,
    ) -> Result<RunWriter, ApiError> {
        let store = self.run_store();
        let started = tokio::task::spawn_blocking(move || {
            let mut writer = store.start_run(start)?;
            for event in &events {
                writer.append_event(event)?;
            }
            Ok::<_, RunStoreError>(writer)
        });
        let started = started.await;
        let started = started.map_err(|error| ApiError::internal(error.to_string()))?;
        started.map_err(|error| ApiError::internal(error.to_string()))
    }

    /// Variables of a question for a chat whose session is open already. A session that is opened later begins with them.
    async fn seed_chat(
        &self,
        caller: &Caller,
        chat_row: &ChatRow,
        seed: Map<String, Value>,
    ) -> Result<(), ApiError> {
        let known = self.live_chat(chat_row).session().is_some() || chat_row.session.is_some();
        if seed.is_empty() || !known {
            return Ok(());
        }
        let live = self
            .chat_session(caller, chat_row, Default::default())
            .await?;
        live.session.seed(seed.into_iter().collect()).await?;
        Ok(())
    }

    /// The agent that answers a question in the session of its chat, and the text of the question.
    pub(super) fn agent_for(
        &self,
        caller: &Caller,
        chat_row: &ChatRow,
        chat: &LiveChat,
        question: Question,
    ) -> Result<TemplateRun, ApiError> {
        let setup = self.agent_setup()?;
        let approver: Arc<dyn Approver> = Arc::new(PageApprover {
            current: chat.current.clone(),
        });
        let tools = question.tools.into_iter();
        let model = setup.find(Some(&chat_row.model))?;
        let model = match question.journal {
            Some(journal) => Arc::new(RecordedModel { model, journal }) as Arc<dyn Model>,
            None => model,
        };
        let mut builder = setup
            .agent()
            .shared_model(model)
            .executor(self.chat_executor(caller, chat_row, question.files))
            .approval(Approval::new(setup.policy.clone(), Some(approver)))
            .tools(tools.map(|tool| ClientTool::shared(tool, &chat.current)))
            .verify(question.verify)
            .budget(question.budget);
        for (name, value) in question.seed {
            builder = builder.variable(name, value);
        }
        if let Some(schema) = question.schema {
            builder = builder.answer_schema(schema);
        }
        let unfit = |error: AgentError| ApiError::invalid(error.to_string());
        let agent = builder.build().map_err(unfit)?;
        match question.task {
            QuestionTask::Text(question) => Ok(TemplateRun { agent, question }),
            QuestionTask::Template {
                template,
                arguments,
            } => agent.prepare_template(&template, arguments).map_err(unfit),
        }
    }

    /// Starts a run in the background.
    pub(super) fn start(&self, caller: &Caller, parts: RunParts) -> Arc<LiveRun> {
        let RunParts {
            chat_row,
            row,
            writer,
            agent,
            unfinished,
            journal,
        } = parts;
        let ring = EventRing::new(Subject::Run(row.id.clone()), 0);
        let run = Arc::new(LiveRun::new(row.id.clone(), caller.id().to_owned(), ring));
        let chat = self.live_chat(&chat_row);
        let record = Arc::new(Mutex::new(Some(writer)));
        self.runs().insert(&run);
        let task = Task {
            state: self.clone(),
            run: Arc::clone(&run),
            row,
            chat,
            chat_row,
            record,
            agent,
            unfinished,
            journal,
        };
        tokio::spawn(task.run());
        run
    }
}

impl Task {
    async fn run(mut self) {
        // One question of a chat at a time; the others wait here.
        let chat = Arc::clone(&self.chat);
        let mut slot = chat.conversation.lock().await;
        chat.current.set(Some(Arc::clone(&self.run)));
        let outcome = self.answer(&mut slot).await;
        chat.current.set(None);
        self.finish(outcome).await;
    }

    async fn answer(
        &mut self,
        slot: &mut Option<cellblock_agent::Conversation>,
    ) -> Result<Outcome, AgentError> {
        let forwarder = Forwarder {
            run: Arc::clone(&self.run),
            record: Arc::clone(&self.record),
            session: self.chat.session_slot(),
            told_session: None,
            begun: None,
            journal: self.journal.clone(),
            state: self.state.clone(),
        };
        let (events, forwarding) = forwarder.start();
        self.run.set_events(Some(events.clone()));
        let cancel = self.run.cancel.clone();
        if let Some(journal) = &self.journal {
            // What another node has by now ends here.
            let (lost, cancel) = (journal.lost().clone(), cancel.clone());
            tokio::spawn(async move {
                tokio::select! {
                    () = lost.cancelled() => cancel.cancel(),
                    () = cancel.cancelled() => {}
                }
            });
        }
        let sender = events.clone();
        let observer: cellblock_agent::Observer = Arc::new(move |event| {
            let _ = sender.send(Told::Agent(event.clone()));
        });
        let (conversation, is_resumed) = match (self.unfinished.take(), slot.take()) {
            (Some(unfinished), _) => (self.agent.resume(unfinished), true),
            (None, Some(mut conversation)) => {
                conversation.set_agent(&self.agent);
                (conversation, false)
            }
            (None, None) => {
                let runs = self
                    .state
                    .store()
                    .runs(&self.row.user, self.row.chat.clone())
                    .await;
                let earlier: Vec<RunRow> = runs
                    .unwrap_or_default()
                    .into_iter()
                    .filter(|run| run.id != self.row.id)
                    .collect();
                (self.chat.converse(&self.agent, &earlier), false)
            }
        };
        let mut conversation = conversation;
        conversation.set_run_id(self.row.id.clone());
        let outcome = match is_resumed {
            true => conversation.resume(observer, cancel).await,
            false => conversation.ask(&self.row.question, observer, cancel).await,
        };
        *slot = Some(conversation);
        self.run.set_events(None);
        let _ = events.send(Told::End);
        let _ = forwarding.await;
        outcome
    }

    async fn finish(self, outcome: Result<Outcome, AgentError>) {
        let mut row = self.row;
        let session = self.chat.session();
        let session = session.as_ref().map(|live| live.id.clone());
        row.session = session.or_else(|| self.chat_row.session.clone());
        // A run that the server's own stop ended is not over: it can be resumed.
        let is_cancelled =
            matches!(&outcome, Ok(outcome) if outcome.status == RunStatus::Cancelled);
        let journal = self.journal.as_deref();
        let is_lost = journal.is_some_and(|journal| journal.lost().is_cancelled());
        let mut is_cut_off = is_lost || (self.state.stop().is_cancelled() && is_cancelled);
        let mut used = UsageRow::default();
        let mut told: Value = match &outcome {
            Ok(outcome) => {
                row.status = match is_cut_off {
                    true => "cut_off".to_owned(),
                    false => outcome.status.name().to_owned(),
                };
                row.answer = outcome.answer.as_ref().map(|_| outcome.answer_text());
                row.cost = outcome.cost.map(|cost| cost.0);
                used.tokens = i64::try_from(outcome.usage.total()).unwrap_or(i64::MAX);
                used.cost = row.cost.unwrap_or(0.0);
                json!({
                    "status": row.status, "answer": outcome.answer, "message": outcome.message,
                    "reached": outcome.reached, "warnings": outcome.warnings, "usage": outcome.usage,
                    "cost": row.cost, "files": outcome.files, "verification": outcome.verification,
                    "session": row.session, "ms": outcome.ms,
                })
            }
            Err(error) => {
                row.status = "error".to_owned();
                json!({"status": "error", "message": error.to_string()})
            }
        };
        if !is_cut_off && !commit_end(journal, &self.state, &row, &told).await {
            is_cut_off = true;
            row.status = "cut_off".to_owned();
            used = UsageRow::default();
            told = json!({"status": "cut_off", "message": "another node has the run"});
        }
        let writer = self
            .record
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let (Some(writer), Ok(outcome), false) = (writer, &outcome, is_cut_off) {
            let end = RunEnd {
                status: row.status.clone(),
                answer: row.answer.clone(),
                outcome: serde_json::to_value(outcome).unwrap_or_default(),
            };
            let _ = tokio::task::spawn_blocking(move || writer.finish(end)).await;
        }
        let state = &self.state;
        let _ = state.store().put_run(&row).await;
        let _ = state.store().add_usage(&row.user, used).await;
        let chat = ChatRow {
            session: row.session.clone(),
            ..self.chat_row
        };
        let _ = state.store().update_chat(&chat).await;
        self.run.ring.publish_json("outcome", None, told);
        self.run.end();
    }
}

/// Records the end in the journal of the cluster, if the run is one of the queue. Returns whether the end counts.
async fn commit_end(
    journal: Option<&RunJournal>,
    state: &AppState,
    row: &RunRow,
    told: &Value,
) -> bool {
    let (Some(journal), Some(cluster)) = (journal, state.cluster()) else {
        return true;
    };
    let end = json!({"run": row, "outcome": told, "node": cluster.node.id()});
    journal.finish(end).await.is_ok()
}
