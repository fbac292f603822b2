//! One JSON object with a plan and the next call: reasoning guided by a schema.

use super::glimpse::partial_text;
use super::union::union_of_tools;
use super::{
    Action, ActionFormat, CallKind, Facts, Format, Glimpse, Growing, Malformed, Observation,
    ToolUse, ToolsFormat, Turn,
};
use crate::prompt::{Part, fill};
use crate::repair::{Repair, read_object, split_thinking};
use cellblock_model::{
    AssistantMessage, FinishReason, Message, Reply, Request, ResponseFormat, ToolCall,
};
use cellblock_tools::PURPOSE;
use serde_json::{Map, Value, json};

/// `{"current_state", "plan_remaining_steps_brief", "task_completed", "function": {"tool", …}}`.
#[derive(Clone, Copy, Debug)]
pub struct NextStepFormat;

/// The call that ends a run.
pub(super) const COMPLETION: &str = "report_task_completion";

const FIELDS: [&str; 4] = [
    "current_state",
    "plan_remaining_steps_brief",
    "task_completed",
    "function",
];

impl ActionFormat for NextStepFormat {
    fn format(&self) -> Format {
        Format::NextStep
    }

    fn instructions(&self, facts: &Facts) -> String {
        let (schema, _) = union_of_tools(facts);
        let tools: Vec<String> = facts
            .registry
            .definitions()
            .map(|definition| format!("- {}: {}", definition.name, definition.description))
            .collect();
        let words = [("tools", tools.join("\n")), ("schema", schema.to_string())];
        let words: Vec<(&str, &str)> = words
            .iter()
            .map(|(key, text)| (*key, text.as_str()))
            .collect();
        fill(Part::Format(Format::NextStep), facts.locale, &words)
    }

    fn shape(&self, request: &mut Request, facts: &Facts) {
        if facts.capabilities.json_schema {
            let (schema, strict) = union_of_tools(facts);
            request.response_format = ResponseFormat::JsonSchema {
                name: "next_step".to_owned(),
                schema,
                strict,
            };
        }
    }

    fn read(&self, reply: &Reply, facts: &Facts) -> Result<Turn, Malformed> {
        let cut_off = reply.finish == FinishReason::Length;
        let (inner, text) = split_thinking(&reply.text);
        if text.trim().is_empty() {
            return Err(Malformed::nothing(cut_off));
        }
        let fits = |map: &Map<String, Value>| {
            map.keys().all(|key| FIELDS.contains(&key.as_str()))
                && step_of(map).is_ok_and(|(name, arguments)| {
                    name == COMPLETION || facts.registry.check(&name, arguments).is_ok()
                })
        };
        let read = match read_object(text, cut_off, &FIELDS, fits) {
            Ok(read) => read,
            Err(_) if cut_off => return Err(Malformed::cut_off()),
            Err(problem) => {
                return Err(Malformed(format!(
                    "{problem}. Reply with exactly one JSON object that fits the schema"
                )));
            }
        };
        let thought = read
            .value
            .get("current_state")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let (name, mut arguments) = step_of(&read.value).map_err(Malformed)?;
        let mut repairs = read.repairs;
        repairs.extend(inner.map(|_| Repair::Thinking));
        let action = if name == COMPLETION {
            let answer = arguments
                .shift_remove("answer")
                .filter(|answer| !answer.is_null());
            let missing = || Malformed(format!("the field `answer` of {COMPLETION} is missing"));
            Action::Answer(answer.ok_or_else(missing)?)
        } else {
            // The state says why.
            if !thought.is_empty() {
                arguments.entry(PURPOSE).or_insert_with(|| json!(thought));
            }
            Action::Call(ToolUse {
                id: String::new(),
                name,
                raw: Value::Object(arguments.clone()).to_string(),
                arguments: arguments.into(),
                kind: CallKind::Tool,
            })
        };
        Ok(Turn {
            thought,
            actions: vec![action],
            repairs,
        })
    }

    fn said(&self, reply: &Reply, turn: &Turn, step: usize) -> Message {
        let Some(Action::Call(call)) = turn.actions.first() else {
            return Message::assistant(reply.text.clone());
        };
        Message::Assistant(AssistantMessage {
            content: format!("Thought: {}", turn.thought),
            tool_calls: vec![ToolCall {
                id: format!("step_{step}"),
                name: call.name.clone(),
                arguments: call.raw.clone(),
            }],
            ..AssistantMessage::default()
        })
    }

    fn observed(
        &self,
        turn: &Turn,
        step: usize,
        observations: &[Observation],
        facts: &Facts,
    ) -> Vec<Message> {
        let mut turn = turn.clone();
        for action in &mut turn.actions {
            if let Action::Call(call) = action {
                call.id = format!("step_{step}");
            }
        }
        ToolsFormat.observed(&turn, step, observations, facts)
    }

    fn glimpse(&self, growing: &Growing) -> Glimpse {
        Glimpse {
            thought: partial_text(&growing.text, "current_state"),
            code: partial_text(&growing.text, "python_code_snippet"),
        }
    }
}

/// The name of the next call, and its arguments.
fn step_of(map: &Map<String, Value>) -> Result<(String, Map<String, Value>), String> {
    let function = match map.get("function") {
        Some(Value::Object(function)) => function,
        Some(_) => {
            return Err("the field `function` must be an object with the field `tool`".to_owned());
        }
        None => return Err("the field `function` is missing".to_owned()),
    };
    let mut arguments = function.clone();
    match arguments.shift_remove("tool") {
        Some(Value::String(name)) => Ok((name, arguments)),
        _ => Err("the field `tool` of `function` is missing: it names the tool".to_owned()),
    }
}
