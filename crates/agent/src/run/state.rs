//! The state machine of a run. It is told what happened and says what comes next; it does no input or output itself.

use super::history::{ConversationHistory, Fit, Round, cut_middle};
use super::stuck::{StuckDetector, StuckStatus};
use super::summary::SessionOverview;
use super::texts;
use super::unfinished::CompletedActions;
use super::{ActionResult, RunEvent, RunStatus, Step};
use crate::agent::AgentConfig;
use crate::executor::MAX_OBSERVATION_CHARS;
use crate::format::{ActionFormat, FormatContext, Observation, Turn};
use crate::prompt::system_prompt;
use cellblock_model::openai::sent_messages;
use cellblock_model::{Cost, Message, ModelError, Reply, Request, Usage, estimate_request};
use cellblock_tools::names::COMPUTE;
use serde_json::Value;
use std::sync::Arc;

/// The smallest number of characters that an observation is cut to.
const MIN_OBSERVATION_CHARS: usize = 500;

/// The tokens that are left free for a reply, where the caller set no limit and the context is large.
const DEFAULT_REPLY_TOKENS: u64 = 4_096;

/// The state of a run.
pub(crate) struct RunState {
    pub(super) config: Arc<AgentConfig>,
    pub(crate) context: FormatContext,
    pub(crate) history: ConversationHistory,
    pub(crate) steps: Vec<Step>,
    pub(crate) usage: Usage,
    pub(crate) warnings: Vec<String>,
    /// The actions that were completed before the run was cut off.
    pub(crate) completed: CompletedActions,
    pub(super) events: Vec<RunEvent>,
    pub(super) phase: Phase,
    /// The replies in a row that could not be read.
    pub(super) malformed_replies: usize,
    /// The answers that did not fit the schema.
    pub(super) invalid_answers: usize,
    /// The last text that is worth showing if the run ends without an answer.
    pub(super) last_text: Option<String>,
    stuck: StuckDetector,
    /// The steps in a row in which every action failed.
    failed_steps: usize,
    /// Whether the context was reduced because the endpoint found the conversation too long.
    has_shrunk: bool,
    context_tokens: u64,
    /// The tokens that the endpoint counts for each token of our estimate.
    tokens_per_estimate: f64,
    /// The estimated tokens of the last request.
    request_tokens: u64,
    /// A request without messages. It changes with the tools only.
    empty_request: Request,
    /// The estimated tokens of that request: its tools.
    tools_tokens: u64,
}

/// Where a run stands.
pub(super) enum Phase {
    /// The model must be asked.
    Asking,
    /// The actions of this turn must be executed. The message is the model's reply.
    Acting(Box<Turn>, Message),
    /// The run has ended.
    Ended(RunResult),
}

/// How a run ended.
#[derive(Clone, Debug)]
pub(crate) struct RunResult {
    pub(crate) status: RunStatus,
    pub(crate) answer: Option<Value>,
    pub(crate) message: Option<String>,
}

/// What the run needs next.
pub(crate) enum NextOperation {
    /// Ask the model, then call [`RunState::model_replied`] or [`RunState::model_failed`].
    AskModel(Request),
    /// Execute the actions of a turn, then call [`RunState::actions_completed`].
    Execute(Turn),
    /// Read the session for a summary, then call [`RunState::session_read`].
    ReadSession,
    /// Nothing: the run has ended.
    Finish(RunResult),
}

impl RunState {
    pub(crate) fn new(
        config: Arc<AgentConfig>,
        context: FormatContext,
        history: ConversationHistory,
    ) -> RunState {
        let context_tokens = config
            .context_tokens
            .unwrap_or(context.capabilities.context_tokens);
        let mut state = RunState {
            config,
            context,
            history,
            steps: Vec::new(),
            usage: Usage::default(),
            warnings: Vec::new(),
            completed: CompletedActions::default(),
            events: Vec::new(),
            phase: Phase::Asking,
            malformed_replies: 0,
            invalid_answers: 0,
            last_text: None,
            stuck: StuckDetector::default(),
            failed_steps: 0,
            has_shrunk: false,
            context_tokens,
            tokens_per_estimate: 1.0,
            request_tokens: 0,
            empty_request: Request::default(),
            tools_tokens: 0,
        };
        state.update_prompt_and_tools();
        state
    }

    /// Takes the events since the last call.
    pub(crate) fn take_events(&mut self) -> Vec<RunEvent> {
        std::mem::take(&mut self.events)
    }

    /// The number of the current step, from 1.
    pub(crate) fn step(&self) -> usize {
        self.steps.len() + 1
    }

