//! Native tool calls.

use super::glimpse::partial_text;
use super::{
    Action, ActionFormat, CallKind, Facts, Format, Glimpse, Growing, Malformed, Observation,
    ToolUse, Turn, arguments,
};
use crate::prompt::{Part, fill};
use crate::repair::{Repair, split_thinking, tagged};
use cellblock_model::{
    AssistantMessage, FinishReason, FunctionCall, Image, Message, Reply, Request, ToolCall,
};
use cellblock_protocol::Locale;
use cellblock_tools::{Registry, SchemaForm};
use serde_json::{Map, Value};

/// Native tool calls.
#[derive(Clone, Copy, Debug)]
pub struct ToolsFormat;

impl ActionFormat for ToolsFormat {
    fn format(&self) -> Format {
        Format::Tools
    }

    fn instructions(&self, facts: &Facts) -> String {
        fill(Part::Format(Format::Tools), facts.locale, &[])
    }

    fn shape(&self, request: &mut Request, facts: &Facts) {
        let form = if facts.capabilities.json_schema {
            SchemaForm::StrictWhereItFits
        } else {
            SchemaForm::Plain
        };
        request.tools = facts.registry.schemas(form);
    }

    fn read(&self, reply: &Reply, facts: &Facts) -> Result<Turn, Malformed> {
        let cut_off = reply.finish == FinishReason::Length;
        let (inner, text) = split_thinking(&reply.text);
        let mut repairs: Vec<Repair> = inner.map(|_| Repair::Thinking).into_iter().collect();
        let mut calls = native_calls(reply);
        let mut thought = text.trim().to_owned();
        if calls.is_empty() {
            let (found, rest) = calls_in_text(text, &facts.registry);
            if !found.is_empty() {
                repairs.push(Repair::CallInText);
                thought = rest;
            }
            calls = found;
        }
        if cut_off
            && calls
                .last()
                .is_none_or(|call| !arguments::is_whole(&call.raw))
        {
            return Err(Malformed::cut_off());
        }
        if calls.is_empty() {
            return match text.trim() {
                "" => Err(Malformed::empty()),
                answer => Ok(Turn::answered(answer, repairs)),
            };
        }
        for call in &mut calls {
            let (used, mended) = arguments::read(&facts.registry, &call.name, &call.raw);
            call.arguments = used;
            repairs.extend(mended);
        }
        if thought.is_empty() {
            thought = inner.unwrap_or_default().to_owned();
        }
        Ok(Turn {
            thought,
            actions: calls.into_iter().map(Action::Call).collect(),
            repairs,
        })
    }

    fn said(&self, reply: &Reply, turn: &Turn, step: usize) -> Message {
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

    fn observed(
        &self,
        turn: &Turn,
        step: usize,
        observations: &[Observation],
        facts: &Facts,
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
                CallKind::Function if facts.registry.get(&call.name).is_some() => {
                    Message::function(call.name.clone(), text)
                }
                CallKind::Function => Message::user(wrong_kind(&facts.registry, facts.locale)),
            });
        }
        // Answers to calls are text alone.
        if !images.is_empty() {
            let words = match facts.locale {
                Locale::En => "The pictures that were shown:",
                Locale::Zh => "显示的图片：",
            };
            messages.push(Message::user_with_images(words, images));
        }
        messages
    }

    fn glimpse(&self, growing: &Growing) -> Glimpse {
        let snippets: Vec<String> = growing
            .calls
            .iter()
            .map(|(_, arguments)| partial_text(arguments, "python_code_snippet"))
            .filter(|code| !code.is_empty())
            .collect();
        Glimpse {
            thought: split_thinking(&growing.text).1.to_owned(),
            code: snippets.join("\n"),
        }
    }
}

/// The call in the old form first, then the others in order.
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

/// Calls that a model wrote as text, because its endpoint did not see them as calls, and the text before them.
fn calls_in_text(text: &str, registry: &Registry) -> (Vec<ToolUse>, String) {
    let tags = tagged(text, &["tool_call"]);
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

/// `{"name": …, "arguments": {…}}`, where there is such a tool.
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
    // Without tags around it, only what is nothing but a call is one: an answer may well be JSON.
    let map = crate::repair::read_object(text, false, &["name", "arguments"], fits)
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

/// Calls that were written as text have no id of their own.
fn id_of(call: &ToolUse, step: usize, index: usize) -> String {
    if call.id.is_empty() {
        format!("call_{step}_{index}")
    } else {
        call.id.clone()
    }
}

fn wrong_kind(registry: &Registry, locale: Locale) -> String {
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
