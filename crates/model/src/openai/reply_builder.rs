//! The chunks of a streamed reply, put together.
//!
//! Compatible endpoints differ in every detail: any field may be missing, null, or in another place.

use super::think_tags::{ReplyPiece, ThinkTagSplitter};
use super::tool_calls::{ToolCallBuilder, arguments_of, text_of};
use crate::{FinishReason, FunctionCall, Reply, ReplyEvent, ReplyRepair, Usage};
use serde_json::Value;

/// Builds a reply from the chunks of a stream.
pub(super) struct ReplyBuilder {
    text: String,
    reasoning: String,
    think_tags: ThinkTagSplitter,
    function_call: Option<FunctionCall>,
    calls: ToolCallBuilder,
    finish: Option<FinishReason>,
    usage: Option<Usage>,
    model: Option<String>,
    repairs: Vec<ReplyRepair>,
    bytes: usize,
    max_bytes: usize,
    has_choice: bool,
}

impl ReplyBuilder {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self {
            text: String::new(),
            reasoning: String::new(),
            think_tags: ThinkTagSplitter::default(),
            function_call: None,
            calls: ToolCallBuilder::default(),
            finish: None,
            usage: None,
            model: None,
            repairs: Vec::new(),
            bytes: 0,
            max_bytes,
            has_choice: false,
        }
    }

    /// Adds a chunk of a stream, or the whole reply of an endpoint that does not stream. Returns what is new.
    pub(super) fn push(&mut self, chunk: &Value) -> Vec<ReplyEvent> {
        if let Some(usage) = usage_of(chunk) {
            self.usage = Some(usage);
        }
        if self.model.is_none() {
            let name = chunk.get("model").and_then(Value::as_str);
            self.model = name.filter(|name| !name.is_empty()).map(model_name);
        }
        let Some(choice) = chunk.get("choices").and_then(|choices| choices.get(0)) else {
            return Vec::new();
        };
        self.has_choice = true;
        if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str) {
            self.finish = finish_of(reason).or(self.finish.take());
        }
        let delta = ["delta", "message"].into_iter().find_map(|key| {
            let delta = choice.get(key)?;
            delta.is_object().then_some(delta)
        });
        let mut events = Vec::new();
        if let Some(delta) = delta {
            self.push_delta(delta, &mut events);
        }
        events
    }

    fn push_delta(&mut self, delta: &Value, events: &mut Vec<ReplyEvent>) {
        let reasoning = ["reasoning_content", "reasoning", "thinking"]
            .into_iter()
            .map(|key| content_of(delta.get(key)))
            .find(|text| !text.is_empty());
        if let Some(text) = reasoning.and_then(|text| self.within_limit(text)) {
            self.add(ReplyPiece::Reasoning(text), events);
        }
        let text = content_of(delta.get("content"));
        if let Some(text) = self.within_limit(text) {
            for piece in self.think_tags.push(&text) {
                self.add(piece, events);
            }
        }
        if let Some(call) = delta.get("function_call").filter(|call| call.is_object()) {
            self.push_function_call(call, events);
        }
        let calls = delta.get("tool_calls").and_then(Value::as_array);
        for piece in calls.into_iter().flatten() {
            let size = piece.to_string().len();
            if self.bytes.saturating_add(size) > self.max_bytes {
                self.cut_off();
                return;
            }
            self.bytes += size;
            let offset = usize::from(self.function_call.is_some());
            events.extend(self.calls.push(piece, offset));
        }
    }

    fn push_function_call(&mut self, piece: &Value, events: &mut Vec<ReplyEvent>) {
        let name = text_of(piece.get("name"));
        let arguments = arguments_of(piece.get("arguments"));
        if self.within_limit(name.clone() + &arguments).is_none() {
            return;
        }
        let is_new = self.function_call.is_none();
        let call = self.function_call.get_or_insert_with(|| FunctionCall {
            name: String::new(),
            arguments: String::new(),
        });
        if call.name != name {
            call.name.push_str(&name);
        }
        call.arguments.push_str(&arguments);
        if is_new {
            events.push(ReplyEvent::CallBegun { index: 0, name });
        }
        if !arguments.is_empty() {
            let text = arguments;
            events.push(ReplyEvent::CallArguments { index: 0, text });
        }
    }

    fn add(&mut self, piece: ReplyPiece, events: &mut Vec<ReplyEvent>) {
        match piece {
            ReplyPiece::Text(text) => {
                self.text.push_str(&text);
                events.push(ReplyEvent::Text { text });
            }
            ReplyPiece::Reasoning(text) => {
                self.reasoning.push_str(&text);
                events.push(ReplyEvent::Reasoning { text });
            }
        }
    }

    /// The text up to the limit of the reply's length.
    fn within_limit(&mut self, mut text: String) -> Option<String> {
        let left = self.max_bytes - self.bytes;
        if text.len() > left {
            let end = (0..=left).rev().find(|&end| text.is_char_boundary(end));
            text.truncate(end.unwrap_or(0));
            self.cut_off();
        }
        self.bytes += text.len();
        (!text.is_empty()).then_some(text)
    }

    fn cut_off(&mut self) {
        if !self.is_cut_off() {
            let limit = self.max_bytes;
            self.repairs.push(ReplyRepair::TooLong { limit });
        }
    }

    /// Whether the reply reached its limit, so that the rest need not be read.
    pub(super) fn is_cut_off(&self) -> bool {
        let too_long = |repair: &ReplyRepair| matches!(repair, ReplyRepair::TooLong { .. });
        self.repairs.iter().any(too_long)
    }

    pub(super) fn note(&mut self, repair: ReplyRepair) {
        if !self.repairs.contains(&repair) && self.repairs.len() < 20 {
            self.repairs.push(repair);
        }
    }

    /// Whether a chunk had a choice: without one there is no reply.
    pub(super) fn has_choice(&self) -> bool {
        self.has_choice
    }

    /// Whether the endpoint gave a reason for the end of the reply.
    pub(super) fn has_finish_reason(&self) -> bool {
        self.finish.is_some()
    }

    /// Ends the stream: the last events, and the whole reply.
    pub(super) fn finish(mut self) -> (Vec<ReplyEvent>, Reply) {
        let mut events = Vec::new();
        if let Some(piece) = self.think_tags.finish() {
            self.add(piece, &mut events);
        }
        let calls = !self.calls.is_empty() || self.function_call.is_some();
        let finish = if self.is_cut_off() {
            FinishReason::Length
        } else {
            match (self.finish.take(), calls) {
                (Some(FinishReason::Stop), true) => FinishReason::ToolCalls,
                (Some(FinishReason::ToolCalls), false) => FinishReason::Stop,
                (Some(finish), _) => finish,
                (None, calls) => {
                    let taken = if calls {
                        FinishReason::ToolCalls
                    } else {
                        FinishReason::Stop
                    };
                    let repair = ReplyRepair::NoFinishReason {
                        taken: taken.clone(),
                    };
                    self.note(repair);
                    taken
                }
            }
        };
        let tool_calls = self.calls.finish(&finish, &mut self.repairs);
        let function_call = self.function_call.filter(|call| !call.name.is_empty());
        let reply = Reply {
            text: self.text,
            reasoning: self.reasoning,
            function_call,
            tool_calls,
            finish,
            usage: self.usage.unwrap_or_default(),
            repairs: self.repairs,
            model: self.model,
        };
        (events, reply)
    }
}

