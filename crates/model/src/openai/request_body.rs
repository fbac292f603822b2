//! The JSON body of a request, with what the endpoint takes.

use crate::history_repair::{RepairedHistory, repair_history};
use crate::{Capabilities, Content, Message, Part, Request, ResponseFormat, ToolChoice};
use serde_json::{Map, Value, json};

/// Fields that can be left out. An endpoint that refuses one of them is asked again without it.
pub(super) const OPTIONAL_FIELDS: &[&str] = &[
    "parallel_tool_calls",
    "stream_options",
    "response_format",
    "stop",
    "max_tokens",
    "temperature",
    "top_p",
    "seed",
];

/// The whole body. `refused` are the fields that the endpoint refused before.
pub(super) fn request_body(
    model: &str,
    request: &Request,
    capabilities: &Capabilities,
    extra: &Map<String, Value>,
    refused: &[&str],
) -> Value {
    let mut body = Map::new();
    let mut put = |name: &str, value: Value| {
        if !refused.contains(&name) {
            body.insert(name.to_owned(), value);
        } else if name == "max_tokens" {
            body.insert("max_completion_tokens".to_owned(), value);
        }
    };
    put("model", json!(model));
    let sent = sent_messages(&request.messages, capabilities);
    for repair in sent.repairs {
        tracing::warn!(%repair, "the history was repaired");
    }
    put("messages", json!(sent.messages));
    put("stream", json!(true));
    put("stream_options", json!({"include_usage": true}));
    // Tools in a request are always sent: `Capabilities::tools` only helps to choose an action format.
    if !request.tools.is_empty() {
        put("tools", json!(request.tools));
        put("parallel_tool_calls", json!(true));
        if let Some(choice) = tool_choice(&request.tool_choice) {
            put("tool_choice", choice);
        }
    }
    if let Some(format) = response_format(&request.response_format, capabilities) {
        put("response_format", format);
    }
    if !request.stop.is_empty() {
        put("stop", json!(request.stop));
    }
    let numbers = [
        ("max_tokens", request.max_tokens.map(|number| json!(number))),
        (
            "temperature",
            request.temperature.map(|number| json!(number)),
        ),
        ("top_p", request.top_p.map(|number| json!(number))),
        ("seed", request.seed.map(|number| json!(number))),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            put(name, number);
        }
    }
    body.extend(extra.clone());
    Value::Object(body)
}

/// The messages of a request as an endpoint with these capabilities gets them, with what had to be repaired.
pub fn sent_messages(messages: &[Message], capabilities: &Capabilities) -> RepairedHistory {
    let mut history = repair_history(messages);
    for (index, message) in history.messages.iter_mut().enumerate() {
        match message {
            Message::System { content } if index > 0 && !capabilities.late_system_messages => {
                *message = Message::user(std::mem::take(content));
            }
            Message::Assistant(assistant) if !capabilities.reasoning_in_history => {
                assistant.reasoning.clear();
            }
            Message::User { content } if !capabilities.images => {
                without_images(content);
            }
            _ => {}
        }
    }
    history
}

fn without_images(content: &mut Content) {
    let Content::Parts(parts) = &*content else {
        return;
    };
    let is_image = |part: &&Part| matches!(part, Part::ImageUrl { .. });
    let images = parts.iter().filter(is_image).count();
    let mut text = content.text();
    if images > 0 {
        text.push_str(&format!(
            "\n({images} images are left out: this model takes none)"
        ));
    }
    *content = Content::Text(text);
}

fn tool_choice(choice: &ToolChoice) -> Option<Value> {
    match choice {
        ToolChoice::Auto => None,
        ToolChoice::None => Some(json!("none")),
        ToolChoice::Required => Some(json!("required")),
        ToolChoice::Named(name) => Some(json!({"type": "function", "function": {"name": name}})),
    }
}

fn response_format(format: &ResponseFormat, capabilities: &Capabilities) -> Option<Value> {
    match format {
        ResponseFormat::JsonSchema {
            name,
            schema,
            strict,
        } if capabilities.json_schema => Some(json!({
            "type": "json_schema",
            "json_schema": {"name": name, "schema": schema, "strict": strict},
        })),
        ResponseFormat::JsonObject if capabilities.json_schema => {
            Some(json!({"type": "json_object"}))
        }
        _ => None,
    }
}