    /// Decides what comes next.
    pub(crate) fn next_operation(&mut self) -> NextOperation {
        match &self.phase {
            Phase::Ended(result) => return NextOperation::Finish(result.clone()),
            Phase::Acting(turn, _) => return NextOperation::Execute(Turn::clone(turn)),
            Phase::Asking => {}
        }
        if let Some((status, message)) = self.exceeded_limit() {
            self.end(status, message);
            return self.next_operation();
        }
        let budget = self.message_budget();
        match self.history.fit(budget, self.context.locale) {
            Fit::Fits => {}
            Fit::Shortened(tokens) => self.events.push(RunEvent::Compacted {
                before: tokens.before,
                after: tokens.after,
            }),
            Fit::NeedsSummary => return NextOperation::ReadSession,
        }
        let locale = self.context.locale;
        self.request_tokens = self.history.tokens(locale) + self.tools_tokens;
        let messages = self.history.messages(locale);
        let sent = sent_messages(&messages, &self.context.capabilities);
        let with_messages = |messages| Request {
            messages,
            ..self.empty_request.clone()
        };
        self.events.push(RunEvent::Asked {
            step: self.step(),
            tokens: self.request_tokens,
            request: Some(Arc::new(with_messages(sent.messages))),
        });
        NextOperation::AskModel(with_messages(messages))
    }

    /// The session was read: replaces the oldest rounds by a summary.
    pub(crate) fn session_read(&mut self, session: SessionOverview) {
        let budget = self.message_budget();
        let locale = self.context.locale;
        let tokens = self.history.summarize(budget, session, locale);
        let (before, after) = (tokens.before, tokens.after);
        self.events.push(RunEvent::Compacted { before, after });
        if after > budget {
            let message = format!(
                "the question and the instructions need about {after} tokens, and the model takes {} with its reply; put what is long into a file",
                self.context_tokens
            );
            self.end(RunStatus::ModelError, message);
        }
    }

    /// The model replied: reads the reply.
    pub(crate) fn model_replied(&mut self, reply: &Reply, model_ms: u64) {
        self.usage += reply.usage;
        if !reply.usage.estimated && reply.usage.input_tokens > 0 && self.request_tokens > 0 {
            let ratio = reply.usage.input_tokens as f64 / self.request_tokens as f64;
            self.tokens_per_estimate = ratio.clamp(0.5, 3.0).max(self.tokens_per_estimate);
        }
        self.events.push(RunEvent::Spent { usage: self.usage });
        match self.format().parse(reply, &self.context) {
            Err(malformed) => self.reject_reply(reply, &malformed),
            Ok(turn) => self.accept_turn(reply, turn, model_ms),
        }
    }

    /// The actions of a turn were executed: adds their results to the conversation.
    pub(crate) fn actions_completed(
        &mut self,
        results: Vec<ActionResult>,
        mut observations: Vec<Observation>,
    ) {
        let Phase::Acting(turn, reply) = std::mem::replace(&mut self.phase, Phase::Asking) else {
            return;
        };
        let step = self.steps.len();
        let locale = self.context.locale;
        let max_chars = self.max_observation_chars(observations.len());
        for observation in &mut observations {
            cut_middle(&mut observation.text, max_chars);
        }
        if let Some(last) = observations.last_mut() {
            for note in &turn.notes {
                last.text.push('\n');
                last.text.push_str(note);
            }
        }
        let answer = self.answer_of_code(&results, observations.last_mut());
        let stuck = self.stuck.check_step(&results, locale);
        if let (StuckStatus::Warn(note), Some(last)) = (&stuck, observations.last_mut()) {
            let how_to_answer = texts::how_to_answer(self.config.format, locale);
            last.text.push_str(&format!("\n{note} {how_to_answer}"));
            self.events.push(RunEvent::Note { text: note.clone() });
        }
        if let (Some(note), Some(last)) = (self.withdraw_failing_compute(), observations.last_mut())
        {
            last.text.push('\n');
            last.text.push_str(&note);
        }
        let messages = self
            .format()
            .result_messages(&turn, step, &observations, &self.context);
        self.history.push(Round {
            reply,
            results: messages,
            notes: results.iter().map(texts::attempt_note).collect(),
        });
        let has_failed = results.iter().all(|result| !result.ok);
        self.failed_steps = if has_failed { self.failed_steps + 1 } else { 0 };
        let mut successes = results.iter().rev().filter(|result| result.ok);
        if let Some(success) = successes.find(|result| !result.text.is_empty()) {
            self.last_text = Some(success.text.clone());
        }
        if let Some(step) = self.steps.last_mut() {
            step.actions = results;
        }
        if let Some(answer) = answer {
            self.finish_with_answer(answer);
        } else if let StuckStatus::Stuck(repetition) = stuck {
            self.end(RunStatus::Stuck, repetition);
        } else if self.failed_steps >= self.config.limits.failures {
            let message = format!("{} steps in a row failed", self.failed_steps);
            self.end(RunStatus::MaxFailures, message);
        }
    }

