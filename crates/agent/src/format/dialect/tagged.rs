//! Dialects with tags, and calls as plain JSON or as a list of Python calls.

use super::tokens::{first_json, json_call};
use super::{Spoken, SpokenAction};
use crate::format::FormatContext;
use crate::repair::{code_blocks, find_tags};
use cellblock_tools::names::EXECUTE_PYTHON_CODE;
use serde_json::{Map, Value};

/// Calls with one tag for each parameter: `<function=NAME><parameter=KEY>value</parameter></function>` (Qwen3-Coder),
/// `<function=NAME>{…}</function>` (Llama 3.1), and `<invoke name="NAME"><parameter name="KEY">value</parameter></invoke>` (Claude).
pub(super) fn function_tags(text: &str, context: &FormatContext) -> Option<Spoken> {
    let forms = [
        ("<function=", "</function>", "<parameter="),
        ("<invoke name=", "</invoke>", "<parameter name="),
    ];
    let (open, close, parameter) = forms.into_iter().find(|(open, ..)| text.contains(open))?;
    let first = text.find(open)?;
    let wrappers = ["<tool_call>", "<function_calls>"];
    let wrapper = wrappers.iter().filter_map(|tag| text.find(tag)).min();
    let mut spoken = Spoken {
        start: wrapper.unwrap_or(first).min(first),
        ..Spoken::default()
    };
    for part in text[first..].split(open).skip(1) {
        let (body, is_closed) = match part.split_once(close) {
            Some((body, _)) => (body, true),
            None => (part, false),
        };
        spoken.is_open |= !is_closed;
        let Some((name, body)) = body.split_once('>') else {
            continue;
        };
        let name = name.trim().trim_matches('"');
        let arguments = match first_json(body) {
            Some(arguments) => arguments,
            None => Value::Object(tag_parameters(body, parameter, name, context)),
        };
        spoken.actions.push(SpokenAction::Call {
            name: name.to_owned(),
            arguments,
        });
    }
    Some(spoken)
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
        let key = key.trim().trim_matches('"');
        let value = rest.split("</parameter>").next().unwrap_or(rest);
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
pub(super) fn tool_call_tags(text: &str, context: &FormatContext) -> Option<Spoken> {
    let tags = find_tags(text, &["tool_call"]);
    let mut spoken = Spoken {
        start: tags.first()?.start,
        ..Spoken::default()
    };
    for tag in tags {
        spoken.is_open |= !tag.is_closed;
        let call = match first_json(tag.body) {
            Some(value) => json_call(&value),
            None => pairs_call(tag.body, context),
        };
        match call {
            Some(call) => spoken.actions.push(call),
            // One call that cannot be read makes the order of all uncertain.
            None => {
                spoken.actions.clear();
                return Some(spoken);
            }
        }
    }
    Some(spoken)
}

fn pairs_call(body: &str, context: &FormatContext) -> Option<SpokenAction> {
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
    Some(SpokenAction::Call {
        name: name.to_owned(),
        arguments: Value::Object(arguments),
    })
}

/// The tags of the format `xml`, in a run with another format.
pub(super) fn execution_code(text: &str, _: &FormatContext) -> Option<Spoken> {
    let tags = find_tags(text, &["execution-code", "execute", "code_act"]);
    let mut spoken = Spoken {
        start: tags.first()?.start,
        ..Spoken::default()
    };
    for tag in tags {
        spoken.is_open |= !tag.is_closed;
        let code = super::fences::unfenced_code(tag.body);
        if !code.trim().is_empty() {
            spoken.actions.push(SpokenAction::Code(code));
        }
    }
    Some(spoken)
}

/// A call that is the whole text, as JSON: `{"name": …, "arguments": {…}}`, maybe in a fence. Only for tools that there are: an answer may
/// be JSON too. An object of the format `json` is read too.
pub(super) fn bare_call(text: &str, context: &FormatContext) -> Option<Spoken> {
    let trimmed = text.trim();
    let body = match trimmed.strip_prefix("```") {
        Some(fenced) => fenced.trim_start_matches("json").trim_start(),
        None => trimmed,
    };
    if !body.starts_with(['{', '[']) {
        return None;
    }
    let values = match first_json(body)? {
        Value::Array(values) => values,
        value => vec![value],
    };
    let known = |action: &SpokenAction| match action {
        SpokenAction::Code(_) => true,
        SpokenAction::Call { name, .. } => {
            let name = super::tool_name(name, &context.registry);
            context.registry.get(&name).is_some()
        }
    };
    let calls: Option<Vec<SpokenAction>> = values
        .iter()
        .map(|value| json_action(value).or_else(|| json_call(value)))
        .collect();
    let actions = calls.filter(|calls| !calls.is_empty() && calls.iter().all(known))?;
    Some(Spoken {
        actions,
        start: 0,
        ..Spoken::default()
    })
}

/// An action of the format `json`: `{"action": "execute_code", "code": …}`.
fn json_action(value: &Value) -> Option<SpokenAction> {
    let action = value.get("action")?.as_str()?;
    let code = value.get("code")?.as_str()?;
    let runs = matches!(
        action,
        "execute_code" | "debug_error" | "continue_debugging"
    );
    (runs && !code.trim().is_empty()).then(|| SpokenAction::Code(code.to_owned()))
}

/// A list of Python calls that is the whole text: `[get_weather(city="Rome")]` (Gemma 3, Llama 4). The text itself is the code, where
/// every function in it is a tool.
pub(super) fn list_of_calls(text: &str, context: &FormatContext) -> Option<Spoken> {
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
    (is_tool && inner.ends_with(')')).then(|| Spoken {
        actions: vec![SpokenAction::Code(trimmed.to_owned())],
        ..Spoken::default()
    })
}
