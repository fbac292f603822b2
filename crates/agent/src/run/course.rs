//! The course of a run: a state machine that is told what happened and says what comes next. It does nothing itself.

use super::history::{Fit, History, Round, cut_middle};
use super::stuck::{Sign, StuckWatch};
use super::summary::{Scene, Tried};
use super::words;
use super::{Done, RunEvent, RunStatus, Step};
use crate::agent::Setup;
use crate::format::{Facts, Malformed, Observation, Turn};
use crate::prompt::system_prompt;
use cellblock_model::{Cost, Message, ModelError, Reply, Request, Usage, estimate_request};
use serde_json::Value;
use std::sync::Arc;

/// Where a run stands.
pub(crate) struct Course {
    setup: Arc<Setup>,
    pub(crate) facts: Facts,
    pub(crate) history: History,
    pub(crate) steps: Vec<Step>,
    pub(crate) usage: Usage,
    pub(crate) warnings: Vec<String>,
    events: Vec<RunEvent>,
    watch: StuckWatch,
    state: State,
    malformed: usize,
    malformed_before: usize,
    invalid: usize,
    failures: usize,
    has_shrunk: bool,
    context: u64,
    /// What the endpoint counts for each token of our estimate.
    calibration: f64,
    asked_tokens: u64,
    last_words: Option<String>,
}

enum State {
    Asking,
    Acting(Turn, Message),
    Over(End),
}

/// How it ended.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) status: RunStatus,
    pub(crate) answer: Option<Value>,
    pub(crate) message: Option<String>,
}

/// What comes next.
pub(crate) enum Next {
    /// Ask the model.
    Ask(Request),
    /// Do what it wants done.
    Act(Turn),
    /// Look at the session, for a summary.
    Survey,
    /// Nothing.
    End(End),
}

impl Course {
    pub(crate) fn new(setup: Arc<Setup>, facts: Facts, history: History) -> Course {
        let context = setup
            .context_tokens
            .unwrap_or(facts.capabilities.context_tokens);
        let mut course = Course {
            setup,
            facts,
            history,
            steps: Vec::new(),
            usage: Usage::default(),
            warnings: Vec::new(),
            events: Vec::new(),
            watch: StuckWatch::default(),
            state: State::Asking,
            malformed: 0,
            malformed_before: 0,
            invalid: 0,
            failures: 0,
            has_shrunk: false,
            context,
            calibration: 1.0,
            asked_tokens: 0,
            last_words: None,
        };
        course.write_system();
        course
    }

    /// The events since the last time.
    pub(crate) fn take_events(&mut self) -> Vec<RunEvent> {
        std::mem::take(&mut self.events)
    }

    /// The number of the step that is under way.
    pub(crate) fn step(&self) -> usize {
        self.steps.len() + 1
    }

    /// What comes next.
    pub(crate) fn next(&mut self) -> Next {
        match &self.state {
            State::Over(end) => return Next::End(end.clone()),
            State::Acting(turn, _) => return Next::Act(turn.clone()),
            State::Asking => {}
        }
        if let Some((status, message)) = self.exceeded() {
            self.end(status, message);
            return self.next();
        }
        let budget = self.budget();
        match self.history.fit(budget, self.facts.locale) {
            Fit::Fits => {}
            Fit::Shortened { before, after } => {
                self.events.push(RunEvent::Compacted { before, after })
            }
            Fit::NeedsScene => return Next::Survey,
        }
        let request = self.request();
        self.asked_tokens = estimate_request(&request);
        self.events.push(RunEvent::Asked {
            step: self.step(),
            tokens: self.asked_tokens,
        });
        Next::Ask(request)
    }

    /// The session was looked at: the oldest rounds become a summary.
    pub(crate) fn surveyed(&mut self, scene: Scene) {
        let budget = self.budget();
        let (before, after) = self.history.fold(budget, scene, self.facts.locale);
        self.events.push(RunEvent::Compacted { before, after });
        if after > budget {
            let message = format!(
                "the question and the instructions need about {after} tokens, and the model takes {} with its reply",
                self.context
            );
            self.end(RunStatus::ModelError, message);
        }
    }

    /// The model replied.
    pub(crate) fn heard(&mut self, reply: &Reply, model_ms: u64) {
        self.usage += reply.usage;
        if !reply.usage.estimated && reply.usage.input_tokens > 0 && self.asked_tokens > 0 {
            let ratio = reply.usage.input_tokens as f64 / self.asked_tokens as f64;
            self.calibration = ratio.clamp(0.5, 3.0).max(self.calibration);
        }
        self.events.push(RunEvent::Spent { usage: self.usage });
        match self.setup.format.implementation().read(reply, &self.facts) {
            Err(malformed) => self.complain(reply, &malformed),
            Ok(turn) => self.understood(reply, turn, model_ms),
        }
    }

