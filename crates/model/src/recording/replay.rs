//! A recording as a model, and how requests are compared with recorded ones.

use super::{Exchange, RecordingHeader, read};
use crate::model::stream_of;
use crate::{
    Capabilities, Content, Message, Model, ModelError, Part, ReplyStream, Request, ResponseFormat,
};
use futures_util::{StreamExt, stream};
use serde_json::Value;
use std::borrow::Cow;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// A recording as a model: it answers requests that were recorded, and no others.
///
/// A request gets the first exchange that matches and was not used yet, so runs at the same time may share a recording.
pub struct ReplayModel {
    header: RecordingHeader,
    path: String,
    exchanges: Arc<Vec<ComparableExchange>>,
    used: Arc<Mutex<Vec<bool>>>,
    matching: RequestMatch,
}

/// Which part of a request must be as it was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestMatch {
    /// The whole request.
    #[default]
    WholeRequest,
    /// The conversation: not the system messages at its beginning, the tools that are offered, the form of the reply, or the texts that end
    /// it. These change from version to version of this program. The results of a reply must still be the same, or the next reply does not match.
    Conversation,
}

/// An exchange with its request in the form in which it is compared.
struct ComparableExchange {
    exchange: Exchange,
    normalized: Value,
}

impl ReplayModel {
    /// Reads a recording.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ModelError> {
        Self::open_matching(path, RequestMatch::WholeRequest)
    }

    /// Reads a recording that is to be matched by a part of the request.
    pub fn open_matching(
        path: impl AsRef<Path>,
        matching: RequestMatch,
    ) -> Result<Self, ModelError> {
        let (header, exchanges) = read(path.as_ref())?;
        let prepared = exchanges.into_iter().map(|exchange| ComparableExchange {
            normalized: normalized(&matching.part_of(&exchange.request)),
            exchange,
        });
        let prepared: Vec<_> = prepared.collect();
        Ok(Self {
            header,
            path: path.as_ref().display().to_string(),
            used: Arc::new(Mutex::new(vec![false; prepared.len()])),
            exchanges: Arc::new(prepared),
            matching,
        })
    }

    /// The header: where the replies come from.
    pub fn header(&self) -> &RecordingHeader {
        &self.header
    }

    /// The number of exchanges that were not used yet.
    pub fn unused_exchanges(&self) -> usize {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.iter().filter(|used| !**used).count()
    }
}

impl Model for ReplayModel {
    fn name(&self) -> &str {
        &self.header.model
    }

    fn capabilities(&self) -> &Capabilities {
        &self.header.capabilities
    }

    fn stream(&self, request: Request) -> ReplyStream {
        let path = self.path.clone();
        let (exchanges, used) = (Arc::clone(&self.exchanges), Arc::clone(&self.used));
        let matching = self.matching;
        let request = matching.part_of(&request).into_owned();
        let reply = async move {
            let mut used = used.lock().unwrap_or_else(PoisonError::into_inner);
            let mut outcome = answer(&path, &exchanges, &mut used, &request);
            if matching == RequestMatch::Conversation
                && let Ok(reply) = &mut outcome
            {
                // The tokens were counted for the recorded prompt, which may be another one.
                reply.usage.estimated = true;
            }
            stream_of(outcome)
        };
        Box::pin(stream::once(reply).flatten())
    }
}

impl RequestMatch {
    /// The request without what is not compared.
    fn part_of(self, request: &Request) -> Cow<'_, Request> {
        if self == Self::WholeRequest {
            return Cow::Borrowed(request);
        }
        let is_instruction = |message: &&Message| matches!(message, Message::System { .. });
        let instructions = request.messages.iter().take_while(is_instruction).count();
        Cow::Owned(Request {
            messages: request.messages[instructions..].to_vec(),
            tools: Vec::new(),
            response_format: ResponseFormat::Text,
            stop: Vec::new(),
            ..request.clone()
        })
    }
}

fn answer(
    path: &str,
    exchanges: &[ComparableExchange],
    used: &mut [bool],
    request: &Request,
) -> Result<crate::Reply, ModelError> {
    let asked = normalized(request);
    let mut unused = exchanges
        .iter()
        .enumerate()
        .filter(|(index, _)| !used[*index]);
    if let Some((index, found)) = unused.clone().find(|(_, it)| it.normalized == asked) {
        used[index] = true;
        return found.exchange.outcome.clone();
    }
    // Most likely the exchange was meant that has the most messages at the beginning in common with this request.
    let agreement = |recorded: &Value| common_messages(recorded, &asked);
    let first = unused.next();
    let nearest = unused.fold(first, |best, next| match best {
        Some(best) if agreement(&best.1.normalized) >= agreement(&next.1.normalized) => Some(best),
        _ => Some(next),
    });
    match nearest {
        Some((index, recorded)) => Err(ModelError::ReplayMismatch {
            path: path.to_owned(),
            exchange: index + 1,
            difference: difference(&recorded.normalized, &asked),
        }),
        None => Err(ModelError::NoMoreReplies {
            source_of_replies: format!("the recording {path}"),
            replies: exchanges.len(),
        }),
    }
}

fn common_messages(recorded: &Value, asked: &Value) -> usize {
    let messages = |request: &Value| request["messages"].as_array().cloned().unwrap_or_default();
    let (recorded, asked) = (messages(recorded), messages(asked));
    let pairs = recorded.iter().zip(&asked);
    pairs
        .take_while(|(recorded, asked)| recorded == asked)
        .count()
}

