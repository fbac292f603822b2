//! What of a request counts when it is compared with a recorded one.
//!
//! Left out: how freely and how long the model may write (`max_tokens`, `temperature`, `top_p`, `seed`). Made equal: line ends, spaces at
//! the ends of lines, random ids in the form of a UUID, and images, which differ from one version of a plotting library to the next.

use crate::{Content, Message, Part, Request};
use serde_json::Value;

/// The request, reduced to what counts.
pub(super) fn normal(request: &Request) -> Value {
    let mut request = Request {
        max_tokens: None,
        temperature: None,
        top_p: None,
        seed: None,
        ..request.clone()
    };
    for message in &mut request.messages {
        if let Message::User {
            content: Content::Parts(parts),
        } = message
        {
            for part in parts {
                if let Part::ImageUrl { image_url } = part {
                    image_url.url = "<image>".into();
                }
            }
        }
    }
    let mut value = serde_json::to_value(&request).unwrap_or_default();
    each_text(&mut value, &mut |text| *text = normal_text(text));
    value
}

fn each_text(value: &mut Value, change: &mut impl FnMut(&mut String)) {
    match value {
        Value::String(text) => change(text),
        Value::Array(items) => items.iter_mut().for_each(|item| each_text(item, change)),
        Value::Object(map) => map.values_mut().for_each(|item| each_text(item, change)),
        _ => {}
    }
}

fn normal_text(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(str::trim_end).collect();
    without_uuids(&lines.join("\n"))
}

fn without_uuids(text: &str) -> String {
    let mut normal = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let in_word = normal.ends_with(|c: char| c.is_ascii_alphanumeric());
        if !in_word && rest.get(..36).is_some_and(is_uuid) {
            normal.push_str("<uuid>");
            rest = &rest[36..];
        } else {
            normal.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    normal
}

fn is_uuid(text: &str) -> bool {
    text.bytes().enumerate().all(|(place, byte)| match place {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}
