//! Dialects with tags, and calls as plain JSON or as a list of Python calls.

use super::tokens::{first_json, json_call};
use super::{DialectAction, DialectReply};
use crate::format::FormatContext;
use crate::repair::{code_blocks, find_tags};
use cellblock_tools::names::EXECUTE_PYTHON_CODE;
use serde_json::{Map, Value};

/// Calls with one tag for each parameter: `<function=NAME><parameter=KEY>value</parameter></function>` (Qwen3-Coder),
/// `<function=NAME>{…}</function>` (Llama 3.1), and `<invoke name="NAME"><parameter name="KEY">value</parameter></invoke>` (Claude).
pub(super) fn function_tags(text: &str, context: &FormatContext) -> Option<DialectReply> {
    let forms = [
        ("<function=", "</function>", "<parameter="),
        ("<invoke name=", "</invoke>", "<parameter name="),
        (
            "<\u{ff5c}DSML\u{ff5c}invoke name=",
            "</\u{ff5c}DSML\u{ff5c}invoke>",
            "<\u{ff5c}DSML\u{ff5c}parameter name=",
        ),
    ];
    let (open, close, parameter) = forms.into_iter().find(|(open, ..)| text.contains(open))?;
    let first = text.find(open)?;
    let wrappers = [
        "<tool_call>",
        "<function_calls>",
        "<minimax:tool_call>",
        "<seed:tool_call>",
        "<\u{ff5c}DSML\u{ff5c}function_calls>",
    ];
    let wrapper = wrappers.iter().filter_map(|tag| text.find(tag)).min();
    let mut reply = DialectReply {
        start: wrapper.unwrap_or(first).min(first),
        ..DialectReply::default()
    };
    for part in text[first..].split(open).skip(1) {
        let (body, is_closed) = match part.split_once(close) {
            Some((body, _)) => (body, true),
            None => (part, false),
        };
        reply.is_open |= !is_closed;
        let Some((name, body)) = body.split_once('>') else {
            continue;
        };
        let name = name.trim().trim_matches('"');
        let arguments = match first_json(body) {
            Some(arguments) => arguments,
            None => Value::Object(tag_parameters(body, parameter, name, context)),
        };
        reply.actions.push(DialectAction::Call {
            name: name.to_owned(),
            arguments,
        });
    }
    Some(reply)
}

/// The parameters of a call whose values have no quotes. The schema of the tool says which of them are texts.
fn tag_parameters(
    body: &str,
    open: &str,
    tool: &str,
    context: &FormatContext,
) -> Map<String, Value> {
    let mut arguments = Map::new();
    for part in body.split(open).skip(1) {
        let Some((key, rest)) = part.split_once('>') else {
            continue;
        };
        // DeepSeek adds `string="true"` after the name.
        let key = key.trim().trim_start_matches('"');
        let key = key.split('"').next().unwrap_or(key);
        let value = rest.split("</").next().filter(|_| open.contains("DSML"));
        let value = value.unwrap_or_else(|| rest.split("</parameter>").next().unwrap_or(rest));
        let value = value.strip_prefix('\n').unwrap_or(value);
        let value = value.strip_suffix('\n').unwrap_or(value);
        let is_text = is_text_parameter(context, tool, key);
        let value = match serde_json::from_str::<Value>(value.trim()) {
            Ok(parsed) if !is_text => parsed,
            _ => Value::String(value.to_owned()),
        };
        arguments.insert(key.to_owned(), value);
    }
    arguments
}

fn is_text_parameter(context: &FormatContext, tool: &str, key: &str) -> bool {
    let name = super::tool_name(tool, &context.registry);
    if name == EXECUTE_PYTHON_CODE {
        return true;
    }
    let definition = context.registry.get(&name);
    let properties = definition.and_then(|definition| definition.parameters.get("properties"));
    properties.and_then(|properties| properties[key]["type"].as_str()) == Some("string")
}

/// Calls as JSON between tags: `<tool_call>{"name": …, "arguments": {…}}</tool_call>` (Qwen, Hermes), or the name and then pairs of
/// `<arg_key>` and `<arg_value>` (GLM).
pub(super) fn tool_call_tags(text: &str, context: &FormatContext) -> Option<DialectReply> {
    let tags = find_tags(text, &["tool_call"]);
    let mut reply = DialectReply {
        start: tags.first()?.start,
        ..DialectReply::default()
    };
    for tag in tags {
        reply.is_open |= !tag.is_closed;
        let call = match first_json(tag.body) {
            Some(value) => json_call(&value),
            None => pairs_call(tag.body, context),
        };
        match call {
            Some(call) => reply.actions.push(call),
            // One call that cannot be read makes the order of all uncertain.
            None => {
                reply.actions.clear();
                return Some(reply);
            }
        }
    }
    Some(reply)
}

fn pairs_call(body: &str, context: &FormatContext) -> Option<DialectAction> {
    let name = body.split("<arg_key>").next()?.trim();
    if name.is_empty() || name.contains(char::is_whitespace) || !body.contains("<arg_key>") {
        return None;
    }
    let tags = find_tags(body, &["arg_key", "arg_value"]);
    let mut arguments = Map::new();
    for pair in tags.chunks(2) {
        let [key, value] = pair else {
            return None;
        };
        let key = key.body.trim();
        let value = match serde_json::from_str::<Value>(value.body.trim()) {
            Ok(parsed) if !is_text_parameter(context, name, key) => parsed,
            _ => Value::String(value.body.to_owned()),
        };
        arguments.insert(key.to_owned(), value);
    }
    Some(DialectAction::Call {
        name: name.to_owned(),
        arguments: Value::Object(arguments),
    })
}

