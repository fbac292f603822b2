//! Dialects that put JSON calls after a marker: one table of the markers.

use super::tagged::json_actions;
use super::tokens::first_json;
use super::{DialectAction, DialectReply};
use crate::format::FormatContext;
use serde_json::Value;

/// Markers after which a model writes a JSON call or a list of them, with the families that write them.
const MARKERS: &[&str] = &[
    // Phi-4-mini and Granite 3.
    "<|tool_call|>",
    // Phi-3 and Functionary-like models.
    "functools[",
    // Command R7B and Command A.
    "<|START_ACTION|>",
    // Hunyuan and Jamba.
    "<tool_calls>",
    // Nemotron.
    "<TOOLCALL>",
    // Hermes 1, Glaive and models that were trained on their data.
    "<functioncall>",
    "<function_call>",
    // InternLM 2 and 3.
    "<|action_start|><|plugin|>",
    // Granite 4 and models that were asked for `tool_use`.
    "<tool_use>",
];

/// Calls as JSON after one of the [`MARKERS`].
pub(super) fn marked_calls(text: &str, context: &FormatContext) -> Option<DialectReply> {
    let (start, marker) = MARKERS
        .iter()
        .filter_map(|marker| Some((text.find(marker)?, *marker)))
        .min()?;
    let mut reply = DialectReply {
        start,
        ..DialectReply::default()
    };
    for part in text[start..].split(marker).skip(1) {
        // A marker may have the bracket of the list in it.
        let list = if marker.ends_with('[') {
            format!("[{part}")
        } else {
            part.to_owned()
        };
        let Some(value) = first_json(&list) else {
            continue;
        };
        match json_actions(&value, context) {
            Some(read) => {
                reply.actions.extend(read.actions);
                reply.answer = reply.answer.or(read.answer);
            }
            // A call that cannot be read makes the order of all calls uncertain.
            None => {
                reply.actions.clear();
                return Some(reply);
            }
        }
    }
    Some(reply)
}

/// FunctionGemma: `<start_function_call>call:NAME{key:<escape>text<escape>,count:2}<end_function_call>`.
pub(super) fn function_gemma(text: &str, _: &FormatContext) -> Option<DialectReply> {
    const BEGIN: &str = "<start_function_call>";
    const ESCAPE: &str = "<escape>";
    let start = text.find(BEGIN)?;
    let mut reply = DialectReply {
        start,
        ..DialectReply::default()
    };
    for part in text[start..].split(BEGIN).skip(1) {
        let body = part.split("<end_function_call>").next().unwrap_or(part);
        let Some((name, rest)) = body
            .trim()
            .strip_prefix("call:")
            .and_then(|call| call.split_once('{'))
        else {
            continue;
        };
        let mut arguments = serde_json::Map::new();
        let mut rest = rest.trim_end().strip_suffix('}').unwrap_or(rest);
        while let Some((key, after)) = rest.split_once(':') {
            let (value, next) = match after.strip_prefix(ESCAPE) {
                Some(quoted) => {
                    let (value, next) = quoted.split_once(ESCAPE).unwrap_or((quoted, ""));
                    (Value::String(value.to_owned()), next)
                }
                None => {
                    let (value, next) = after.split_once(',').unwrap_or((after, ""));
                    let value = value.trim();
                    let parsed = serde_json::from_str(value);
                    (parsed.unwrap_or_else(|_| value.into()), next)
                }
            };
            let key = key.trim().trim_start_matches(',').trim();
            arguments.insert(key.to_owned(), value);
            rest = next;
        }
        reply.actions.push(DialectAction::Call {
            name: name.trim().to_owned(),
            arguments: Value::Object(arguments),
        });
    }
    Some(reply)
}
