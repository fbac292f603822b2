//! The messages of a conversation, and how they are shortened to fit the model's context.

use super::summary::{AttemptNote, SessionOverview, Summary};
use cellblock_model::{Content, Message, Part, estimate_message, estimate_messages};
use cellblock_protocol::Locale;

/// The rounds at the end that are not shortened.
const WHOLE_ROUNDS: usize = 3;
/// The characters that are left of an old observation.
const SHORTENED_CHARS: usize = 600;

/// A conversation: the system prompt, questions, and rounds.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConversationHistory {
    system: String,
    system_tokens: u64,
    entries: Vec<HistoryPart>,
    summary: Summary,
}

/// A part of the conversation with its estimated tokens, so that a step does not count the whole conversation again.
#[derive(Clone, Debug)]
struct HistoryPart {
    content: PartContent,
    tokens: u64,
}

#[derive(Clone, Debug)]
enum PartContent {
    Question(Message),
    Round(Round),
}

impl HistoryPart {
    fn new(content: PartContent) -> HistoryPart {
        let tokens = content.tokens();
        HistoryPart { content, tokens }
    }

    fn is_question(&self) -> bool {
        matches!(self.content, PartContent::Question(_))
    }

    /// Shortens a question, or the results of a round.
    fn shorten(&mut self, max_chars: usize) {
        match &mut self.content {
            PartContent::Question(question) => shorten(question, max_chars),
            PartContent::Round(round) => {
                for message in &mut round.results {
                    shorten(message, max_chars);
                }
            }
        }
        self.tokens = self.content.tokens();
    }
}

impl PartContent {
    fn tokens(&self) -> u64 {
        match self {
            PartContent::Question(question) => estimate_message(question),
            PartContent::Round(round) => {
                estimate_message(&round.reply) + estimate_messages(&round.results)
            }
        }
    }
}

/// A reply with the results of its actions. The two are shortened or dropped together, so a call is never separated from its result.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    /// The reply of the model.
    pub(crate) reply: Message,
    /// The results of its actions. Empty after an answer.
    pub(crate) results: Vec<Message>,
    /// The actions and their results in one line each, for the summary when the round is dropped.
    pub(crate) notes: Vec<AttemptNote>,
}

/// Whether a conversation fits a budget of tokens.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// The conversation fits as it is.
    Fits,
    /// The conversation was shortened and fits now.
    Shortened(TokenChange),
    /// Rounds must be dropped. The caller reads the session for the summary, and calls [`ConversationHistory::summarize`].
    NeedsSummary,
}

/// The estimated tokens of a conversation before and after it was shortened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TokenChange {
    pub(crate) before: u64,
    pub(crate) after: u64,
}

impl ConversationHistory {
    /// Sets the system prompt.
    pub(crate) fn set_system(&mut self, system: String) {
        self.system_tokens = estimate_message(&Message::system(system.as_str()));
        self.system = system;
    }

    /// The estimated tokens of the system prompt.
    pub(crate) fn system_tokens(&self) -> u64 {
        self.system_tokens
    }

    /// Adds a question.
    pub(crate) fn ask(&mut self, question: &str) {
        let question = PartContent::Question(Message::user(question));
        self.entries.push(HistoryPart::new(question));
    }

    /// Adds a round.
    pub(crate) fn push(&mut self, round: Round) {
        self.entries
            .push(HistoryPart::new(PartContent::Round(round)));
    }

    /// All messages in order. The summary comes after the first question, in place of the rounds that it replaces.
    pub(crate) fn messages(&self, locale: Locale) -> Vec<Message> {
        let mut messages = vec![Message::system(self.system.clone())];
        let summary = self.summary.text(locale);
        let mut has_summary = summary.is_empty();
        for entry in &self.entries {
            match &entry.content {
                PartContent::Question(question) => {
                    messages.push(question.clone());
                    if !has_summary {
                        messages.push(Message::user(summary.clone()));
                        has_summary = true;
                    }
                }
                PartContent::Round(round) => {
                    messages.push(round.reply.clone());
                    messages.extend(round.results.iter().cloned());
                }
            }
        }
        messages
    }

    /// The estimated tokens of all messages.
    pub(crate) fn tokens(&self, locale: Locale) -> u64 {
        let entries: u64 = self.entries.iter().map(|entry| entry.tokens).sum();
        self.system_tokens + entries + self.summary_tokens(locale)
    }

    fn summary_tokens(&self, locale: Locale) -> u64 {
        let summary = self.summary.text(locale);
        // It stands after the first question.
        if summary.is_empty() || !self.entries.iter().any(HistoryPart::is_question) {
            return 0;
        }
        estimate_message(&Message::user(summary))
    }

