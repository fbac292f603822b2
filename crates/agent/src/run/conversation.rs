//! A conversation: questions over one session.

use super::actions::{ActionContext, run_actions};
use super::best_of::{BestReply, best_reply};
use super::history::ConversationHistory;
use super::model_call::ask_model;
use super::state::{NextOperation, RunResult, RunState};
use super::summary::SessionOverview;
use super::{Observer, Outcome, RunEvent, RunStatus, UnfinishedRun, texts};
use crate::agent::{Agent, AgentConfig, AgentError};
use crate::builder::Verify;
use crate::executor::{ExecutorOptions, ForkKind, OpenExecutor, WorkspaceChoice};
use crate::format::{FormatContext, Turn};
use crate::verify::verify;
use cellblock_model::{ModelError, Reply, Request};
use cellblock_protocol::Undone;
use cellblock_tools::{ForkTools, ToolError};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

/// The time limit where there is none: about 30 years.
const NO_TIME_LIMIT: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// A conversation over one session: each question sees the messages and the variables of the questions before it.
///
/// Dropping a conversation does not end its session: call [`close`](OpenExecutor::close) on [`executor`](Self::executor).
pub struct Conversation {
    config: Arc<AgentConfig>,
    executor: Arc<dyn OpenExecutor>,
    history: ConversationHistory,
    run_id: Option<String>,
    unfinished: Option<UnfinishedRun>,
    /// What the model must know before the next question.
    notes: Vec<String>,
}

/// What a conversation remembers: the messages so far, and what its model is to be told with the next question.
#[derive(Clone, Debug)]
pub struct ConversationMemory {
    history: ConversationHistory,
    notes: Vec<String>,
}

impl Conversation {
    pub(crate) fn new(config: Arc<AgentConfig>, unfinished: Option<UnfinishedRun>) -> Conversation {
        let executor = config.executor.open(ExecutorOptions {
            registry: config.registry.clone(),
            seed: config.seed.clone(),
            approval: config.approval.clone(),
            locale: config.locale,
            workspace: WorkspaceChoice::Usual,
            replay: None,
            earlier: unfinished.as_ref().map(UnfinishedRun::earlier_calls),
        });
        Conversation {
            config,
            executor,
            history: ConversationHistory::default(),
            run_id: None,
            unfinished,
            notes: Vec::new(),
        }
    }

    /// Sets the id under which traces record the next runs.
    pub fn set_run_id(&mut self, id: impl Into<String>) {
        self.run_id = Some(id.into());
    }

    /// The executor of the conversation: its session and its tools.
    pub fn executor(&self) -> &Arc<dyn OpenExecutor> {
        &self.executor
    }

    /// Copies the conversation, over a fork of its session. The two then go on independently, with the same tools and approver.
    pub async fn fork(&self) -> Result<Conversation, ToolError> {
        self.forked(Arc::clone(&self.config), ForkKind::Lasting)
            .await
    }

    /// Copies the conversation for another agent, over a fork of its session. The calls of the copy go to the tools and the approver of that
    /// agent, which [`Agent::for_fork`] makes.
    pub async fn fork_for(&self, agent: &Agent) -> Result<Conversation, ToolError> {
        let config = agent.config();
        let tools = ForkTools {
            registry: config.registry.clone(),
            approval: config.approval.clone(),
        };
        self.forked(config, ForkKind::WithTools(Box::new(tools)))
            .await
    }

    async fn forked(
        &self,
        config: Arc<AgentConfig>,
        kind: ForkKind,
    ) -> Result<Conversation, ToolError> {
        Ok(Conversation {
            config,
            executor: self.executor.fork(kind).await?,
            history: self.history.clone(),
            run_id: self.run_id.clone(),
            unfinished: None,
            notes: self.notes.clone(),
        })
    }

    /// What was said so far, for a conversation over another session. Without the question that is being answered, if one is.
    pub fn memory(&self) -> ConversationMemory {
        ConversationMemory {
            history: self.history.clone(),
            notes: self.notes.clone(),
        }
    }

    /// Goes on from what another conversation remembers.
    pub fn remember(&mut self, memory: ConversationMemory) {
        self.history = memory.history;
        self.notes = memory.notes;
    }

