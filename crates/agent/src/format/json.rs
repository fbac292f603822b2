//! The format `json`: one JSON object with the thought and the action.

use super::dialect::read_dialect;
use super::turn::{is_blank, partial_text};
use super::{
    Action, ActionFormat, Format, FormatContext, MalformedReply, Observation, PartialReply,
    PartialTurn, Turn, as_user_messages, code_instructions, invented_result_stops, joined,
};
use crate::prompt::PromptPart;
use crate::repair::{Repair, ReplyEnd, SplitReply, code_blocks, read_object, split_thinking};
use cellblock_model::{Message, Reply, Request, ResponseFormat};
use serde_json::{Map, Value, json};

/// The format `json`: one object `{"thought", "action", "code", "final_answer"}`.
#[derive(Clone, Copy, Debug)]
pub struct JsonFormat;

/// The fields of the object.
const FIELDS: [&str; 4] = ["thought", "action", "code", "final_answer"];

/// For the model: its reply answered and had code.
const ANSWER_BESIDE_CODE: &str = "Note: your reply had code and an answer. The code ran, and the answer does not count: it was written before. To answer, set \"code\" to null.";

impl ActionFormat for JsonFormat {
    fn format(&self) -> Format {
        Format::Json
    }

    fn instructions(&self, context: &FormatContext) -> String {
        code_instructions(PromptPart::Format(Format::Json), context)
    }

    fn prepare_request(&self, request: &mut Request, context: &FormatContext) {
        request.stop = invented_result_stops(context.locale);
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

    fn parse(&self, reply: &Reply, context: &FormatContext) -> Result<Turn, MalformedReply> {
        let end = ReplyEnd::of(reply);
        let SplitReply { thinking, text } = split_thinking(&reply.text);
        if text.trim().is_empty() {
            return Err(MalformedReply::nothing(end));
        }
        let fits = |map: &Map<String, Value>| {
            map.keys().all(|key| FIELDS.contains(&key.as_str())) && action_of(map).is_ok()
        };
        let read = match read_object(text, end, &FIELDS, fits) {
            Ok(read) if is_action(&read.value) => read,
            other => {
                let before: Vec<Repair> = thinking.map(|_| Repair::Thinking).into_iter().collect();
                if let Some(turn) = read_dialect(text, end, Format::Json, context, &before)? {
                    return Ok(turn);
                }
                other.map_err(|problem| {
                    MalformedReply::no_object(
                        end,
                        &problem,
                        "exactly one JSON object with the fields thought, action, code and final_answer",
                    )
                })?
            }
        };
        let ActionOfObject {
            action,
            early_answer,
            note,
            reshaped,
        } = action_of(&read.value).map_err(MalformedReply)?;
        let mut repairs = read.repairs;
        repairs.extend(thinking.map(|_| Repair::Thinking));
        repairs.extend(reshaped);
        let thought = read
            .value
            .get("thought")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let mut turn = Turn {
            thought: thought.to_owned(),
            actions: vec![action],
            repairs,
            early_answer,
            notes: note.into_iter().map(str::to_owned).collect(),
            ..Turn::default()
        };
        add_following_objects(&mut turn, text);
        Ok(turn)
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

/// Whether an object has a field that makes it an action of this format.
fn is_action(map: &Map<String, Value>) -> bool {
    ["action", "code", "final_answer"]
        .iter()
        .any(|field| map.contains_key(*field))
}

/// Adds the actions of further objects after the first: code that follows code directly runs too. Everything else was written before the
/// code ran, so it is cut off, and the model is told.
fn add_following_objects(turn: &mut Turn, text: &str) {
    let objects = objects_in(text);
    let [first, rest @ ..] = objects.as_slice() else {
        return;
    };
    if !matches!(turn.actions.as_slice(), [Action::Code(_)]) {
        return;
    }
    let mut end = first.end;
    for next in rest {
        let follows_directly = text[end..next.start].trim().is_empty();
        let Ok(next_action) = action_of(&next.value) else {
            break;
        };
        if !follows_directly || !matches!(next_action.action, Action::Code(_)) {
            break;
        }
        turn.actions.push(next_action.action);
        end = next.end;
    }
    let rest = text[end..].trim().trim_matches('`').trim();
    if !rest.is_empty() {
        turn.said = Some(text[..end].trim().to_owned());
        if !turn.repairs.contains(&Repair::TextAround) {
            turn.repairs.push(Repair::InventedOutput);
        }
    }
    if rest.contains('{') {
        turn.notes.push(
            "Note: your reply had more than one object. Only the code before the first result was used; reply with one object at a time."
                .to_owned(),
        );
    }
}

/// An object in a text, with the bytes at which it begins and ends.
struct ObjectInText {
    value: Map<String, Value>,
    start: usize,
    end: usize,
}

/// The valid JSON objects of a text, in order. Empty where the first `{` does not begin one.
fn objects_in(text: &str) -> Vec<ObjectInText> {
    let mut objects = Vec::new();
    let mut at = 0;
    while let Some(start) = text[at..].find('{').map(|offset| at + offset) {
        let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
        let Some(Ok(Value::Object(value))) = values.next() else {
            break;
        };
        let end = start + values.byte_offset();
        objects.push(ObjectInText { value, start, end });
        at = end;
    }
    objects
}

/// The action of an object.
struct ActionOfObject {
    action: Action,
    /// An answer beside code. It does not count: it was written before the code ran.
    early_answer: Option<Value>,
    /// What the model must know of how the object was read.
    note: Option<&'static str>,
    /// The repair, if a field had to be put into its form.
    reshaped: Option<Repair>,
}

/// The action of an object. The error says what is wrong with the object.
fn action_of(map: &Map<String, Value>) -> Result<ActionOfObject, String> {
    let (code, reshaped) = code_of(map.get("code"))?;
    let answer = map.get("final_answer").filter(|answer| !is_blank(answer));
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
    let early_answer = answer.filter(|_| code.is_some()).cloned();
    let mut note = None;
    let action = match (name, code) {
        ("execute_code" | "debug_error" | "continue_debugging", Some(code)) => Action::Code(code),
        ("execute_code" | "debug_error" | "continue_debugging", None) => {
            return Err(format!(
                "the field `code` is required for the action {name}, and it is missing or empty"
            ));
        }
        // The answer was written before this code ran.
        ("provide_answer", Some(code)) => {
            note = Some(ANSWER_BESIDE_CODE);
            Action::Code(code)
        }
        ("provide_answer", None) => {
            let missing = || {
                "the field `final_answer` is required for the action provide_answer, and it is missing or empty"
                    .to_owned()
            };
            Action::Answer(answer.cloned().ok_or_else(missing)?)
        }
        (other, _) => {
            let other: String = other.chars().take(80).collect();
            return Err(format!(
                "there is no action {other:?}: the actions are execute_code, debug_error and provide_answer"
            ));
        }
    };
    Ok(ActionOfObject {
        action,
        early_answer,
        note,
        reshaped: guessed.or(reshaped),
    })
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
