//! The format `next_step`: one JSON object with the state, a plan and the next call, guided by a schema of all tools.

use super::dialect::{add_purpose, read_dialect, tool_name};
use super::signature::for_step;
use super::turn::{is_blank, partial_text};
use super::{
    Action, ActionFormat, CallKind, Format, FormatContext, MalformedReply, Observation,
    PartialReply, PartialTurn, ToolUse, ToolsFormat, Turn,
};
use crate::prompt::PromptPart;
use crate::repair::{Repair, ReplyEnd, SplitReply, read_object, split_thinking};
use cellblock_model::{AssistantMessage, Message, Reply, Request, ResponseFormat, ToolCall};
use cellblock_tools::names::{CODE_ARGUMENT, FINAL_ANSWER};
use cellblock_tools::{PURPOSE_FIELD, SchemaForm, function_schema};
use serde_json::{Map, Value, json};

/// The format `next_step`: one object `{"current_state", "plan_remaining_steps_brief", "task_completed", "function": {"tool", …}}`.
#[derive(Clone, Copy, Debug)]
pub struct NextStepFormat;

/// The name of the call that ends a run.
const COMPLETION: &str = "report_task_completion";

/// The fields of the object.
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

    fn instructions(&self, context: &FormatContext) -> String {
        // Signatures say what the schema says, in a third of its length. An endpoint that takes schemas gets the schema too.
        let tools: Vec<String> = context
            .registry
            .definitions()
            .filter(|definition| definition.name != FINAL_ANSWER)
            .map(for_step)
            .collect();
        let tools = tools.join("\n");
        let values = [("tools", tools.as_str())];
        PromptPart::Format(Format::NextStep).fill(context.locale, &values.into())
    }

    fn prepare_request(&self, request: &mut Request, context: &FormatContext) {
        if context.capabilities.json_schema {
            let StepSchema { schema, is_strict } = step_schema(context);
            request.response_format = ResponseFormat::JsonSchema {
                name: "next_step".to_owned(),
                schema,
                strict: is_strict,
            };
        }
    }

    fn parse(&self, reply: &Reply, context: &FormatContext) -> Result<Turn, MalformedReply> {
        let end = ReplyEnd::of(reply);
        let SplitReply { thinking, text } = split_thinking(&reply.text);
        if text.trim().is_empty() {
            return Err(MalformedReply::nothing(end));
        }
        let fits = |map: &Map<String, Value>| {
            map.keys().all(|key| FIELDS.contains(&key.as_str()))
                && next_call(map).is_ok_and(|(name, arguments)| {
                    name == COMPLETION || context.registry.check(&name, arguments).is_ok()
                })
        };
        let read = match read_object(text, end, &FIELDS, fits) {
            Ok(read) if read.value.contains_key("function") => read,
            other => {
                let before: Vec<Repair> = thinking.map(|_| Repair::Thinking).into_iter().collect();
                let dialect_turn = read_dialect(text, end, Format::NextStep, context, &before)?;
                if let Some(mut turn) = dialect_turn.filter(|turn| turn.answer().is_none()) {
                    // A step has one call.
                    turn.actions.truncate(1);
                    return Ok(turn);
                }
                other.map_err(|problem| {
                    MalformedReply::no_object(
                        end,
                        &problem,
                        "exactly one JSON object that fits the schema",
                    )
                })?
            }
        };
        let thought = read
            .value
            .get("current_state")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let (name, mut arguments) = next_call(&read.value).map_err(MalformedReply)?;
        let mut repairs = read.repairs;
        repairs.extend(thinking.map(|_| Repair::Thinking));
        let action = if name == COMPLETION {
            let answer = arguments
                .shift_remove("answer")
                .filter(|answer| !is_blank(answer));
            let missing = || {
                MalformedReply(format!(
                    "the field `answer` of {COMPLETION} is missing or empty"
                ))
            };
            Action::Answer(answer.ok_or_else(missing)?)
        } else {
            // The state says why the tool is called.
            if !thought.is_empty() {
                arguments
                    .entry(PURPOSE_FIELD)
                    .or_insert_with(|| json!(thought));
            }
            let mut call = ToolUse {
                id: String::new(),
                name: tool_name(&name, &context.registry),
                raw: Value::Object(arguments.clone()).to_string(),
                arguments: arguments.into(),
                kind: CallKind::Tool,
            };
            add_purpose(&mut call, &thought);
            Action::Call(call)
        };
        Ok(Turn {
            thought,
            actions: vec![action],
            repairs,
            ..Turn::default()
        })
    }

    fn assistant_message(&self, reply: &Reply, turn: &Turn, step: usize) -> Message {
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

    fn result_messages(
        &self,
        turn: &Turn,
        step: usize,
        observations: &[Observation],
        context: &FormatContext,
    ) -> Vec<Message> {
        let mut turn = turn.clone();
        for action in &mut turn.actions {
            if let Action::Call(call) = action {
                call.id = format!("step_{step}");
            }
        }
        ToolsFormat.result_messages(&turn, step, observations, context)
    }

    fn preview(&self, partial: &PartialReply) -> PartialTurn {
        PartialTurn {
            thought: partial_text(&partial.text, "current_state"),
            code: partial_text(&partial.text, CODE_ARGUMENT),
        }
    }
}

