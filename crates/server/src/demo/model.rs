//! The model of the demonstration: it gives recorded replies to the questions that it knows.

use super::script::{self, Script};
use cellblock_model::{
    Capabilities, Content, Message, Model, Part, Reply, ReplyEvent, ReplyStream, Request, Usage,
};
use futures_util::stream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The name of the model, as pages show it.
pub(super) const MODEL_NAME: &str = "recorded";
/// The characters that come at once.
const PIECE_CHARS: usize = 12;
/// What comes before the list of known questions, for a question that has no recorded reply.
const UNKNOWN: &str = "This demonstration has no model behind it: its replies were recorded, and only the code is real. \
    Start the server with `cellblock serve --model NAME` to ask anything. Recorded are the replies to:";

/// A model with recorded replies. It streams them with pauses, as an endpoint does.
#[derive(Debug)]
pub(super) struct RecordedModel {
    scripts: Vec<Script>,
    capabilities: Capabilities,
    pause_ms: Arc<AtomicU64>,
}

impl RecordedModel {
    /// The model, and the pause between two pieces of a reply in milliseconds.
    pub(super) fn new(pause_ms: Arc<AtomicU64>) -> RecordedModel {
        RecordedModel {
            scripts: script::all(),
            capabilities: Capabilities {
                context_tokens: 128_000,
                ..Capabilities::default()
            },
            pause_ms,
        }
    }

    /// The reply to the last question of a conversation, after the replies that it has had already.
    fn reply_to(&self, messages: &[Message]) -> String {
        let at = last_question(messages);
        let question = messages.get(at).map(text_of).unwrap_or_default();
        let done = messages[at.min(messages.len())..]
            .iter()
            .filter(|message| matches!(message, Message::Assistant(_)))
            .count();
        // A chat that was branched off tells its earlier questions in front of the new one.
        let places = self
            .scripts
            .iter()
            .filter_map(|script| Some((question.rfind(script.question)?, script)));
        let found = places
            .max_by_key(|(place, _)| *place)
            .map(|(_, script)| script);
        match found {
            Some(script) => script
                .replies
                .get(done.min(script.replies.len().saturating_sub(1)))
                .copied()
                .unwrap_or_default()
                .to_owned(),
            None => {
                let known = self
                    .scripts
                    .iter()
                    .map(|script| format!("\n- {}", script.question));
                format!("{UNKNOWN}\n{}", known.collect::<String>())
            }
        }
    }
}

impl Model for RecordedModel {
    fn name(&self) -> &str {
        MODEL_NAME
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn stream(&self, request: Request) -> ReplyStream {
        let text = self.reply_to(&request.messages);
        let read: usize = request
            .messages
            .iter()
            .map(|message| text_of(message).len())
            .sum();
        let reply = Reply {
            usage: Usage {
                input_tokens: read as u64 / 4,
                output_tokens: text.len() as u64 / 4,
                estimated: true,
                ..Usage::default()
            },
            ..Reply::text(text.clone())
        };
        let letters: Vec<char> = text.chars().collect();
        let pieces = letters.chunks(PIECE_CHARS).map(|piece| ReplyEvent::Text {
            text: piece.iter().collect(),
        });
        let events: Vec<ReplyEvent> = pieces.chain([ReplyEvent::Finished { reply }]).collect();
        let pause = Duration::from_millis(self.pause_ms.load(Ordering::Relaxed));
        Box::pin(stream::unfold(
            events.into_iter(),
            move |mut events| async move {
                let event = events.next()?;
                if !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
                Some((Ok(event), events))
            },
        ))
    }
}

/// Where the last question stands. A message of the user after code is what came of the code, and no question.
fn last_question(messages: &[Message]) -> usize {
    let mut ran_code = false;
    let mut found = messages.len();
    for (index, message) in messages.iter().enumerate() {
        match message {
            Message::Assistant(assistant) => ran_code = assistant.content.contains("```python"),
            Message::User { .. } if !ran_code => found = index,
            _ => {}
        }
    }
    found
}

fn text_of(message: &Message) -> String {
    match message {
        Message::System { content } => content.clone(),
        Message::User {
            content: Content::Text(text),
        } => text.clone(),
        Message::User {
            content: Content::Parts(parts),
        } => {
            let texts = parts.iter().filter_map(|part| match part {
                Part::Text { text } => Some(text.as_str()),
                Part::ImageUrl { .. } => None,
            });
            texts.collect::<Vec<_>>().join("\n")
        }
        Message::Assistant(assistant) => assistant.content.clone(),
        Message::Tool { content, .. } | Message::Function { content, .. } => content.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::RecordedModel;
    use cellblock_model::{Message, Reply};
    use std::sync::Arc;

    #[test]
    fn replies_follow_the_last_question() {
        let model = RecordedModel::new(Arc::default());
        let [first, second] = [&model.scripts[0], &model.scripts[1]];
        let mut messages = vec![Message::user(first.question)];
        for expected in first.replies.clone() {
            assert_eq!(model.reply_to(&messages), expected);
            messages.push(Reply::text(expected).message());
            if expected.contains("```python") {
                messages.push(Message::user("what came of it"));
            }
        }
        messages.push(Message::user(second.question));
        assert_eq!(model.reply_to(&messages), second.replies[0]);
    }

    #[test]
    fn an_unknown_question_is_answered_with_the_known_ones() {
        let model = RecordedModel::new(Arc::default());
        let reply = model.reply_to(&[Message::user("Who are you?")]);
        for script in &model.scripts {
            assert!(reply.contains(script.question), "{reply}");
        }
    }
}
