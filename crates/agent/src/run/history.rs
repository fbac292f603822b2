//! The conversation with the model, and how it stays within its budget.

use super::summary::{Scene, Summary, Tried};
use cellblock_model::{Content, Message, Part, estimate_messages};
use cellblock_protocol::Locale;

/// Rounds at the end that stay whole.
const WHOLE: usize = 3;
/// What is left of an old observation, in characters.
const SHORTENED: usize = 600;

/// A conversation: the system prompt, questions, and rounds of a reply with what came of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    system: String,
    entries: Vec<Entry>,
    summary: Summary,
}

#[derive(Clone, Debug)]
enum Entry {
    Question(Message),
    Round(Round),
}

/// A reply with what came of it. The two are never torn apart.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    /// What the model said.
    pub(crate) said: Message,
    /// What came of it; nothing after an answer.
    pub(crate) observed: Vec<Message>,
    /// What was tried and what came of it, in one line each, for when the round is gone.
    pub(crate) digest: Vec<Tried>,
}

/// What a look at the budget came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// It fits as it is.
    Fits,
    /// It fits now.
    Shortened { before: u64, after: u64 },
    /// Rounds must go: a summary is needed, and for that a look at the session.
    NeedsScene,
}

impl History {
    pub(crate) fn set_system(&mut self, system: String) {
        self.system = system;
    }

    pub(crate) fn ask(&mut self, question: &str) {
        self.entries.push(Entry::Question(Message::user(question)));
    }

    pub(crate) fn push(&mut self, round: Round) {
        self.entries.push(Entry::Round(round));
    }

    /// Everything in order. The summary stands where the rounds were that it replaces: behind the first question.
    pub(crate) fn messages(&self, locale: Locale) -> Vec<Message> {
        let mut messages = vec![Message::system(self.system.clone())];
        let summary = self.summary.text(locale);
        let mut is_said = summary.is_empty();
        for entry in &self.entries {
            match entry {
                Entry::Question(question) => {
                    messages.push(question.clone());
                    if !is_said {
                        messages.push(Message::user(summary.clone()));
                        is_said = true;
                    }
                }
                Entry::Round(round) => {
                    messages.push(round.said.clone());
                    messages.extend(round.observed.iter().cloned());
                }
            }
        }
        messages
    }

    /// About how many tokens it has.
    pub(crate) fn tokens(&self, locale: Locale) -> u64 {
        estimate_messages(&self.messages(locale))
    }

    /// Shortens old observations where the conversation is larger than the budget. More is done than is needed at once, so
    /// that the next requests begin with the same text and the provider's cache is of use.
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
            if let Some(Entry::Round(round)) = self.entries.get_mut(index) {
                let had = estimate_messages(&round.observed);
                round
                    .observed
                    .iter_mut()
                    .for_each(|message| shorten(message, SHORTENED));
                after = after - had + estimate_messages(&round.observed);
            }
        }
        if after <= budget {
            Fit::Shortened { before, after }
        } else {
            Fit::NeedsScene
        }
    }

    /// Folds the oldest rounds into the summary until the rest fits; shortens the last ones and earlier questions only when nothing
    /// else is left. The question itself stays whole.
    pub(crate) fn fold(&mut self, budget: u64, scene: Scene, locale: Locale) -> (u64, u64) {
        let before = self.tokens(locale);
        let target = budget / 10 * 7;
        self.summary.see(scene, budget / 4);
        while self.tokens(locale) > target {
            let Some(index) = self.old_rounds().next() else {
                break;
            };
            if let Entry::Round(round) = self.entries.remove(index) {
                self.summary.take(round.digest);
            }
            self.drop_answered_question(index);
        }
        let is_question = |entry: &Entry| matches!(entry, Entry::Question(_));
        let goal = self.entries.iter().rposition(is_question);
        let mut room = 20_000;
        while self.tokens(locale) > budget && room > 100 {
            for (index, entry) in self.entries.iter_mut().enumerate() {
                match entry {
                    // An answer to half of a question is none.
                    Entry::Question(_) if Some(index) == goal => {}
                    Entry::Round(round) => {
                        round
                            .observed
                            .iter_mut()
                            .for_each(|message| shorten(message, room));
                    }
                    Entry::Question(question) if room < 2_000 => shorten(question, room * 4),
                    Entry::Question(_) => {}
                }
            }
            room /= 2;
        }
        (before, self.tokens(locale))
    }

    /// The rounds that may be shortened or folded, the oldest first.
    fn old_rounds(&self) -> impl Iterator<Item = usize> + use<> {
        let rounds: Vec<usize> = self
            .entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| matches!(entry, Entry::Round(_)))
            .map(|(index, _)| index)
            .collect();
        let old = rounds.len().saturating_sub(WHOLE);
        rounds.into_iter().take(old)
    }

    /// A question whose rounds are all folded away, and that another one follows, goes into the summary too.
    fn drop_answered_question(&mut self, index: usize) {
        let Some(before) = index.checked_sub(1) else {
            return;
        };
        let is_last_word = matches!(self.entries.get(before), Some(Entry::Question(_)))
            && matches!(self.entries.get(index), Some(Entry::Question(_)));
        if is_last_word && let Entry::Question(question) = self.entries.remove(before) {
            let text: String = question.text().chars().take(300).collect();
            self.summary.take(vec![Tried {
                line: format!("earlier question: {text}"),
                failed: false,
            }]);
        }
    }
}

/// Cuts the middle out of a message's text, and its pictures.
fn shorten(message: &mut Message, most: usize) {
    match message {
        Message::System { content }
        | Message::Tool { content, .. }
        | Message::Function { content, .. } => {
            cut_middle(content, most);
        }
        Message::User { content } => match content {
            Content::Text(text) => cut_middle(text, most),
            Content::Parts(parts) => {
                let mut text = String::new();
                for part in parts.iter() {
                    if let Part::Text { text: more } = part {
                        text.push_str(more);
                    }
                }
                cut_middle(&mut text, most);
                *content = Content::Text(text);
            }
        },
        Message::Assistant(_) => {}
    }
}

/// The beginning and the end of a text, and how much is missing between them.
pub(crate) fn cut_middle(text: &mut String, most: usize) {
    // In bytes there are never fewer than in characters.
    if text.len() <= most {
        return;
    }
    let length = text.chars().count();
    if length <= most + 60 {
        return;
    }
    let half = most / 2;
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
