//! One JSON object: what the model thinks, and what it does.

use super::glimpse::partial_text;
use super::{
    Action, ActionFormat, Facts, Format, Glimpse, Growing, Malformed, Observation, Turn,
    as_user_messages, code_instructions, joined,
};
use crate::prompt::Part;
use crate::repair::{Repair, code_blocks, read_object, split_thinking};
use cellblock_model::{FinishReason, Message, Reply, Request, ResponseFormat};
use serde_json::{Map, Value, json};

/// One JSON object: `{"thought", "action", "code", "final_answer"}`.
#[derive(Clone, Copy, Debug)]
pub struct JsonFormat;

const FIELDS: [&str; 4] = ["thought", "action", "code", "final_answer"];

impl ActionFormat for JsonFormat {
    fn format(&self) -> Format {
        Format::Json
    }

    fn instructions(&self, facts: &Facts) -> String {
        code_instructions(Part::Format(Format::Json), facts)
    }

    fn shape(&self, request: &mut Request, facts: &Facts) {
        if !facts.capabilities.json_schema {
            return;
        }
        let answer = match &facts.answer_schema {
            Some(schema) => json!({"anyOf": [schema, {"type": "null"}]}),
            None => json!({"type": ["string", "null"]}),
        };
        request.response_format = ResponseFormat::JsonSchema {
            name: "action".to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    "thought": {"type": "string"},
                    "action": {"type": "string", "enum": ["execute_code", "debug_error", "provide_answer"]},
                    "code": {"type": ["string", "null"]},
                    "final_answer": answer,
                },
                "required": FIELDS,
                "additionalProperties": false,
            }),
            strict: facts.answer_schema.is_none(),
        };
    }

    fn read(&self, reply: &Reply, _: &Facts) -> Result<Turn, Malformed> {
        let cut_off = reply.finish == FinishReason::Length;
        let (inner, text) = split_thinking(&reply.text);
        if text.trim().is_empty() {
            return Err(Malformed::nothing(cut_off));
        }
        let fits = |map: &Map<String, Value>| {
            map.keys().all(|key| FIELDS.contains(&key.as_str())) && action_of(map).is_ok()
        };
        let read = match read_object(text, cut_off, &FIELDS, fits) {
            Ok(read) => read,
            Err(_) if cut_off => return Err(Malformed::cut_off()),
            Err(problem) => {
                return Err(Malformed(format!(
                    "{problem}. Reply with exactly one JSON object with the fields thought, action, code and final_answer"
                )));
            }
        };
        let (action, shaped) = action_of(&read.value).map_err(Malformed)?;
        let mut repairs = read.repairs;
        repairs.extend(inner.map(|_| Repair::Thinking));
        repairs.extend(shaped);
        let thought = read
            .value
            .get("thought")
            .and_then(Value::as_str)
            .unwrap_or_default();
        Ok(Turn {
            thought: thought.to_owned(),
            actions: vec![action],
            repairs,
        })
    }

    fn said(&self, reply: &Reply, _: &Turn, _: usize) -> Message {
        Message::assistant(reply.text.clone())
    }

    fn observed(
        &self,
        _: &Turn,
        _: usize,
        observations: &[Observation],
        facts: &Facts,
    ) -> Vec<Message> {
        let text = format!("EXECUTION_RESULT: {}", joined(observations));
        let has_images = observations
            .iter()
            .any(|observation| !observation.images.is_empty());
        if facts.capabilities.late_system_messages && !has_images {
            vec![Message::system(text)]
        } else {
            as_user_messages(&text, observations)
        }
    }

    fn glimpse(&self, growing: &Growing) -> Glimpse {
        Glimpse {
            thought: partial_text(&growing.text, "thought"),
            code: partial_text(&growing.text, "code"),
        }
    }
}

/// What an object asks for, and whether a field had to be put into its form.
fn action_of(map: &Map<String, Value>) -> Result<(Action, Option<Repair>), String> {
    let (code, reshaped) = code_of(map.get("code"))?;
    let answer = map.get("final_answer").filter(|answer| !answer.is_null());
    let (name, guessed) = match map.get("action") {
        Some(Value::String(name)) => (name.trim(), None),
        None | Some(Value::Null) => match (&code, answer) {
            (Some(_), None) => ("execute_code", Some(Repair::Shape)),
            (None, Some(_)) => ("provide_answer", Some(Repair::Shape)),
            _ => return Err(
                "the field `action` is missing: it is execute_code, debug_error or provide_answer"
                    .to_owned(),
            ),
        },
        Some(other) => {
            return Err(format!(
                "the field `action` must be a text, and it is {other}"
            ));
        }
    };
    let action = match name {
        // Code first, whatever answer stands beside it: that one was not computed yet.
        "execute_code" | "debug_error" | "continue_debugging" => {
            let missing = || {
                format!(
                    "the field `code` is required for the action {name}, and it is missing or empty"
                )
            };
            Action::Code(code.ok_or_else(missing)?)
        }
        "provide_answer" => {
            let missing =
                || "the field `final_answer` is required for the action provide_answer".to_owned();
            Action::Answer(answer.cloned().ok_or_else(missing)?)
        }
        other => {
            let other: String = other.chars().take(80).collect();
            return Err(format!(
                "there is no action {other:?}: the actions are execute_code, debug_error and provide_answer"
            ));
        }
    };
    Ok((action, guessed.or(reshaped)))
}

/// The code, where there is some. Some models send a list of lines, or put a fence around it.
fn code_of(value: Option<&Value>) -> Result<(Option<String>, Option<Repair>), String> {
    let text = match value {
        None | Some(Value::Null) => return Ok((None, None)),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(lines)) if lines.iter().all(Value::is_string) => {
            let lines: Vec<&str> = lines.iter().filter_map(Value::as_str).collect();
            return Ok((Some(lines.join("\n")), Some(Repair::Shape)));
        }
        Some(_) => return Err("the field `code` must be a text".to_owned()),
    };
    if text.trim().is_empty() {
        return Ok((None, None));
    }
    match code_blocks(&text).as_slice() {
        [only] if text.trim_start().starts_with("```") => {
            Ok((Some(only.code.clone()), Some(Repair::CodeFence)))
        }
        _ => Ok((Some(text), None)),
    }
}