/// The name of the tool of the next call, and its arguments.
fn next_call(map: &Map<String, Value>) -> Result<(String, Map<String, Value>), String> {
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

/// The JSON schema of a step: a union of all tools and of the end of the task.
struct StepSchema {
    schema: Value,
    /// Whether the schema fits the strict subset, so that an endpoint can enforce all of it.
    is_strict: bool,
}

fn step_schema(context: &FormatContext) -> StepSchema {
    let mut shared = Map::new();
    let mut choices = Vec::new();
    let answer = context.answer_schema.clone();
    let mut is_strict = answer.is_none();
    let definitions = context.registry.definitions();
    for definition in definitions.filter(|definition| definition.name != FINAL_ANSWER) {
        let schema = function_schema(definition, SchemaForm::StrictWhereItFits);
        let function = &schema["function"];
        is_strict &= function["strict"] == json!(true);
        let parameters = function["parameters"]
            .as_object()
            .cloned()
            .unwrap_or_default();
        choices.push(call_schema(
            &definition.name,
            &definition.description,
            parameters,
            &mut shared,
        ));
    }
    let answer = answer.unwrap_or_else(|| json!({"type": "string"}));
    let completion = json!({"type": "object", "properties": {"answer": answer}, "required": ["answer"], "additionalProperties": false});
    let completion = completion.as_object().cloned().unwrap_or_default();
    choices.push(call_schema(
        COMPLETION,
        "Ends the task with its answer.",
        completion,
        &mut shared,
    ));
    let mut schema = json!({
        "type": "object",
        "properties": {
            "current_state": {"type": "string"},
            "plan_remaining_steps_brief": {"type": "array", "items": {"type": "string"}},
            "task_completed": {"type": "boolean"},
            "function": {"anyOf": choices},
        },
        "required": ["current_state", "plan_remaining_steps_brief", "task_completed", "function"],
        "additionalProperties": false,
    });
    if !shared.is_empty() {
        schema["$defs"] = Value::Object(shared);
    }
    StepSchema { schema, is_strict }
}

/// The schema of a call of one tool, with its arguments inline. Its `$defs` move to the top, under unique names.
fn call_schema(
    name: &str,
    description: &str,
    mut parameters: Map<String, Value>,
    shared: &mut Map<String, Value>,
) -> Value {
    if let Some(Value::Object(definitions)) = parameters.shift_remove("$defs") {
        for (key, mut definition) in definitions {
            rename_references(&mut definition, name);
            shared.insert(format!("{name}_{key}"), definition);
        }
    }
    let mut properties = Map::new();
    properties.insert("tool".to_owned(), json!({"type": "string", "enum": [name]}));
    if let Some(Value::Object(own)) = parameters.get("properties") {
        properties.extend(own.clone());
    }
    let mut required = vec![json!("tool")];
    if let Some(Value::Array(own)) = parameters.get("required") {
        required.extend(own.clone());
    }
    let mut schema = json!({
        "type": "object",
        "description": description.lines().next().unwrap_or_default(),
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    rename_references(&mut schema, name);
    schema
}

fn rename_references(value: &mut Value, name: &str) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(target)) = map.get_mut("$ref")
                && let Some(key) = target.strip_prefix("#/$defs/")
            {
                *target = format!("#/$defs/{name}_{key}");
            }
            map.values_mut()
                .for_each(|inner| rename_references(inner, name));
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| rename_references(item, name)),
        _ => {}
    }
}