    /// What was done is done.
    pub(crate) fn acted(&mut self, done: Vec<Done>, mut observations: Vec<Observation>) {
        let State::Acting(turn, said) = std::mem::replace(&mut self.state, State::Asking) else {
            return;
        };
        let step = self.steps.len();
        let locale = self.facts.locale;
        let most = self.observation_room(observations.len());
        for observation in &mut observations {
            cut_middle(&mut observation.text, most);
        }
        let sign = self.watch.look(&done, locale);
        if let (Sign::Tell(note), Some(last)) = (&sign, observations.last_mut()) {
            let end = words::how_to_answer(self.setup.format, locale);
            last.text.push_str(&format!("\n{note} {end}"));
            self.events.push(RunEvent::Note { text: note.clone() });
        }
        let format = self.setup.format.implementation();
        let observed = format.observed(&turn, step, &observations, &self.facts);
        self.history.push(Round {
            said,
            observed,
            digest: done.iter().map(words::digest).collect(),
        });
        let is_failure = done.iter().all(|done| !done.ok);
        self.failures = if is_failure { self.failures + 1 } else { 0 };
        if let Some(good) = done
            .iter()
            .rev()
            .find(|done| done.ok && !done.text.is_empty())
        {
            self.last_words = Some(good.text.clone());
        }
        if let Some(step) = self.steps.last_mut() {
            step.actions = done;
        }
        if let Sign::Stuck(words) = sign {
            self.end(RunStatus::Stuck, words);
        } else if self.failures >= self.setup.limits.failures {
            let message = format!("{} steps in a row failed", self.failures);
            self.end(RunStatus::MaxFailures, message);
        }
        self.degrade_compute();
    }

    /// The model could not be asked.
    pub(crate) fn model_failed(&mut self, error: &ModelError) {
        if let ModelError::ContextOverflow { limit, .. } = error
            && !self.has_shrunk
        {
            self.has_shrunk = true;
            let told = limit.filter(|limit| *limit < self.context);
            self.context = told.unwrap_or((self.asked_tokens.min(self.context)) / 10 * 7);
            self.calibration = self.calibration.max(1.2);
            let text = format!(
                "the conversation was too long for the model; it is shortened to about {} tokens",
                self.context
            );
            self.events.push(RunEvent::Note { text });
            return;
        }
        self.end(RunStatus::ModelError, error.to_string());
    }

    /// Ends the run, unless it is over.
    pub(crate) fn end(&mut self, status: RunStatus, message: impl Into<String>) {
        if !matches!(self.state, State::Over(_)) {
            self.state = State::Over(End {
                status,
                answer: None,
                message: Some(message.into()),
            });
        }
    }

    /// The last that was reached.
    pub(crate) fn reached(&self) -> Option<String> {
        let thoughts = self.steps.iter().rev().map(|step| step.thought.clone());
        let thought = thoughts.into_iter().find(|thought| !thought.is_empty());
        self.last_words.clone().or(thought)
    }

    /// What the tokens cost so far.
    pub(crate) fn cost(&self) -> Option<Cost> {
        let prices = self.facts.capabilities.prices.as_ref()?;
        Some(prices.cost(&self.usage))
    }

    fn understood(&mut self, reply: &Reply, turn: Turn, model_ms: u64) {
        if !turn.repairs.is_empty() {
            let repairs = turn.repairs.iter().map(ToString::to_string).collect();
            self.events.push(RunEvent::Repaired { repairs });
        }
        let malformed = std::mem::take(&mut self.malformed);
        self.malformed_before += malformed;
        if let Some(answer) = turn.answer().cloned() {
            self.answered(reply, &turn, answer);
            return;
        }
        self.events.push(RunEvent::Thought {
            step: self.step(),
            text: turn.thought.clone(),
        });
        let said = self
            .setup
            .format
            .implementation()
            .said(reply, &turn, self.step());
        self.steps.push(Step {
            step: self.step(),
            thought: turn.thought.clone(),
            actions: Vec::new(),
            repairs: turn.repairs.clone(),
            malformed,
            usage: reply.usage,
            model_ms,
        });
        self.state = State::Acting(turn, said);
    }

