//! Tokens: what a reply used, what that costs, and estimates for texts.

use crate::{Content, Message, Part, Reply, Request};
use serde::{Deserialize, Serialize};
use std::ops::AddAssign;

/// The tokens of one reply, or of several replies added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// The tokens that the model read.
    pub input_tokens: u64,
    /// The part of `input_tokens` that came from the provider's cache.
    pub cached_input_tokens: u64,
    /// The tokens that the model wrote, with its reasoning.
    pub output_tokens: u64,
    /// The part of `output_tokens` that is reasoning.
    pub reasoning_tokens: u64,
    /// Whether some of the numbers are estimated, because the endpoint did not report them.
    pub estimated: bool,
}

/// The prices of a million tokens, all in one currency.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prices {
    /// The price of input.
    pub input: f64,
    /// The price of input from the cache. Without it, `input` counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<f64>,
    /// The price of output.
    pub output: f64,
}

/// An amount of money, in the currency of the [`Prices`].
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct Cost(pub f64);

impl Usage {
    /// The sum of input and output tokens.
    pub fn total(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        let add = |sum: &mut u64, more| *sum = sum.saturating_add(more);
        add(&mut self.input_tokens, other.input_tokens);
        add(&mut self.cached_input_tokens, other.cached_input_tokens);
        add(&mut self.output_tokens, other.output_tokens);
        add(&mut self.reasoning_tokens, other.reasoning_tokens);
        self.estimated = self.estimated || other.estimated;
    }
}

impl Prices {
    /// The cost of these tokens.
    pub fn cost(&self, usage: &Usage) -> Cost {
        let cached = usage.cached_input_tokens.min(usage.input_tokens);
        let fresh = usage.input_tokens - cached;
        let sum = fresh as f64 * self.input
            + cached as f64 * self.cached_input.unwrap_or(self.input)
            + usage.output_tokens as f64 * self.output;
        Cost(sum / 1_000_000.0)
    }
}

/// The tokens that a message takes besides its text.
const TOKENS_PER_MESSAGE: u64 = 4;

/// The tokens of an image of medium size, as providers count them.
const TOKENS_PER_IMAGE: u64 = 1_000;

/// Estimates the tokens of a text. Every model counts in its own way; the estimate is rather too high than too low.
///
/// ```
/// # use cellblock_model::estimate_tokens;
/// assert_eq!(estimate_tokens("The quick brown fox jumps over the lazy dog."), 12);
/// assert_eq!(estimate_tokens("敏捷的棕色狐狸"), 7);
/// ```
pub fn estimate_tokens(text: &str) -> u64 {
    // Counted in eighths of a token.
    let eighths: u64 = text
        .chars()
        .map(|character| match character {
            'a'..='z' | 'A'..='Z' | ' ' => 2,
            // Some models count every digit as a token.
            '0'..='9' => 6,
            '\0'..='\x7f' => 4,
            _ => 8,
        })
        .sum();
    eighths.div_ceil(8)
}

/// Estimates the tokens of messages.
pub fn estimate_messages(messages: &[Message]) -> u64 {
    messages.iter().map(estimate_message).sum()
}

/// Estimates the tokens of a request, with its tools.
pub fn estimate_request(request: &Request) -> u64 {
    let tools = request
        .tools
        .iter()
        .map(|tool| estimate_tokens(&tool.to_string()));
    estimate_messages(&request.messages) + tools.sum::<u64>()
}

/// Estimates the tokens of a reply.
pub fn estimate_reply(reply: &Reply) -> u64 {
    estimate_tokens(&reply.reasoning) + estimate_message(&reply.message())
}

/// Estimates the tokens of a message.
pub fn estimate_message(message: &Message) -> u64 {
    let content = match message {
        Message::User {
            content: Content::Parts(parts),
        } => parts.iter().map(estimate_part).sum(),
        Message::Assistant(assistant) => {
            let old = assistant.function_call.iter();
            let old = old.map(|call| (&call.name, &call.arguments));
            let new = assistant.tool_calls.iter();
            let new = new.map(|call| (&call.name, &call.arguments));
            let calls = old.chain(new).map(|(name, arguments)| {
                TOKENS_PER_MESSAGE + estimate_tokens(name) + estimate_tokens(arguments)
            });
            estimate_tokens(&assistant.content) + calls.sum::<u64>()
        }
        other => estimate_tokens(&other.text()),
    };
    TOKENS_PER_MESSAGE + content
}

fn estimate_part(part: &Part) -> u64 {
    match part {
        Part::Text { text } => estimate_tokens(text),
        Part::ImageUrl { .. } => TOKENS_PER_IMAGE,
    }
}