    /// The model gave no reply. A conversation that is too long is shortened and asked once more; any other error ends the run.
    pub(crate) fn model_failed(&mut self, error: &ModelError) {
        if let ModelError::ContextOverflow { limit, .. } = error
            && !self.has_shrunk
        {
            self.has_shrunk = true;
            let reported = limit.filter(|limit| *limit < self.context_tokens);
            let reduced = self.request_tokens.min(self.context_tokens) / 10 * 7;
            self.context_tokens = reported.unwrap_or(reduced);
            self.tokens_per_estimate = self.tokens_per_estimate.max(1.2);
            let text = format!(
                "the conversation was too long for the model; it is shortened to about {} tokens",
                self.context_tokens
            );
            self.events.push(RunEvent::Note { text });
            return;
        }
        self.end(RunStatus::ModelError, error.to_string());
    }

    /// Ends the run without an answer, unless it has ended already.
    pub(crate) fn end(&mut self, status: RunStatus, message: impl Into<String>) {
        if !matches!(self.phase, Phase::Ended(_)) {
            self.phase = Phase::Ended(RunResult {
                status,
                answer: None,
                message: Some(message.into()),
            });
        }
    }

    /// The last result or thought, for a run that ends without an answer.
    pub(crate) fn last_progress(&self) -> Option<String> {
        let mut thoughts = self.steps.iter().rev().map(|step| &step.thought);
        let thought = thoughts.find(|thought| !thought.is_empty());
        self.last_text.clone().or(thought.cloned())
    }

    /// The cost of the tokens so far, where prices are known.
    pub(crate) fn cost(&self) -> Option<Cost> {
        let prices = self.context.capabilities.prices.as_ref()?;
        Some(prices.cost(&self.usage))
    }

    pub(super) fn format(&self) -> &'static dyn ActionFormat {
        self.config.format.implementation()
    }

    /// The limit that the run has reached, if it has reached one.
    fn exceeded_limit(&self) -> Option<(RunStatus, String)> {
        let limits = &self.config.limits;
        if self.steps.len() >= limits.steps {
            return Some((
                RunStatus::MaxSteps,
                format!("there was no answer after {} steps", limits.steps),
            ));
        }
        if let Some(limit) = limits.tokens.filter(|limit| self.usage.total() >= *limit) {
            let used = self.usage.total();
            return Some((
                RunStatus::MaxTokens,
                format!("{used} tokens were used, and {limit} are allowed"),
            ));
        }
        if let (Some(limit), Some(cost)) = (limits.cost, self.cost())
            && cost.0 >= limit
        {
            return Some((
                RunStatus::MaxCost,
                format!("it cost {:.4}, and {limit} is allowed", cost.0),
            ));
        }
        None
    }

    /// The tokens that the messages of a request may have: the context without the reply and the tools.
    fn message_budget(&self) -> u64 {
        let default_reply = (self.context_tokens / 4).min(DEFAULT_REPLY_TOKENS);
        let reply = self.config.max_tokens.map_or(default_reply, u64::from);
        let all = self.context_tokens.saturating_sub(reply) as f64 / self.tokens_per_estimate;
        (all as u64).saturating_sub(self.tools_tokens)
    }

    /// The characters that each observation of a step may have, so that the last steps fit whole.
    fn max_observation_chars(&self, observations: usize) -> usize {
        let prompt = self.history.system_tokens();
        let tokens = self.message_budget().saturating_sub(prompt) / 5;
        let chars = usize::try_from(tokens * 2).unwrap_or(usize::MAX) / observations.max(1);
        chars.clamp(MIN_OBSERVATION_CHARS, MAX_OBSERVATION_CHARS)
    }

    /// Stops to offer the tool `compute` when it has failed too often in a row. Returns what the model must know of that.
    fn withdraw_failing_compute(&mut self) -> Option<String> {
        let failures = self.stuck.failures_of(COMPUTE);
        if failures >= self.config.limits.compute_failures
            && self.context.registry.get(COMPUTE).is_some()
        {
            self.context.registry = self.context.registry.without(COMPUTE);
            self.update_prompt_and_tools();
            let text = format!(
                "compute failed {failures} times in a row and is no longer offered in this run"
            );
            self.events.push(RunEvent::Note { text });
            return Some(texts::compute_withdrawn(failures, self.context.locale));
        }
        None
    }

    /// Makes the system prompt and the tools of the requests anew. Called when the registry has changed.
    fn update_prompt_and_tools(&mut self) {
        let config = &self.config;
        self.history.set_system(system_prompt(
            &config.prompt,
            config.format,
            &self.context,
            config.code_execution,
        ));
        let mut request = Request {
            temperature: config.temperature,
            max_tokens: config.max_tokens,
            ..Request::default()
        };
        self.format().prepare_request(&mut request, &self.context);
        self.tools_tokens = estimate_request(&request);
        self.empty_request = request;
    }
}
