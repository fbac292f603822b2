//! The requests to the model in the record of a run: each message once, and a request as the numbers of its messages.
//!
//! A request repeats almost everything of the request before it. A message that is in the record already is not written again, also
//! not when the conversation was shortened in between or when a template of the run asks the model.

use crate::run::cut_middle;
use cellblock_model::Request;
use cellblock_trace::SecretFilter;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

/// The characters that are kept of one text.
const MAX_TEXT_CHARS: usize = 100_000;

/// The bytes of messages that are kept of one run. The messages of later requests are counted, and not kept.
const MAX_MESSAGE_BYTES: usize = 4_000_000;

/// A request to the model, from the record of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRequest {
    /// When the model was asked, in seconds since 1970.
    pub at: f64,
    /// The number of the step, from 1.
    pub step: usize,
    /// The estimated tokens.
    pub tokens: u64,
    /// The name of the template whose run asked. `None` for the run itself.
    pub template: Option<String>,
    /// The messages as they were sent. A message that was not kept is `null`.
    pub messages: Vec<Arc<Value>>,
    /// The index of the first message that no earlier request of the record has. The number of messages where there is none.
    pub first_new: usize,
    /// The tools that were offered, where the action format sends them apart from the messages.
    pub tools: Option<Arc<Value>>,
    /// The options of the request, such as `temperature`.
    pub options: Map<String, Value>,
}

/// A request as a line of the record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct RequestLine {
    step: usize,
    tokens: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    template: Option<String>,
    /// The numbers of the messages. Texts are numbered in the order in which they stand in the record.
    messages: Vec<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tools: Option<usize>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    options: Map<String, Value>,
    /// The texts that are in no earlier line.
    new: Vec<Arc<Value>>,
}

/// The texts of a record, by their numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct KnownTexts(Vec<Arc<Value>>);

impl KnownTexts {
    /// Reads the next line. A number that the record does not have is a message that is `null`.
    pub(super) fn read(&mut self, at: f64, line: RequestLine) -> StoredRequest {
        let before = self.0.len();
        self.0.extend(line.new);
        let is_new = |number: &usize| *number >= before;
        let first_new = line.messages.iter().position(is_new);
        let text = |number: &usize| self.0.get(*number).cloned().unwrap_or_default();
        StoredRequest {
            at,
            step: line.step,
            tokens: line.tokens,
            template: line.template,
            messages: line.messages.iter().map(text).collect(),
            first_new: first_new.unwrap_or(line.messages.len()),
            tools: line.tools.as_ref().map(text),
            options: line.options,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}

/// Turns requests into lines. It remembers which texts are written.
#[derive(Debug)]
pub(super) struct RequestLog {
    numbers: HashMap<u64, usize>,
    hasher: RandomState,
    /// The number of the next new text.
    next: usize,
    bytes: usize,
    secrets: SecretFilter,
    /// The last request with the numbers of its messages.
    last: Option<(Arc<Request>, Vec<usize>)>,
}

impl RequestLog {
    /// For a record that has this many texts already. They are not known again: the record is not read for it.
    pub(super) fn after(texts: usize) -> RequestLog {
        RequestLog {
            numbers: HashMap::new(),
            hasher: RandomState::new(),
            next: texts,
            bytes: 0,
            secrets: SecretFilter::from_environment(std::env::vars()),
            last: None,
        }
    }

    pub(super) fn line(
        &mut self,
        step: usize,
        tokens: u64,
        template: Option<&str>,
        request: &Arc<Request>,
    ) -> RequestLine {
        let mut new = Vec::new();
        let mut messages = self.known_prefix(request);
        for message in &request.messages[messages.len()..] {
            messages.push(self.number(message, &mut new));
        }
        self.last = Some((Arc::clone(request), messages.clone()));
        let tools = match request.tools.is_empty() {
            true => None,
            false => Some(self.number(&request.tools, &mut new)),
        };
        // Without the messages, of which there are many.
        let options = Request {
            messages: Vec::new(),
            tools: Vec::new(),
            tool_choice: request.tool_choice.clone(),
            response_format: request.response_format.clone(),
            stop: request.stop.clone(),
            ..**request
        };
        let mut options = match json!(options) {
            Value::Object(options) => options,
            _ => Map::new(),
        };
        options.retain(|name, _| name != "messages" && name != "tools");
        RequestLine {
            step,
            tokens,
            template: template.map(str::to_owned),
            messages,
            tools,
            options,
            new,
        }
    }

    /// The numbers of the messages at the beginning that are the same as in the last request: almost always all of its messages.
    fn known_prefix(&self, request: &Request) -> Vec<usize> {
        let Some((last, numbers)) = &self.last else {
            return Vec::new();
        };
        let pairs = last.messages.iter().zip(&request.messages);
        let same = pairs.take_while(|(before, now)| before == now).count();
        numbers[..same].to_vec()
    }

    /// The number of a text. A text that is not written yet is added to `new`.
    fn number(&mut self, text: &impl Serialize, new: &mut Vec<Arc<Value>>) -> usize {
        // A text is often written already: only a new one becomes a value.
        let written = serde_json::to_string(text).unwrap_or_default();
        let hash = self.hasher.hash_one(written);
        if let Some(number) = self.numbers.get(&hash) {
            return *number;
        }
        let mut kept = self.secrets.redact_field("", bounded(json!(text)));
        self.bytes += kept.to_string().len();
        if self.bytes > MAX_MESSAGE_BYTES {
            kept = Value::Null;
        }
        new.push(Arc::new(kept));
        let number = self.next;
        self.next += 1;
        self.numbers.insert(hash, number);
        number
    }
}

/// A message without what is too long for a record: the bytes of pictures, and the middle of long texts.
fn bounded(value: Value) -> Value {
    match value {
        Value::String(mut text) => {
            if text.starts_with("data:")
                && let Some((kind, data)) = text.split_once(',')
            {
                return Value::String(format!("{kind},… ({} characters)", data.len()));
            }
            cut_middle(&mut text, MAX_TEXT_CHARS);
            Value::String(text)
        }
        Value::Array(items) => items.into_iter().map(bounded).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| (name, bounded(value)))
            .collect(),
        other => other,
    }
}
