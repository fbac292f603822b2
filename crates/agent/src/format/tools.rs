//! The format `tools`: native tool calls.

use super::dialect::{add_purpose, code_in_arguments, read_dialect_or_answer, tool_name};
use super::turn::partial_text;
use super::{
    Action, ActionFormat, CallKind, Format, FormatContext, MalformedReply, Observation,
    PartialReply, PartialTurn, ToolUse, Turn,
};
use crate::prompt::PromptPart;
use crate::repair::{Repair, ReplyEnd, SplitReply, read_object, split_thinking};
use cellblock_model::{AssistantMessage, FunctionCall, Image, Message, Reply, Request, ToolCall};
use cellblock_protocol::Locale;
use cellblock_tools::names::{CODE_ARGUMENT, EXECUTE_PYTHON_CODE, FINAL_ANSWER, TIMEOUT_ARGUMENT};
use cellblock_tools::{PURPOSE_FIELD, Registry, SchemaForm};
use serde_json::{Map, Value};

/// The format `tools`: native tool calls.
#[derive(Clone, Copy, Debug)]
pub struct ToolsFormat;

impl ActionFormat for ToolsFormat {
    fn format(&self) -> Format {
        Format::Tools
    }

    fn instructions(&self, context: &FormatContext) -> String {
        let text = PromptPart::Format(Format::Tools).text(context.locale);
        text.to_owned()
    }

    fn prepare_request(&self, request: &mut Request, context: &FormatContext) {
        let form = if context.capabilities.json_schema {
            SchemaForm::StrictWhereItFits
        } else {
            SchemaForm::Plain
        };
        // Code calls it; a reply in plain words is the answer of a model.
        request.tools = context.registry.without(FINAL_ANSWER).schemas(form);
    }

    fn parse(&self, reply: &Reply, context: &FormatContext) -> Result<Turn, MalformedReply> {
        let end = ReplyEnd::of(reply);
        let SplitReply { thinking, text } = split_thinking(&reply.text);
        let mut repairs: Vec<Repair> = thinking.map(|_| Repair::Thinking).into_iter().collect();
        let mut calls = native_calls(reply);
        if calls.is_empty() {
            let mut turn = read_dialect_or_answer(text, end, Format::Tools, context, repairs)?;
            if turn.answer().is_none() {
                turn.repairs.push(Repair::CallInText);
            }
            return Ok(turn);
        }
        let is_last_complete = calls.last().is_some_and(|call| is_complete(&call.raw));
        if end == ReplyEnd::CutOff && !is_last_complete {
            return Err(MalformedReply::cut_off());
        }
        let mut thought = text.trim().to_owned();
        if thought.is_empty() {
            thought = thinking.unwrap_or_default().to_owned();
        }
        for call in &mut calls {
            repairs.extend(normalize_call(call, &thought, &context.registry));
        }
        Ok(Turn {
            thought,
            actions: calls.into_iter().map(Action::Call).collect(),
            repairs,
            ..Turn::default()
        })
    }

    fn assistant_message(&self, reply: &Reply, turn: &Turn, step: usize) -> Message {
        let mut message = AssistantMessage {
            content: split_thinking(&reply.text).text.to_owned(),
            reasoning: reply.reasoning.clone(),
            ..AssistantMessage::default()
        };
        if turn.repairs.contains(&Repair::CallInText) {
            message.content = turn.thought.clone();
        }
        for (index, action) in turn.actions.iter().enumerate() {
            let Action::Call(call) = action else {
                continue;
            };
            match call.kind {
                CallKind::Function => {
                    message.function_call = Some(FunctionCall {
                        name: call.name.clone(),
                        arguments: call.raw.clone(),
                    });
                }
                CallKind::Tool => message.tool_calls.push(ToolCall {
                    id: id_of(call, step, index),
                    name: call.name.clone(),
                    arguments: call.raw.clone(),
                }),
            }
        }
        Message::Assistant(message)
    }

    fn result_messages(
        &self,
        turn: &Turn,
        step: usize,
        observations: &[Observation],
        context: &FormatContext,
    ) -> Vec<Message> {
        let mut messages = Vec::new();
        let mut images: Vec<Image> = Vec::new();
        for (index, (action, observation)) in turn.actions.iter().zip(observations).enumerate() {
            let Action::Call(call) = action else {
                continue;
            };
            images.extend(observation.images.iter().cloned());
            let text = observation.text.clone();
            messages.push(match call.kind {
                CallKind::Tool => Message::tool(id_of(call, step, index), text),
                CallKind::Function if context.registry.get(&call.name).is_some() => {
                    Message::function(call.name.clone(), text)
                }
                CallKind::Function => {
                    Message::user(wrong_kind_text(&context.registry, context.locale))
                }
            });
        }
        // The result of a call can only be text.
        if !images.is_empty() {
            let text = match context.locale {
                Locale::En => "The pictures that were shown:",
                Locale::Zh => "显示的图片：",
            };
            messages.push(Message::user_with_images(text, images));
        }
        messages
    }

    fn preview(&self, partial: &PartialReply) -> PartialTurn {
        let snippets: Vec<String> = partial
            .calls
            .iter()
            .map(|call| partial_text(&call.arguments, CODE_ARGUMENT))
            .filter(|code| !code.is_empty())
            .collect();
        PartialTurn {
            thought: split_thinking(&partial.text).text.to_owned(),
            code: snippets.join("\n"),
        }
    }
}

