//! The format `tools`: native tool calls.

use super::turn::partial_text;
use super::{
    Action, ActionFormat, CallKind, Format, FormatContext, MalformedReply, Observation,
    PartialReply, PartialTurn, ToolUse, Turn,
};
use crate::prompt::PromptPart;
use crate::repair::{Repair, ReplyEnd, find_tags, read_object, split_thinking};
use cellblock_model::{AssistantMessage, FunctionCall, Image, Message, Reply, Request, ToolCall};
use cellblock_protocol::Locale;
use cellblock_tools::names::CODE_ARGUMENT;
use cellblock_tools::{Arguments, PURPOSE_FIELD, Registry, SchemaForm};
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
        request.tools = context.registry.schemas(form);
    }

    fn parse(&self, reply: &Reply, context: &FormatContext) -> Result<Turn, MalformedReply> {
        let end = ReplyEnd::of(reply);
        let (thinking, text) = split_thinking(&reply.text);
        let mut repairs: Vec<Repair> = thinking.map(|_| Repair::Thinking).into_iter().collect();
        let mut calls = native_calls(reply);
        let mut thought = text.trim().to_owned();
        if calls.is_empty() {
            let (found, rest) = calls_in_text(text, &context.registry);
            if !found.is_empty() {
                repairs.push(Repair::CallInText);
                thought = rest;
            }
            calls = found;
        }
        let is_last_complete = calls.last().is_some_and(|call| is_complete(&call.raw));
        if end == ReplyEnd::CutOff && !is_last_complete {
            return Err(MalformedReply::cut_off());
        }
        if calls.is_empty() {
            return match text.trim() {
                "" => Err(MalformedReply::empty()),
                answer => Ok(Turn::answer_only(answer, repairs)),
            };
        }
        for call in &mut calls {
            let (arguments, more) = read_arguments(&context.registry, &call.name, &call.raw);
            call.arguments = arguments;
            repairs.extend(more);
        }
        if thought.is_empty() {
            thought = thinking.unwrap_or_default().to_owned();
        }
        Ok(Turn {
            thought,
            actions: calls.into_iter().map(Action::Call).collect(),
            repairs,
        })
    }

    fn assistant_message(&self, reply: &Reply, turn: &Turn, step: usize) -> Message {
        let mut message = AssistantMessage {
            content: split_thinking(&reply.text).1.to_owned(),
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
            thought: split_thinking(&partial.text).1.to_owned(),
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

/// The calls that a model wrote as text, because its endpoint did not recognise them, and the text before them.
fn calls_in_text(text: &str, registry: &Registry) -> (Vec<ToolUse>, String) {
    let tags = find_tags(text, &["tool_call"]);
    let calls: Vec<ToolUse> = match tags.first() {
        Some(_) => tags
            .iter()
            .filter_map(|tag| written_call(tag.body, registry))
            .collect(),
        None => written_call(text, registry).into_iter().collect(),
    };
    let before = tags.first().map_or("", |tag| text[..tag.start].trim());
    (calls, before.to_owned())
}

/// A call written as `{"name": …, "arguments": {…}}`, if there is a tool of that name.
fn written_call(text: &str, registry: &Registry) -> Option<ToolUse> {
    let fits = |map: &Map<String, Value>| {
        map.keys().all(|key| {
            matches!(
                key.as_str(),
                "name" | "arguments" | "parameters" | "type" | "id"
            )
        }) && map
            .get("name")
            .and_then(Value::as_str)
            .is_some_and(|name| registry.get(name).is_some())
    };
    // Without tags, a text is a call only if there is nothing else in it: an answer may be JSON too.
    let map = read_object(text, ReplyEnd::Complete, &["name", "arguments"], fits)
        .ok()?
        .value;
    if !fits(&map)
        || !text
            .trim()
            .trim_matches('`')
            .trim_start_matches("json")
            .trim_start()
            .starts_with('{')
    {
        return None;
    }
    let arguments = map.get("arguments").or_else(|| map.get("parameters"));
    let raw = match arguments {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => return None,
    };
    Some(ToolUse {
        id: String::new(),
        name: map.get("name")?.as_str()?.to_owned(),
        arguments: raw.clone().into(),
        raw,
        kind: CallKind::Tool,
    })
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

/// The arguments of a call: as they are, or repaired where the tool then takes them.
fn read_arguments(registry: &Registry, tool: &str, raw: &str) -> (Arguments, Vec<Repair>) {
    let unchanged = || (Arguments::Text(raw.to_owned()), Vec::new());
    if raw.trim().is_empty() || serde_json::from_str::<Value>(raw).is_ok() {
        return unchanged();
    }
    let fits = |map: &serde_json::Map<String, Value>| registry.check(tool, map.clone()).is_ok();
    let definition = registry.get(tool);
    let properties = definition.and_then(|definition| definition.parameters.get("properties"));
    let mut fields = vec![PURPOSE_FIELD];
    if let Some(Value::Object(properties)) = properties {
        fields.extend(properties.keys().map(String::as_str));
    }
    match read_object(raw, ReplyEnd::Complete, &fields, fits) {
        Ok(read) if fits(&read.value) => (Arguments::Object(read.value), read.repairs),
        _ => unchanged(),
    }
}

/// Whether arguments are complete JSON. The last call of a reply that was cut off may lack the end of its arguments.
fn is_complete(raw: &str) -> bool {
    raw.trim().is_empty() || serde_json::from_str::<Value>(raw).is_ok()
}
