//! What a reply means for the course of a run.

use super::{Course, End, State};
use crate::format::{Malformed, Turn};
use crate::run::history::{Round, cut_middle};
use crate::run::summary::Tried;
use crate::run::{RunEvent, RunStatus, Step, words};
use cellblock_model::{Message, Reply};
use serde_json::Value;

impl Course {
    pub(super) fn understood(&mut self, reply: &Reply, turn: Turn, model_ms: u64) {
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

    pub(super) fn answered(&mut self, reply: &Reply, turn: &Turn, answer: Value) {
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

    pub(super) fn complain(&mut self, reply: &Reply, malformed: &Malformed) {
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
}
