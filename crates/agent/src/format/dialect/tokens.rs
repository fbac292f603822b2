//! Dialects with special tokens, which an endpoint should have read and did not.

use super::{DialectAction, DialectReply};
use crate::format::FormatContext;
use serde_json::Value;

/// The format of gpt-oss: `<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{…}<|call|>`. Code of the built-in
/// interpreter is sent to `python`, and the answer is in the channel `final`.
pub(super) fn harmony(text: &str, _: &FormatContext) -> Option<DialectReply> {
    const MESSAGE: &str = "<|message|>";
    let start = text.find("<|channel|>")?;
    let mut reply = DialectReply {
        start,
        ..DialectReply::default()
    };
    for part in text[start..].split("<|channel|>").skip(1) {
        let Some((head, rest)) = part.split_once(MESSAGE) else {
            reply.is_open = true;
            continue;
        };
        let ends = ["<|call|>", "<|end|>", "<|return|>", "<|start|>"];
        let ends: Vec<usize> = ends.iter().filter_map(|end| rest.find(end)).collect();
        let body = &rest[..ends.iter().copied().min().unwrap_or(rest.len())];
        let recipient = head.split("to=").nth(1).map(|recipient| {
            let end = recipient.find(|c: char| c.is_whitespace() || c == '<');
            &recipient[..end.unwrap_or(recipient.len())]
        });
        match recipient {
            Some(name) if name.starts_with("python") => {
                reply
                    .actions
                    .push(DialectAction::Code(body.trim().to_owned()));
            }
            Some(name) => reply.actions.push(call(name, body)),
            // What follows a call was invented: the call has no result yet.
            None if head.trim() == "final" && reply.actions.is_empty() => {
                reply.answer = Some(body.trim().to_owned());
            }
            None => {}
        }
    }
    Some(reply)
}

/// The tokens of DeepSeek: `<｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME`, a JSON fence, `<｜tool▁call▁end｜>` (V3, R1), or
/// `<｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{…}<｜tool▁call▁end｜>` (V3.1).
pub(super) fn deepseek(text: &str, _: &FormatContext) -> Option<DialectReply> {
    const BEGIN: &str = "<\u{ff5c}tool\u{2581}call\u{2581}begin\u{ff5c}>";
    const SEPARATOR: &str = "<\u{ff5c}tool\u{2581}sep\u{ff5c}>";
    const END: &str = "<\u{ff5c}tool\u{2581}call\u{2581}end\u{ff5c}>";
    const ALL_BEGIN: &str = "<\u{ff5c}tool\u{2581}calls\u{2581}begin\u{ff5c}>";
    let first = text.find(BEGIN)?;
    let mut reply = DialectReply {
        start: text.find(ALL_BEGIN).unwrap_or(first).min(first),
        ..DialectReply::default()
    };
    for part in text[first..].split(BEGIN).skip(1) {
        let (body, is_closed) = match part.split_once(END) {
            Some((body, _)) => (body, true),
            None => (part, false),
        };
        reply.is_open |= !is_closed;
        let Some((kind, rest)) = body.split_once(SEPARATOR) else {
            continue;
        };
        let (name, arguments) = match kind.trim() {
            "function" => rest.split_once('\n').unwrap_or((rest, "")),
            name => (name, rest),
        };
        reply.actions.push(call(name, arguments));
    }
    Some(reply)
}

/// The tokens of Kimi K2: `<|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>{…}<|tool_call_end|>`.
pub(super) fn kimi(text: &str, _: &FormatContext) -> Option<DialectReply> {
    const BEGIN: &str = "<|tool_call_begin|>";
    let first = text.find(BEGIN)?;
    let mut reply = DialectReply {
        start: text
            .find("<|tool_calls_section_begin|>")
            .unwrap_or(first)
            .min(first),
        ..DialectReply::default()
    };
    for part in text[first..].split(BEGIN).skip(1) {
        let Some((name, rest)) = part.split_once("<|tool_call_argument_begin|>") else {
            continue;
        };
        let (arguments, is_closed) = match rest.split_once("<|tool_call_end|>") {
            Some((arguments, _)) => (arguments, true),
            None => (rest, false),
        };
        reply.is_open |= !is_closed;
        let name = name.trim();
        let name = name.rsplit_once(':').map_or(name, |(name, _)| name);
        reply.actions.push(call(name, arguments));
    }
    Some(reply)
}