/// Tags around Python code: of the format `xml`, of CodeAct, of Gemini, and those that models make up.
const CODE_TAGS: &[&str] = &[
    "execution-code",
    "execute",
    "execute_python",
    "execute_code",
    "code_act",
    "tool_code",
    "python",
    "run_python",
];

/// Code between tags, in a run with another format than `xml`.
pub(super) fn execution_code(text: &str, _: &FormatContext) -> Option<DialectReply> {
    let tags = find_tags(text, CODE_TAGS);
    let mut reply = DialectReply {
        start: tags.first()?.start,
        ..DialectReply::default()
    };
    for tag in tags {
        reply.is_open |= !tag.is_closed;
        let code = super::fences::unfenced_code(tag.body);
        if !code.trim().is_empty() {
            reply.actions.push(DialectAction::Code(code));
        }
    }
    Some(reply)
}

/// Calls as plain JSON: `{"name": …, "arguments": {…}}`, as the whole text, in a fence, or at the beginning of a line after some words.
/// Only for tools that there are: an answer may be JSON too. Objects of the formats `json` and `next_step` are read too.
pub(super) fn bare_call(text: &str, context: &FormatContext) -> Option<DialectReply> {
    let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1));
    let starts = starts.filter(|at| {
        let line = text[*at..].trim_start_matches([' ', '\t']);
        let line = line.trim_start_matches("```").trim_start_matches("json");
        line.starts_with(['{', '[', '\n'])
    });
    for start in starts.take(MAX_JSON_STARTS) {
        let body = text[start..].trim_start();
        let body = body.strip_prefix("```").unwrap_or(body);
        let body = body.strip_prefix("json").unwrap_or(body).trim_start();
        if !body.starts_with(['{', '[']) {
            continue;
        }
        let Some(value) = first_json(body) else {
            continue;
        };
        if let Some(reply) = json_actions(&value, context) {
            return Some(DialectReply { start, ..reply });
        }
    }
    None
}

/// The lines of a text at which a JSON call is looked for.
const MAX_JSON_STARTS: usize = 50;

/// The actions of a JSON value: a call, a list of calls, or an object of the format `json` or `next_step`. `None` where it has none, or
/// where one of them names a tool that there is not.
pub(super) fn json_actions(value: &Value, context: &FormatContext) -> Option<DialectReply> {
    let values = match value {
        Value::Array(values) => values.as_slice(),
        value => std::slice::from_ref(value),
    };
    if values.is_empty() {
        return None;
    }
    let mut reply = DialectReply::default();
    for value in values {
        if let Some(answer) = json_answer(value) {
            reply.answer = Some(answer);
            continue;
        }
        if is_json_action(value) {
            reply.actions.extend(json_code(value));
            continue;
        }
        let call = json_call(value).or_else(|| inline_call(value))?;
        if let DialectAction::Call { name, .. } = &call {
            let name = super::tool_name(name, &context.registry);
            context.registry.get(&name)?;
        }
        reply.actions.push(call);
    }
    Some(reply)
}

/// Whether a value is an object of the format `json`.
fn is_json_action(value: &Value) -> bool {
    let action = value.get("action").and_then(Value::as_str);
    let is_known = action.is_some_and(|action| {
        matches!(
            action,
            "execute_code" | "debug_error" | "continue_debugging" | "provide_answer"
        )
    });
    is_known && (value.get("code").is_some() || value.get("final_answer").is_some())
}

/// The code of an object of the format `json`.
fn json_code(value: &Value) -> Option<DialectAction> {
    let code = value.get("code")?.as_str()?;
    (!code.trim().is_empty()).then(|| DialectAction::Code(code.to_owned()))
}

/// The answer of an object of the format `json` without code, or of the format `next_step`.
fn json_answer(value: &Value) -> Option<String> {
    let answer = if value.get("action").and_then(Value::as_str) == Some("provide_answer") {
        if json_code(value).is_some() {
            return None;
        }
        value.get("final_answer")?
    } else {
        let function = value.get("function")?;
        let tool = function.get("tool").and_then(Value::as_str)?;
        function
            .get("answer")
            .filter(|_| tool == "report_task_completion")?
    };
    match answer {
        Value::Null => None,
        Value::String(text) if text.trim().is_empty() => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// The call of an object of the format `next_step`: `{"function": {"tool": NAME, …arguments}}`.
fn inline_call(value: &Value) -> Option<DialectAction> {
    let mut arguments = value.get("function")?.as_object()?.clone();
    let name = arguments.shift_remove("tool")?;
    Some(DialectAction::Call {
        name: name.as_str()?.to_owned(),
        arguments: Value::Object(arguments),
    })
}

/// A list of Python calls that is the whole text: `[get_weather(city="Rome")]` (Gemma 3, Llama 4). The text itself is the code, where
/// every function in it is a tool.
pub(super) fn list_of_calls(text: &str, context: &FormatContext) -> Option<DialectReply> {
    let trimmed = text.trim();
    // A fence around it has been read already.
    if !code_blocks(trimmed).is_empty() {
        return None;
    }
    let inner = trimmed.strip_prefix('[')?.strip_suffix(']')?.trim();
    let (name, _) = inner.split_once('(')?;
    let offered = context.registry.offered_to_code();
    let is_tool = offered
        .iter()
        .any(|tool| tool.name.replace('-', "_") == name.trim());
    (is_tool && inner.ends_with(')')).then(|| DialectReply {
        actions: vec![DialectAction::Code(trimmed.to_owned())],
        ..DialectReply::default()
    })
}
