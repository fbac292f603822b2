//! The format `json`: one JSON object with the thought and the action.

use super::turn::partial_text;
use super::{
    Action, ActionFormat, Format, FormatContext, MalformedReply, Observation, PartialReply,
    PartialTurn, Turn, as_user_messages, code_instructions, joined,
};
use crate::prompt::PromptPart;
use crate::repair::{Repair, ReplyEnd, code_blocks, read_object, split_thinking};
use cellblock_model::{Message, Reply, Request, ResponseFormat};
use serde_json::{Map, Value, json};

/// The format `json`: one object `{"thought", "action", "code", "final_answer"}`.
#[derive(Clone, Copy, Debug)]
pub struct JsonFormat;

/// The fields of the object.
const FIELDS: [&str; 4] = ["thought", "action", "code", "final_answer"];

impl ActionFormat for JsonFormat {
    fn format(&self) -> Format {
        Format::Json
    }

    fn instructions(&self, context: &FormatContext) -> String {
        code_instructions(PromptPart::Format(Format::Json), context)
    }

    fn prepare_request(&self, request: &mut Request, context: &FormatContext) {
        if !context.capabilities.json_schema {
            return;
        }
        let answer = match &context.answer_schema {
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
            strict: context.answer_schema.is_none(),
        };
    }

    fn parse(&self, reply: &Reply, _: &FormatContext) -> Result<Turn, MalformedReply> {
        let end = ReplyEnd::of(reply);
        let (thinking, text) = split_thinking(&reply.text);
        if text.trim().is_empty() {
            return Err(MalformedReply::nothing(end));
        }
        let fits = |map: &Map<String, Value>| {
            map.keys().all(|key| FIELDS.contains(&key.as_str())) && action_of(map).is_ok()
        };
        let read = match read_object(text, end, &FIELDS, fits) {
            Ok(read) => read,
            Err(_) if end == ReplyEnd::CutOff => return Err(MalformedReply::cut_off()),
            Err(problem) => {
                return Err(MalformedReply(format!(
                    "{problem}. Reply with exactly one JSON object with the fields thought, action, code and final_answer"
                )));
            }
        };
        let (action, reshaped) = action_of(&read.value).map_err(MalformedReply)?;
        let mut repairs = read.repairs;
        repairs.extend(thinking.map(|_| Repair::Thinking));
        repairs.extend(reshaped);
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

    fn assistant_message(&self, reply: &Reply, _: &Turn, _: usize) -> Message {
        Message::assistant(reply.text.clone())
    }

    fn result_messages(
        &self,
        _: &Turn,
        _: usize,
        observations: &[Observation],
        context: &FormatContext,
    ) -> Vec<Message> {
        let text = format!("EXECUTION_RESULT: {}", joined(observations));
        let has_images = observations
            .iter()
            .any(|observation| !observation.images.is_empty());
        if context.capabilities.late_system_messages && !has_images {
            vec![Message::system(text)]
        } else {
            as_user_messages(&text, observations)
        }
    }

    fn preview(&self, partial: &PartialReply) -> PartialTurn {
        PartialTurn {
            thought: partial_text(&partial.text, "thought"),
            code: partial_text(&partial.text, "code"),
        }
    }
}

/// The action of an object, and the repair if a field had to be put into its form.
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
        // An answer beside code does not count: it was written before the code ran.
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

/// The code of an object, if it has some. Some models send a list of lines, or put a fence around the code.
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