/// The native calls of a reply: the call in the old form first, then the others in order.
fn native_calls(reply: &Reply) -> Vec<ToolUse> {
    let old = reply.function_call.iter().map(|call| ToolUse {
        id: String::new(),
        name: call.name.clone(),
        raw: call.arguments.clone(),
        arguments: call.arguments.clone().into(),
        kind: CallKind::Function,
    });
    let new = reply.tool_calls.iter().map(|call| ToolUse {
        id: call.id.clone(),
        name: call.name.clone(),
        raw: call.arguments.clone(),
        arguments: call.arguments.clone().into(),
        kind: CallKind::Tool,
    });
    old.chain(new).collect()
}

/// The id of a call. A call that was written as text gets one.
fn id_of(call: &ToolUse, step: usize, index: usize) -> String {
    if call.id.is_empty() {
        format!("call_{step}_{index}")
    } else {
        call.id.clone()
    }
}

/// The text for a model that called a tool that does not exist in the old form.
fn wrong_kind_text(registry: &Registry, locale: Locale) -> String {
    match locale {
        Locale::En => format!(
            "function_call is not available here; use tool_calls. Tools: {}",
            registry.names().join(", ")
        ),
        Locale::Zh => {
            "没有定义function_call工具调用，无法执行function_call，请使用tool_calls调用工具。"
                .to_owned()
        }
    }
}

/// Puts a call into the form that the tools take: the registered name, the arguments as an object, and a purpose.
///
/// Models add `functions.` to a name, call the interpreter `python`, send `null` or JSON in a text as arguments, and leave the purpose out.
fn normalize_call(call: &mut ToolUse, thought: &str, registry: &Registry) -> Vec<Repair> {
    let mut repairs = Vec::new();
    let name = tool_name(&call.name, registry);
    if name != call.name {
        call.name = name;
        repairs.push(Repair::CallName);
    }
    let (mut arguments, more) = match read_arguments(registry, &call.name, &call.raw) {
        Some((arguments, more)) => (arguments, more),
        // Not readable: the tool says what is wrong.
        None => return repairs,
    };
    repairs.extend(more);
    let is_code = call.name == EXECUTE_PYTHON_CODE && !arguments.contains_key(CODE_ARGUMENT);
    if is_code && let Some(code) = code_in_arguments(&Value::Object(without_purpose(&arguments))) {
        let kept = arguments
            .into_iter()
            .filter(|(name, _)| name == PURPOSE_FIELD || name == TIMEOUT_ARGUMENT);
        arguments = kept.collect();
        arguments.insert(CODE_ARGUMENT.to_owned(), code.into());
        repairs.push(Repair::Shape);
    }
    call.arguments = arguments.into();
    add_purpose(call, thought);
    repairs
}

fn without_purpose(arguments: &Map<String, Value>) -> Map<String, Value> {
    let mut arguments = arguments.clone();
    arguments.shift_remove(PURPOSE_FIELD);
    arguments.shift_remove(TIMEOUT_ARGUMENT);
    arguments
}

/// The arguments of a call as an object, repaired where the tool then takes them. `None` where they are no object.
fn read_arguments(
    registry: &Registry,
    tool: &str,
    raw: &str,
) -> Option<(Map<String, Value>, Vec<Repair>)> {
    let shaped = |map: Map<String, Value>| Some((map, vec![Repair::Shape]));
    match serde_json::from_str::<Value>(raw) {
        Ok(Value::Object(map)) => return Some((map, Vec::new())),
        Ok(Value::Null) => return shaped(Map::new()),
        // JSON in a text, or code in a text.
        Ok(Value::String(text)) => {
            return match serde_json::from_str::<Value>(&text) {
                Ok(Value::Object(map)) => shaped(map),
                _ => code_argument(tool, &text).and_then(shaped),
            };
        }
        Ok(_) => return None,
        Err(_) if raw.trim().is_empty() => return Some((Map::new(), Vec::new())),
        Err(_) => {}
    }
    let fits = |map: &Map<String, Value>| registry.check(tool, map.clone()).is_ok();
    let definition = registry.get(tool);
    let properties = definition.and_then(|definition| definition.parameters.get("properties"));
    let mut fields = vec![PURPOSE_FIELD];
    if let Some(Value::Object(properties)) = properties {
        fields.extend(properties.keys().map(String::as_str));
    }
    match read_object(raw, ReplyEnd::Complete, &fields, fits) {
        Ok(read) if fits(&read.value) => Some((read.value, read.repairs)),
        _ => None,
    }
}

/// A text as the code of the interpreter.
fn code_argument(tool: &str, text: &str) -> Option<Map<String, Value>> {
    if tool != EXECUTE_PYTHON_CODE {
        return None;
    }
    let code = code_in_arguments(&Value::from(text))?;
    Some(Map::from_iter([(CODE_ARGUMENT.to_owned(), code.into())]))
}

/// Whether arguments are complete JSON. The last call of a reply that was cut off may lack the end of its arguments.
fn is_complete(raw: &str) -> bool {
    raw.trim().is_empty() || serde_json::from_str::<Value>(raw).is_ok()
}