    /// Shortens old results where the conversation is larger than the budget. It shortens more than is needed at once, so that the next
    /// requests begin with the same text and the provider's cache can be used.
    pub(crate) fn fit(&mut self, budget: u64, locale: Locale) -> Fit {
        let before = self.tokens(locale);
        if before <= budget {
            return Fit::Fits;
        }
        let target = budget / 10 * 7;
        let old = self.old_rounds();
        let mut after = before;
        for index in old {
            if after <= target {
                break;
            }
            if let Some(entry) = self.entries.get_mut(index) {
                let had = entry.tokens;
                entry.shorten(SHORTENED_CHARS);
                after = after - had + entry.tokens;
            }
        }
        if after <= budget {
            Fit::Shortened(TokenChange { before, after })
        } else {
            Fit::NeedsSummary
        }
    }

    /// Replaces the oldest rounds by the summary until the rest fits. The last rounds and earlier questions are shortened only if that is
    /// not enough. The current question stays whole.
    pub(crate) fn summarize(
        &mut self,
        budget: u64,
        session: SessionOverview,
        locale: Locale,
    ) -> TokenChange {
        let before = self.tokens(locale);
        let target = budget / 10 * 7;
        self.summary.set_session(session, budget / 4);
        while self.tokens(locale) > target {
            let Some(index) = self.old_rounds().next() else {
                break;
            };
            if let PartContent::Round(round) = self.entries.remove(index).content {
                self.summary.add(round.notes);
            }
            self.drop_answered_question(index);
        }
        let goal = self.entries.iter().rposition(HistoryPart::is_question);
        let mut max_chars = 20_000;
        while self.tokens(locale) > budget && max_chars > 100 {
            for (index, entry) in self.entries.iter_mut().enumerate() {
                match entry.is_question() {
                    // Half of a question cannot be answered.
                    true if Some(index) == goal => {}
                    true if max_chars < 2_000 => entry.shorten(max_chars * 4),
                    true => {}
                    false => entry.shorten(max_chars),
                }
            }
            max_chars /= 2;
        }
        TokenChange {
            before,
            after: self.tokens(locale),
        }
    }

    /// The indices of the rounds that may be shortened or dropped, the oldest first.
    fn old_rounds(&self) -> impl Iterator<Item = usize> + use<> {
        let rounds: Vec<usize> = self
            .entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| !entry.is_question())
            .map(|(index, _)| index)
            .collect();
        let old = rounds.len().saturating_sub(WHOLE_ROUNDS);
        rounds.into_iter().take(old)
    }

    /// Drops a question into the summary, if all its rounds were dropped and another question follows.
    fn drop_answered_question(&mut self, index: usize) {
        let Some(before) = index.checked_sub(1) else {
            return;
        };
        let is_question = |index: usize| {
            self.entries
                .get(index)
                .is_some_and(HistoryPart::is_question)
        };
        let is_done = is_question(before) && is_question(index);
        if is_done && let PartContent::Question(question) = self.entries.remove(before).content {
            let text: String = question.text().chars().take(300).collect();
            self.summary.add(vec![AttemptNote {
                line: format!("earlier question: {text}"),
                failed: false,
            }]);
        }
    }
}

/// Cuts the middle out of a message's text, and drops its pictures.
fn shorten(message: &mut Message, max_chars: usize) {
    match message {
        Message::System { content }
        | Message::Tool { content, .. }
        | Message::Function { content, .. } => {
            cut_middle(content, max_chars);
        }
        Message::User { content } => match content {
            Content::Text(text) => cut_middle(text, max_chars),
            Content::Parts(parts) => {
                let mut text = String::new();
                for part in parts.iter() {
                    if let Part::Text { text: more } = part {
                        text.push_str(more);
                    }
                }
                cut_middle(&mut text, max_chars);
                *content = Content::Text(text);
            }
        },
        Message::Assistant(_) => {}
    }
}

/// Cuts the middle out of a text, and notes how much is missing.
pub(crate) fn cut_middle(text: &mut String, max_chars: usize) {
    // A text never has more characters than bytes.
    if text.len() <= max_chars {
        return;
    }
    let length = text.chars().count();
    if length <= max_chars + 60 {
        return;
    }
    let half = max_chars / 2;
    let at = |index: usize| {
        text.char_indices()
            .nth(index)
            .map_or(text.len(), |(at, _)| at)
    };
    let cut = format!(
        "{}\n[… {} characters left out …]\n{}",
        &text[..at(half)],
        length - 2 * half,
        &text[at(length - half)..]
    );
    *text = cut;
}
