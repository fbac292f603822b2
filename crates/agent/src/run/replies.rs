//! What a reply means for a run: actions to execute, an answer to check, or a reply that cannot be read.

use super::history::{Round, cut_middle};
use super::state::{Phase, RunResult, RunState};
use super::summary::AttemptNote;
use super::{ActionResult, RunEvent, RunStatus, Step, texts};
use crate::builder::CodeExecution;
use crate::format::{Action, MalformedReply, Observation, Turn};
use crate::repair::read_value;
use cellblock_model::{Message, Reply};
use cellblock_protocol::ToolOutcome;
use cellblock_tools::names::FINAL_ANSWER;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// The characters that are kept of a reply that cannot be read.
const MAX_MALFORMED_CHARS: usize = 4_000;

impl RunState {
    /// Takes a reply that could be read: its answer, or its actions.
    pub(super) fn accept_turn(&mut self, reply: &Reply, turn: Turn, model_ms: u64) {
        if !turn.repairs.is_empty() {
            let repairs = turn.repairs.iter().map(ToString::to_string).collect();
            self.events.push(RunEvent::Repaired { repairs });
        }
        let malformed = std::mem::take(&mut self.malformed_replies);
        let answer = turn.answer().cloned();
        if let Some(answer) = answer.or_else(|| self.answer_beside_known_code(&turn)) {
            self.check_answer(reply, &turn, answer);
            return;
        }
        let step = self.step();
        self.events.push(RunEvent::Thought {
            step,
            text: turn.thought.clone(),
        });
        let message = self.format().assistant_message(reply, &turn, step);
        self.steps.push(Step {
            step,
            thought: turn.thought.clone(),
            actions: Vec::new(),
            repairs: turn.repairs.clone(),
            malformed,
            usage: reply.usage,
            model_ms,
        });
        self.phase = Phase::Acting(Box::new(turn), message);
    }

    /// The answer that stands beside code which the run has just executed. The model repeats that code, and the answer came after its
    /// result.
    fn answer_beside_known_code(&self, turn: &Turn) -> Option<Value> {
        let answer = turn.early_answer.as_ref()?;
        let last = self.steps.last()?.actions.last()?;
        let is_known = match turn.actions.as_slice() {
            [Action::Code(code)] => last.ok && last.code.as_ref() == Some(code),
            _ => false,
        };
        is_known.then(|| answer.clone())
    }

    /// Checks an answer against the schema. One that fits ends the run; otherwise the model is asked again.
    fn check_answer(&mut self, reply: &Reply, turn: &Turn, answer: Value) {
        let checked = match &self.config.answer_schema {
            Some(schema) => schema.parse(&answer),
            None => Ok(answer.clone()),
        };
        match checked {
            Ok(answer) => self.accept_answer(reply, turn, answer),
            Err(problem) => self.reject_answer(reply, answer, &problem),
        }
    }

    fn accept_answer(&mut self, reply: &Reply, turn: &Turn, answer: Value) {
        let message = self.format().assistant_message(reply, turn, self.step());
        let shown = texts::single_line(&answer.to_string(), 200);
        self.history.push(Round {
            reply: message,
            results: Vec::new(),
            notes: vec![AttemptNote {
                line: format!("answered: {shown}"),
                failed: false,
            }],
        });
        self.finish_with_answer(answer);
    }

    /// The answer that code handed over with `final_answer`, if it fits the schema. Otherwise the model reads why it does not count.
    pub(super) fn answer_of_code(
        &mut self,
        results: &[ActionResult],
        observation: Option<&mut Observation>,
    ) -> Option<Value> {
        let given = results.iter().rev().find_map(|done| {
            let answer = final_answer(done)?;
            Some((done.ok, answer))
        });
        let (is_complete, answer) = given?;
        let locale = self.context.locale;
        let schema = self.config.answer_schema.as_ref();
        let checked = schema.map_or_else(|| Ok(answer.clone()), |schema| schema.parse(&answer));
        let problem = match checked {
            Ok(answer) if is_complete => return Some(answer),
            Ok(_) => texts::answer_of_failed_code(locale).to_owned(),
            Err(problem) => {
                self.invalid_answers += 1;
                if self.invalid_answers > self.config.limits.invalid_answers {
                    let message = format!("the answer does not fit the schema: {problem}");
                    self.end(RunStatus::InvalidAnswer, message);
                }
                texts::invalid_answer(&problem, locale)
            }
        };
        if let Some(observation) = observation {
            observation.text.push('\n');
            observation.text.push_str(&problem);
        }
        None
    }

    /// Ends the run with an answer that was checked.
    pub(super) fn finish_with_answer(&mut self, answer: Value) {
        let actions = || self.steps.iter().flat_map(|step| &step.actions);
        let was_computed = actions().any(|action| action.ok);
        if self.config.code_execution == CodeExecution::Enabled && !was_computed {
            let warning = match actions().next() {
                Some(_) => texts::ALL_FAILED,
                None => texts::NOT_COMPUTED,
            };
            self.warnings.push(warning.to_owned());
        }
        self.events.push(RunEvent::Answer {
            answer: answer.clone(),
        });
        self.phase = Phase::Ended(RunResult {
            status: RunStatus::Answered,
            answer: Some(answer),
            message: None,
        });
    }