    fn answered(&mut self, reply: &Reply, turn: &Turn, answer: Value) {
        let said = self
            .setup
            .format
            .implementation()
            .said(reply, turn, self.step());
        let shaped = match &self.setup.answer {
            Some(shape) => shape.read(&answer),
            None => Ok(answer.clone()),
        };
        match shaped {
            Ok(answer) => {
                self.history.push(Round {
                    said,
                    observed: Vec::new(),
                    digest: vec![Tried {
                        line: format!("answered: {}", words::short(&answer.to_string(), 200)),
                        failed: false,
                    }],
                });
                if self.setup.runs_code
                    && !self
                        .steps
                        .iter()
                        .any(|step| step.actions.iter().any(|done| done.ok))
                {
                    self.warnings.push(words::NOT_COMPUTED.to_owned());
                }
                self.events.push(RunEvent::Answer {
                    answer: answer.clone(),
                });
                self.state = State::Over(End {
                    status: RunStatus::Answered,
                    answer: Some(answer),
                    message: None,
                });
            }
            Err(problem) => {
                self.invalid += 1;
                self.last_words = Some(match answer {
                    Value::String(text) => text,
                    other => other.to_string(),
                });
                if self.invalid > self.setup.limits.invalid_answers {
                    let message = format!("the answer does not fit the schema: {problem}");
                    self.end(RunStatus::InvalidAnswer, message);
                    return;
                }
                let words = words::invalid_answer(&problem, self.facts.locale);
                self.events.push(RunEvent::Malformed {
                    problem: words.clone(),
                });
                self.history.push(Round {
                    said: Message::assistant(reply.text.clone()),
                    observed: vec![Message::user(words)],
                    digest: vec![Tried {
                        line: format!("an answer that did not fit: {problem}"),
                        failed: true,
                    }],
                });
            }
        }
    }

    fn complain(&mut self, reply: &Reply, malformed: &Malformed) {
        self.malformed += 1;
        if !reply.text.trim().is_empty() {
            self.last_words = Some(reply.text.clone());
        }
        if self.malformed > self.setup.limits.malformed_replies {
            let message = format!(
                "{} replies in a row could not be read; the last one: {malformed}",
                self.malformed
            );
            self.end(RunStatus::MalformedReplies, message);
            return;
        }
        let words = words::malformed(&malformed.0, self.facts.locale);
        self.events.push(RunEvent::Malformed {
            problem: words.clone(),
        });
        // An assistant's message must not be empty; a long one that cannot be read is of no use whole.
        let mut said = match reply.text.trim() {
            "" => "(no text)".to_owned(),
            text => text.to_owned(),
        };
        cut_middle(&mut said, 4_000);
        self.history.push(Round {
            said: Message::assistant(said),
            observed: vec![Message::user(words)],
            digest: vec![Tried {
                line: format!("a reply that could not be read: {}", malformed.0),
                failed: true,
            }],
        });
    }

    fn exceeded(&self) -> Option<(RunStatus, String)> {
        let limits = &self.setup.limits;
        if self.steps.len() >= limits.steps {
            return Some((
                RunStatus::MaxSteps,
                format!("there was no answer after {} steps", limits.steps),
            ));
        }
        if let Some(most) = limits.tokens.filter(|most| self.usage.total() >= *most) {
            let used = self.usage.total();
            return Some((
                RunStatus::MaxTokens,
                format!("{used} tokens were used, and {most} are allowed"),
            ));
        }
        if let (Some(most), Some(cost)) = (limits.cost, self.cost())
            && cost.0 >= most
        {
            return Some((
                RunStatus::MaxCost,
                format!("it cost {:.4}, and {most} is allowed", cost.0),
            ));
        }
        None
    }

    fn request(&self) -> Request {
        let mut request = Request::new(self.history.messages(self.facts.locale));
        request.temperature = self.setup.temperature;
        request.max_tokens = self.setup.max_tokens;
        self.setup
            .format
            .implementation()
            .shape(&mut request, &self.facts);
        request
    }

    /// The tokens that the messages of a request may have: the context without the reply and the tools.
    fn budget(&self) -> u64 {
        let reply = self
            .setup
            .max_tokens
            .map_or((self.context / 4).min(4_096), u64::from);
        let mut empty = Request::default();
        self.setup
            .format
            .implementation()
            .shape(&mut empty, &self.facts);
        let all = self.context.saturating_sub(reply) as f64 / self.calibration;
        (all as u64).saturating_sub(estimate_request(&empty))
    }

    /// The characters that each observation of a step may have, so that the last steps fit whole.
    fn observation_room(&self, observations: usize) -> usize {
        let fixed = cellblock_model::estimate_tokens(&system_prompt(
            &self.setup.prompt,
            self.setup.format,
            &self.facts,
            self.setup.runs_code,
        ));
        let tokens = self.budget().saturating_sub(fixed) / 5;
        let characters = usize::try_from(tokens * 2).unwrap_or(usize::MAX) / observations.max(1);
        characters.clamp(500, crate::executor::OBSERVATION)
    }

    fn degrade_compute(&mut self) {
        const COMPUTE: &str = "compute";
        let failures = self.watch.failures_of(COMPUTE);
        if failures >= self.setup.limits.compute_failures
            && self.facts.registry.get(COMPUTE).is_some()
        {
            self.facts.registry = self.facts.registry.without(COMPUTE);
            self.write_system();
            let text = format!(
                "compute failed {failures} times in a row and is no longer offered in this run"
            );
            self.events.push(RunEvent::Note { text });
        }
    }

    fn write_system(&mut self) {
        let setup = &self.setup;
        let system = system_prompt(&setup.prompt, setup.format, &self.facts, setup.runs_code);
        self.history.set_system(system);
    }
}