    /// Takes back the last cells of the session. The model is told so before the next question.
    pub async fn undo(&mut self, cells: usize) -> Result<Undone, ToolError> {
        let undone = self.executor.undo(cells).await?;
        self.note_undo(cells);
        Ok(undone)
    }

    /// Adds the note that the last cells were taken back, where this was done to the session itself.
    pub fn note_undo(&mut self, cells: usize) {
        let note = texts::cells_taken_back(cells, self.config.locale);
        self.notes.push(note);
    }

    /// Adds a note to the next question, such as what a person did to the session meanwhile.
    pub fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }

    /// Goes on with another agent, such as one with another model. The session and the messages stay.
    pub fn set_agent(&mut self, agent: &Agent) {
        self.config = agent.config();
    }

    /// Asks a question, and runs until there is an answer or a limit is reached. When `cancel` is cancelled, the run ends at once with what
    /// was reached.
    pub async fn ask(
        &mut self,
        question: &str,
        observer: Observer,
        cancel: CancellationToken,
    ) -> Result<Outcome, AgentError> {
        if question.trim().is_empty() {
            return Err(AgentError::EmptyQuestion);
        }
        self.traced_run(question, None, observer, cancel).await
    }

    /// Goes on with the run that was cut off. Only for a conversation that [`Agent::resume`] opened, and only once.
    pub async fn resume(
        &mut self,
        observer: Observer,
        cancel: CancellationToken,
    ) -> Result<Outcome, AgentError> {
        let unfinished = self.unfinished.take().ok_or(AgentError::NothingToResume)?;
        let question = unfinished.question().to_owned();
        self.traced_run(&question, Some(unfinished), observer, cancel)
            .await
    }

    async fn traced_run(
        &mut self,
        question: &str,
        unfinished: Option<UnfinishedRun>,
        observer: Observer,
        cancel: CancellationToken,
    ) -> Result<Outcome, AgentError> {
        let run = self.run_id.as_deref().unwrap_or("-");
        let span = tracing::info_span!("run", run, model = self.config.model.name(), format = %self.config.format, outcome = tracing::field::Empty);
        let outcome = self.run(question, unfinished, observer, cancel);
        let outcome = outcome.instrument(span.clone()).await;
        span.record("outcome", outcome.status.name());
        Ok(outcome)
    }

    async fn run(
        &mut self,
        question: &str,
        unfinished: Option<UnfinishedRun>,
        observer: Observer,
        cancel: CancellationToken,
    ) -> Outcome {
        let started = Instant::now();
        self.config.nested_runs.set_observer(&observer);
        let mut history = std::mem::take(&mut self.history);
        let mut texts = std::mem::take(&mut self.notes);
        texts.push(question.to_owned());
        history.ask(&texts.join("\n\n"));
        let mut state = RunState::new(Arc::clone(&self.config), self.format_context(), history);
        match unfinished {
            Some(unfinished) => {
                unfinished.replay(&mut state, self.executor.as_ref()).await;
                let steps = state.steps.len();
                let format = self.config.format;
                observer(&RunEvent::Resumed { steps, format });
            }
            None => observer(&RunEvent::Begun {
                question: question.to_owned(),
                model: self.config.model.name().to_owned(),
                format: self.config.format,
            }),
        }
        let result = self.drive(&mut state, &observer, &cancel, started).await;
        let outcome = self.outcome(&mut state, result, question, started).await;
        self.history = std::mem::take(&mut state.history);
        observer(&RunEvent::Finished {
            status: outcome.status,
            message: outcome.message.clone(),
        });
        outcome
    }

    /// Does what the state machine says until the run has ended. Cancellation and the time limit end whatever is under way.
    async fn drive(
        &self,
        state: &mut RunState,
        observer: &Observer,
        cancel: &CancellationToken,
        started: Instant,
    ) -> RunResult {
        let limit = self.config.limits.time.unwrap_or(NO_TIME_LIMIT);
        loop {
            let operation = state.next_operation();
            send_events(state, observer);
            if let NextOperation::Finish(result) = operation {
                return result;
            }
            let left = limit.saturating_sub(started.elapsed());
            let stopped = tokio::select! {
                biased;
                () = cancel.cancelled() => Some((RunStatus::Cancelled, "the run was cancelled".to_owned())),
                () = tokio::time::sleep(left) => {
                    let message = format!("there was no answer within {} s", limit.as_secs_f64());
                    Some((RunStatus::MaxTime, message))
                }
                () = self.perform(state, operation, observer) => None,
            };
            if let Some((status, message)) = stopped {
                state.end(status, message);
            }
            send_events(state, observer);
        }
    }

    /// Performs one operation and tells the state machine the result.
    async fn perform(&self, state: &mut RunState, operation: NextOperation, observer: &Observer) {
        match operation {
            NextOperation::AskModel(request) => {
                let started = Instant::now();
                match self.reply(state, request, observer).await {
                    Ok(reply) => {
                        let ms = milliseconds_since(started);
                        observer(&RunEvent::Replied {
                            reply: Box::new(reply.clone()),
                            ms,
                        });
                        state.model_replied(&reply, ms);
                    }
                    Err(error) => state.model_failed(&error),
                }
            }
            NextOperation::Execute(turn) => self.execute(state, &turn, observer).await,
            NextOperation::ReadSession => {
                let session = SessionOverview::read(self.executor.as_ref()).await;
                state.session_read(session);
            }
            NextOperation::Finish(_) => {}
        }
    }

    async fn execute(&self, state: &mut RunState, turn: &Turn, observer: &Observer) {
        let step = state.steps.len();
        let span = tracing::info_span!("step", step);
        let context = ActionContext {
            executor: self.executor.as_ref(),
            step,
            format_context: &state.context,
            observer,
            completed: &state.completed,
        };
        let all = run_actions(&context, turn).instrument(span).await;
        let (results, observations) = all.into_iter().unzip();
        state.usage += self.config.nested_runs.take_usage();
        state.actions_completed(results, observations);
    }

    async fn reply(
        &self,
        state: &mut RunState,
        request: Request,
        observer: &Observer,
    ) -> Result<Reply, ModelError> {
        let (config, executor) = (self.config.as_ref(), self.executor.as_ref());
        if config.best_of > 1 {
            let best = best_reply(
                config,
                executor,
                &state.context,
                state.step(),
                request,
                observer,
            );
            let BestReply { reply, other_usage } = best.await?;
            state.usage += other_usage;
            return Ok(reply);
        }
        let format = config.format.implementation();
        ask_model(config.model.as_ref(), request, format, observer).await
    }

    fn format_context(&self) -> FormatContext {
        let schema = self.config.answer_schema.as_ref();
        FormatContext {
            registry: self.config.registry.clone(),
            locale: self.config.locale,
            capabilities: self.config.model.capabilities().clone(),
            dependencies: self.config.executor.available_dependencies(),
            workspace: self.config.executor.workspace_path(),
            surroundings: self.config.executor.surroundings(),
            answer_schema: schema.map(|answer| answer.schema.clone()),
        }
    }

    async fn outcome(
        &self,
        state: &mut RunState,
        result: RunResult,
        question: &str,
        started: Instant,
    ) -> Outcome {
        let is_answered = result.status == RunStatus::Answered;
        let mut outcome = Outcome {
            answer: result.answer,
            status: result.status,
            message: result.message,
            reached: if is_answered {
                None
            } else {
                state.last_progress()
            },
            usage: state.usage,
            cost: state.cost(),
            steps: std::mem::take(&mut state.steps),
            session: self.executor.session().await,
            files: self.executor.files().await,
            warnings: std::mem::take(&mut state.warnings),
            verification: None,
            ms: 0,
        };
        if self.config.verify == Verify::On && is_answered {
            let recording = self.executor.recording();
            let first = self.executor.as_ref();
            let verification = verify(&self.config, &outcome, question, recording, first).await;
            outcome.warnings.extend(verification.warnings());
            outcome.verification = Some(verification);
        }
        outcome.ms = milliseconds_since(started);
        outcome
    }
}

fn send_events(state: &mut RunState, observer: &Observer) {
    for event in state.take_events() {
        observer(&event);
    }
}

/// The milliseconds since this moment, for events and results.
pub(super) fn milliseconds_since(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX)
}

impl fmt::Debug for Conversation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Conversation").finish_non_exhaustive()
    }
}