    fn reject_answer(&mut self, reply: &Reply, answer: Value, problem: &str) {
        self.invalid_answers += 1;
        self.last_text = Some(match answer {
            Value::String(text) => text,
            other => other.to_string(),
        });
        if self.invalid_answers > self.config.limits.invalid_answers {
            let message = format!("the answer does not fit the schema: {problem}");
            self.end(RunStatus::InvalidAnswer, message);
            return;
        }
        let text = texts::invalid_answer(problem, self.context.locale);
        self.events.push(RunEvent::Malformed {
            problem: text.clone(),
        });
        self.history.push(Round {
            reply: Message::assistant(reply.text.clone()),
            results: vec![Message::user(text)],
            notes: vec![AttemptNote {
                line: format!("an answer that did not fit: {problem}"),
                failed: true,
            }],
        });
    }

    /// Takes a reply that could not be read: the model is told why and asked again.
    pub(super) fn reject_reply(&mut self, reply: &Reply, malformed: &MalformedReply) {
        self.malformed_replies += 1;
        if !reply.text.trim().is_empty() {
            self.last_text = Some(reply.text.clone());
        }
        if self.malformed_replies > self.config.limits.malformed_replies {
            let message = format!(
                "{} replies in a row could not be read; the last one: {malformed}",
                self.malformed_replies
            );
            self.end(RunStatus::MalformedReplies, message);
            return;
        }
        let text = texts::malformed_reply(&malformed.0, self.context.locale);
        self.events.push(RunEvent::Malformed {
            problem: text.clone(),
        });
        // An assistant message must not be empty, and a long one that cannot be read is of no use.
        let mut shown = match reply.text.trim() {
            "" => "(no text)".to_owned(),
            text => text.to_owned(),
        };
        cut_middle(&mut shown, MAX_MALFORMED_CHARS);
        self.history.push(Round {
            reply: Message::assistant(shown),
            results: vec![Message::user(text)],
            notes: vec![AttemptNote {
                line: format!("a reply that could not be read: {}", malformed.0),
                failed: true,
            }],
        });
    }
}

/// The value that the code of an action handed over with `final_answer`, or that the model gave to the tool itself. The last call counts.
fn final_answer(done: &ActionResult) -> Option<Value> {
    if done.name == FINAL_ANSWER {
        return done.arguments.as_ref()?.get("answer").cloned();
    }
    let calls = done.result.as_ref()?.tool_calls.iter().rev();
    let mut calls =
        calls.filter(|call| call.name == FINAL_ANSWER && call.outcome == ToolOutcome::Ok);
    calls.next()?.arguments.to_map().get("answer").cloned()
}

/// The JSON schema that an answer must fit.
#[derive(Clone)]
pub(crate) struct AnswerSchema {
    pub(crate) schema: Value,
    validator: Arc<jsonschema::Validator>,
}

impl AnswerSchema {
    /// The error says why the value is not a JSON schema.
    pub(crate) fn new(schema: Value) -> Result<AnswerSchema, String> {
        let validator = jsonschema::validator_for(&schema).map_err(|error| error.to_string())?;
        Ok(AnswerSchema {
            schema,
            validator: Arc::new(validator),
        })
    }

    /// The answer in the form of the schema: as it is, or read from its text. The error says what is wrong with it.
    fn parse(&self, answer: &Value) -> Result<Value, String> {
        if self.validator.is_valid(answer) {
            return Ok(answer.clone());
        }
        let Value::String(text) = answer else {
            return Err(self.problems(answer));
        };
        match read_value(text) {
            Some(read) if self.validator.is_valid(&read.value) => Ok(read.value),
            Some(read) => Err(self.problems(&read.value)),
            None => self
                .value_after_label(text)
                .ok_or_else(|| "it is not JSON".to_owned()),
        }
    }

    /// The value of a text such as `Final answer: 2`. An object or a list is found in any text; a number is not, because there may be many.
    fn value_after_label(&self, text: &str) -> Option<Value> {
        let (_, value) = text.trim().split_once(':')?;
        let value = serde_json::from_str(value.trim().trim_end_matches('.')).ok()?;
        self.validator.is_valid(&value).then_some(value)
    }

    fn problems(&self, value: &Value) -> String {
        let problems = self.validator.iter_errors(value).take(5).map(|error| {
            let text: String = error.to_string().chars().take(200).collect();
            match error.instance_path().to_string() {
                path if path.is_empty() => text,
                path => format!("{path}: {text}"),
            }
        });
        problems.collect::<Vec<_>>().join("; ")
    }
}

impl fmt::Debug for AnswerSchema {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("AnswerSchema").field(&self.schema).finish()
    }
}