/// The request as JSON, reduced to what is compared.
///
/// Left out are the limits and the sampling (`max_tokens`, `temperature`, `top_p`, `seed`). Made equal are line ends, spaces at the ends of
/// lines, random ids in the form of a UUID, and images with their sizes, which differ from one version of a plotting library or font to the
/// next.
fn normalized(request: &Request) -> Value {
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
    change_texts(&mut value, &mut |text| *text = normalized_text(text));
    value
}

fn change_texts(value: &mut Value, change: &mut impl FnMut(&mut String)) {
    match value {
        Value::String(text) => change(text),
        Value::Array(items) => items.iter_mut().for_each(|item| change_texts(item, change)),
        Value::Object(map) => map.values_mut().for_each(|item| change_texts(item, change)),
        _ => {}
    }
}

fn normalized_text(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(str::trim_end).collect();
    without_image_sizes(&without_uuids(&lines.join("\n")))
}

/// The text with the number taken out that follows the media type of an image: `(image/png, 24249 bytes)`.
fn without_image_sizes(text: &str) -> String {
    const BEFORE_NUMBER: [char; 3] = [',', '，', ' '];
    let mut parts = text.split("image/");
    let mut normal = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let kind_end = part
            .find(|c: char| !c.is_ascii_lowercase())
            .unwrap_or(part.len());
        let rest = part[kind_end..].trim_start_matches(BEFORE_NUMBER);
        let is_sized = rest.len() < part.len() - kind_end;
        let number = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        normal.push_str("image/");
        match is_sized && number > 0 {
            true => {
                normal.push_str(&part[..part.len() - rest.len()]);
                normal.push_str("<size>");
                normal.push_str(&rest[number..]);
            }
            false => normal.push_str(part),
        }
    }
    normal
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
    text.bytes().enumerate().all(|(index, byte)| match index {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}

/// The number of differences that are shown.
const MAX_DIFFERENCES: usize = 5;

/// The characters that are shown of each side.
const SHOWN_CHARS: usize = 120;

/// The first differences between two requests, a few lines each, for a person.
fn difference(recorded: &Value, asked: &Value) -> String {
    let mut found = Vec::new();
    compare("", recorded, asked, &mut found);
    let more = found.len().saturating_sub(MAX_DIFFERENCES);
    found.truncate(MAX_DIFFERENCES);
    if more > 0 {
        found.push(format!("and {more} more differences"));
    }
    found.join("\n")
}

fn compare(path: &str, recorded: &Value, asked: &Value, found: &mut Vec<String>) {
    match (recorded, asked) {
        (Value::Object(old), Value::Object(new)) => {
            for key in old
                .keys()
                .chain(new.keys().filter(|key| !old.contains_key(*key)))
            {
                let path = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                side_by_side(&path, old.get(key), new.get(key), found);
            }
        }
        (Value::Array(old), Value::Array(new)) => {
            for index in 0..old.len().max(new.len()) {
                let path = format!("{path}[{index}]");
                side_by_side(&path, old.get(index), new.get(index), found);
            }
        }
        (Value::String(old), Value::String(new)) if old != new => {
            let pairs = old.chars().zip(new.chars());
            let same = pairs.take_while(|(old, new)| old == new).count();
            add_difference(path, &around(old, same), &around(new, same), found);
        }
        (old, new) if old != new => add_difference(path, &short(old), &short(new), found),
        _ => {}
    }
}

fn side_by_side(
    path: &str,
    recorded: Option<&Value>,
    asked: Option<&Value>,
    found: &mut Vec<String>,
) {
    match (recorded, asked) {
        (Some(recorded), Some(asked)) => compare(path, recorded, asked, found),
        (recorded, asked) => {
            let show = |value: Option<&Value>| value.map_or("(nothing)".into(), short);
            add_difference(path, &show(recorded), &show(asked), found);
        }
    }
}

fn add_difference(path: &str, recorded: &str, asked: &str, found: &mut Vec<String>) {
    found.push(format!(
        "{path}\n  recorded: {recorded}\n  asked:    {asked}"
    ));
}

fn short(value: &Value) -> String {
    around(&value.to_string(), 0)
}

/// The text near the character where it begins to differ, on one line.
fn around(text: &str, position: usize) -> String {
    let start = position.saturating_sub(20);
    let piece: String = text.chars().skip(start).take(SHOWN_CHARS).collect();
    let before = if start > 0 { "…" } else { "" };
    let after = if text.chars().count() > start + SHOWN_CHARS {
        "…"
    } else {
        ""
    };
    format!("{before}{}{after}", piece.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::without_image_sizes;

    #[test]
    fn the_size_of_an_image_is_not_compared_and_other_numbers_are() {
        for (text, expected) in [
            (
                "a.png (image/png, 24249 bytes), 7",
                "a.png (image/png, <size> bytes), 7",
            ),
            (
                "a.png（image/png，24249 字节）",
                "a.png（image/png，<size> 字节）",
            ),
            ("image/png", "image/png"),
            (
                "image/7 and text/csv, 12 bytes",
                "image/7 and text/csv, 12 bytes",
            ),
        ] {
            assert_eq!(without_image_sizes(text), expected);
        }
    }
}
