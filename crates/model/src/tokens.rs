//! How many tokens a text has, roughly.
//!
//! Every model counts in its own way and keeps its own table. For a budget it is enough to be near and rather above than below.

use crate::{Content, Message, Part, Reply, Request};

/// Tokens that a message takes besides its text.
const PER_MESSAGE: u64 = 4;

/// Tokens of an image, as providers count one of medium size.
const PER_IMAGE: u64 = 1_000;

/// About how many tokens this text has.
///
/// ```
/// # use cellblock_model::estimate_tokens;
/// assert_eq!(estimate_tokens("The quick brown fox jumps over the lazy dog."), 12);
/// assert_eq!(estimate_tokens("敏捷的棕色狐狸"), 7);
/// ```
pub fn estimate_tokens(text: &str) -> u64 {
    // In eighths of a token.
    let eighths: u64 = text
        .chars()
        .map(|character| match character {
            'a'..='z' | 'A'..='Z' | ' ' => 2,
            // Some models count every digit.
            '0'..='9' => 6,
            '\0'..='\x7f' => 4,
            _ => 8,
        })
        .sum();
    eighths.div_ceil(8)
}

/// About how many tokens these messages have.
pub fn estimate_messages(messages: &[Message]) -> u64 {
    messages.iter().map(estimate_message).sum()
}

/// About how many tokens a request has, tools and schema included.
pub fn estimate_request(request: &Request) -> u64 {
    let tools = request
        .tools
        .iter()
        .map(|tool| estimate_tokens(&tool.to_string()));
    estimate_messages(&request.messages) + tools.sum::<u64>()
}

/// About how many tokens a reply has.
pub fn estimate_reply(reply: &Reply) -> u64 {
    estimate_tokens(&reply.reasoning) + estimate_message(&reply.message())
}

fn estimate_message(message: &Message) -> u64 {
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
                PER_MESSAGE + estimate_tokens(name) + estimate_tokens(arguments)
            });
            estimate_tokens(&assistant.content) + calls.sum::<u64>()
        }
        other => estimate_tokens(&other.text()),
    };
    PER_MESSAGE + content
}

fn estimate_part(part: &Part) -> u64 {
    match part {
        Part::Text { text } => estimate_tokens(text),
        Part::ImageUrl { .. } => PER_IMAGE,
    }
}
