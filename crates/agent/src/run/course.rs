//! The course of a run: a state machine that is told what happened and says what comes next. It does nothing itself.

mod budget;
mod replies;

use super::history::{Fit, History, Round, cut_middle};
use super::past::Before;
use super::stuck::{Sign, StuckWatch};
use super::summary::Scene;
use super::words;
use super::{Done, RunEvent, RunStatus, Step};
use crate::agent::Setup;
use crate::format::{Facts, Observation, Turn};
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
    /// What was done before the run was cut off.
    pub(crate) before: Before,
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
            before: Before::default(),
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
                "the question and the instructions need about {after} tokens, and the model takes {} with its reply; put what is long into a file",
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
}