/// The content as text. It may be a list of parts with text.
fn content_of(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
            texts.collect()
        }
        _ => String::new(),
    }
}

fn finish_of(reason: &str) -> Option<FinishReason> {
    Some(match reason {
        "" | "null" => return None,
        "stop" | "eos" | "end_turn" | "stop_sequence" => FinishReason::Stop,
        "length" | "max_tokens" => FinishReason::Length,
        "tool_calls" | "function_call" | "tool_use" => FinishReason::ToolCalls,
        "content_filter" => FinishReason::ContentFilter,
        other => FinishReason::Other(clip_name(other)),
    })
}

fn usage_of(chunk: &Value) -> Option<Usage> {
    let places = ["/usage", "/x_groq/usage"];
    let usage = places.iter().find_map(|place| {
        let usage = chunk.pointer(place)?;
        usage.is_object().then_some(usage)
    })?;
    let number = |path: &str| usage.pointer(path).and_then(Value::as_u64);
    let input_tokens = number("/prompt_tokens").or(number("/input_tokens"));
    let output_tokens = number("/completion_tokens").or(number("/output_tokens"));
    if input_tokens.is_none() && output_tokens.is_none() {
        return None;
    }
    Some(Usage {
        input_tokens: input_tokens.unwrap_or(0),
        cached_input_tokens: number("/prompt_tokens_details/cached_tokens")
            .or(number("/prompt_cache_hit_tokens"))
            .unwrap_or(0),
        output_tokens: output_tokens.unwrap_or(0),
        reasoning_tokens: number("/completion_tokens_details/reasoning_tokens").unwrap_or(0),
        estimated: false,
    })
}

/// The name of the model. Some servers send the path of the weights on their disk, which is reduced to the file name.
fn model_name(name: &str) -> String {
    let is_path = name.starts_with('/') || name.contains('\\');
    let file = name.rsplit(['/', '\\']).next().unwrap_or(name);
    clip_name(if is_path { file } else { name })
}

fn clip_name(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(200).collect()
}

#[cfg(test)]
#[path = "reply_builder_tests.rs"]
mod tests;