/// The tokens of Mistral: `[TOOL_CALLS][{"name": …, "arguments": {…}}]`, or `[TOOL_CALLS]NAME[ARGS]{…}` since version 11 of its tokenizer.
pub(super) fn mistral(text: &str, _: &FormatContext) -> Option<DialectReply> {
    const BEGIN: &str = "[TOOL_CALLS]";
    let start = text.find(BEGIN)?;
    let mut reply = DialectReply {
        start,
        ..DialectReply::default()
    };
    for part in text[start..].split(BEGIN).skip(1) {
        if let Some((name, arguments)) = part.split_once("[ARGS]") {
            let name = name.split("[CALL_ID]").next().unwrap_or(name);
            match first_json(arguments) {
                Some(arguments) => reply.actions.push(DialectAction::Call {
                    name: name.trim().to_owned(),
                    arguments,
                }),
                None => reply.is_open = true,
            }
            continue;
        }
        let calls = match first_json(part) {
            Some(Value::Array(calls)) => calls,
            Some(call @ Value::Object(_)) => vec![call],
            _ => {
                reply.is_open = true;
                continue;
            }
        };
        reply.actions.extend(calls.iter().filter_map(json_call));
    }
    Some(reply)
}

/// The tag of Llama 3: `<|python_tag|>` before code, or before a call as JSON or as `NAME.call(…)`.
pub(super) fn llama(text: &str, context: &FormatContext) -> Option<DialectReply> {
    const TAG: &str = "<|python_tag|>";
    let start = text.find(TAG)?;
    let rest = &text[start + TAG.len()..];
    let ends = ["<|eom_id|>", "<|eot_id|>", TAG];
    let ends = ends.iter().filter_map(|end| rest.find(end)).min();
    let body = rest[..ends.unwrap_or(rest.len())].trim();
    let action = match serde_json::from_str::<Value>(body) {
        Ok(value @ Value::Object(_)) => json_call(&value),
        _ => built_in_call(body, context).or_else(|| {
            let code = super::fences::unfenced_code(body);
            (!code.trim().is_empty()).then_some(DialectAction::Code(code))
        }),
    };
    Some(DialectReply {
        actions: action.into_iter().collect(),
        start,
        ..DialectReply::default()
    })
}

/// A call such as `brave_search.call(query="…")`, as code that calls the tool, if there is a tool of that name.
fn built_in_call(body: &str, context: &FormatContext) -> Option<DialectAction> {
    let (name, rest) = body.split_once(".call(")?;
    context.registry.get(name)?;
    let name = name.replace('-', "_");
    rest.ends_with(')')
        .then(|| DialectAction::Code(format!("print({name}({rest})")))
}

/// A call with its arguments as text: JSON, maybe in a fence, or anything else.
fn call(name: &str, arguments: &str) -> DialectAction {
    let arguments = match first_json(arguments) {
        Some(value) => value,
        None => Value::String(super::fences::unfenced_code(arguments)),
    };
    DialectAction::Call {
        name: name.trim().to_owned(),
        arguments,
    }
}

/// The JSON object or list at the beginning of a text. What follows it is left aside.
pub(super) fn first_json(text: &str) -> Option<Value> {
    let text = text.trim_start();
    let text = text.strip_prefix("```json").unwrap_or(text).trim_start();
    let text = text.strip_prefix("```").unwrap_or(text).trim_start();
    if !text.starts_with(['{', '[']) {
        return None;
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    match values.next() {
        Some(Ok(value)) => Some(value),
        _ => crate::repair::read_value(text).map(|read| read.value),
    }
}

/// A call as an object: `{"name": …, "arguments" or "parameters": …}`, or with both below `function`.
pub(super) fn json_call(value: &Value) -> Option<DialectAction> {
    let map = value.as_object()?;
    if let Some(inner @ Value::Object(_)) = map.get("function") {
        return json_call(inner);
    }
    let name = ["name", "tool", "tool_name", "function"]
        .iter()
        .find_map(|key| map.get(*key)?.as_str())?;
    let arguments = ["arguments", "parameters", "args", "input"]
        .iter()
        .find_map(|key| map.get(*key));
    let arguments = match arguments {
        Some(Value::String(text)) => {
            serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()))
        }
        Some(Value::Null) => Value::Object(serde_json::Map::new()),
        Some(other) => other.clone(),
        None => return None,
    };
    Some(DialectAction::Call {
        name: name.to_owned(),
        arguments,
    })
}
