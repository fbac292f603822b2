//! The ReAct form: `Action: NAME`, `Action Input: …`, and an `Observation:` that the model often invents.

use super::tokens::first_json;
use super::{DialectAction, DialectReply};
use crate::format::FormatContext;
use crate::repair::lines;
use serde_json::{Map, Value};

/// Labels that end the input of an action.
const NEXT_LABELS: &[&str] = &["observation", "thought", "final answer", "action"];

/// The first action of a reply in the ReAct form. What follows it was written before the action ran, so it does not count.
pub(super) fn react(text: &str, context: &FormatContext) -> Option<DialectReply> {
    let mut lines = lines(text).peekable();
    let (start, name) = loop {
        let (start, line) = lines.next()?;
        if let Some(name) = label(line, "action") {
            break (start, name);
        }
    };
    let mut input = None;
    let mut body: Vec<&str> = Vec::new();
    let mut has_observation = false;
    for (_, line) in lines {
        if let (Some(first), None) = (label(line, "action input"), input) {
            input = Some(first);
            body.clear();
            continue;
        }
        if let Some(next) = NEXT_LABELS.iter().find(|next| label(line, next).is_some()) {
            has_observation = *next == "observation";
            break;
        }
        body.push(line);
    }
    let body = body.join("\n");
    let mut reply = DialectReply {
        start,
        ..DialectReply::default()
    };
    if let Some(first) = input {
        let input = format!("{first}\n{body}");
        reply.actions.extend(action(name, input.trim(), context));
        return Some(reply);
    }
    // `Action:` and then an object with `action` and `action_input`.
    if let Some(Value::Object(map)) = first_json(&format!("{name}\n{body}"))
        && let (Some(name), Some(input)) = (
            map.get("action").and_then(Value::as_str),
            map.get("action_input"),
        )
    {
        let input = match input {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        reply.actions.extend(action(name, &input, context));
        return Some(reply);
    }
    // Without an input this may be a word of an answer, unless an observation follows.
    has_observation.then_some(reply)
}

fn action(name: &str, input: &str, context: &FormatContext) -> Option<DialectAction> {
    if input.is_empty() {
        return None;
    }
    let registered = super::tool_name(name, &context.registry);
    let arguments = match first_json(input) {
        Some(value @ Value::Object(_)) => value,
        _ => single_argument(&registered, input, context),
    };
    Some(DialectAction::Call {
        name: registered,
        arguments,
    })
}

/// A text as the only required argument of a tool. For other tools the text stays a text.
fn single_argument(tool: &str, input: &str, context: &FormatContext) -> Value {
    let definition = context.registry.get(tool);
    let required = definition
        .and_then(|definition| definition.parameters.get("required"))
        .and_then(Value::as_array);
    let Some([Value::String(name)]) = required.map(Vec::as_slice) else {
        return Value::String(input.to_owned());
    };
    let text = input.trim().trim_matches('"');
    let mut arguments = Map::new();
    arguments.insert(name.clone(), Value::String(text.to_owned()));
    Value::Object(arguments)
}

/// What follows a label at the beginning of a line, such as `**Action:** python`.
fn label<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let line = line.trim_start().trim_start_matches(['*', '#', '-', ' ']);
    let head = line.get(..name.len())?;
    if !head.eq_ignore_ascii_case(name) {
        return None;
    }
    let rest = line[name.len()..].trim_start_matches('*').trim_start();
    let rest = rest.strip_prefix(':')?;
    Some(rest.trim_start_matches('*').trim())
}
