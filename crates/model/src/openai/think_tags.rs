//! Reasoning that a model writes at the beginning of its text, between `<think>` and `</think>`.
//!
//! Servers that know the model send the reasoning apart. Others send it as part of the text.

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// Separates reasoning from text while both are streamed.
#[derive(Default)]
pub(super) struct ThinkTagSplitter {
    state: TagState,
    held: String,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum TagState {
    /// Only white space so far.
    #[default]
    Before,
    Inside,
    /// White space after the closing tag is dropped.
    JustAfter,
    After,
}

/// A piece of text or of reasoning.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReplyPiece {
    Text(String),
    Reasoning(String),
}

impl ThinkTagSplitter {
    /// Adds text, and returns the pieces that are certain. What may be half a tag is held back.
    pub(super) fn push(&mut self, text: &str) -> Vec<ReplyPiece> {
        if self.state == TagState::After {
            return vec![ReplyPiece::Text(text.to_owned())];
        }
        self.held.push_str(text);
        let mut pieces = Vec::new();
        while self.step(&mut pieces) {}
        pieces
    }

    /// Ends the stream, and returns what was held back.
    pub(super) fn finish(&mut self) -> Option<ReplyPiece> {
        let held = std::mem::take(&mut self.held);
        if held.is_empty() {
            return None;
        }
        Some(match self.state {
            TagState::Inside => ReplyPiece::Reasoning(held),
            _ => ReplyPiece::Text(held),
        })
    }

    fn step(&mut self, pieces: &mut Vec<ReplyPiece>) -> bool {
        match self.state {
            TagState::Before => {
                let start = self.held.trim_start();
                if let Some(rest) = start.strip_prefix(OPEN) {
                    self.held = rest.to_owned();
                    self.state = TagState::Inside;
                    return true;
                }
                if !OPEN.starts_with(start) {
                    self.state = TagState::After;
                    pieces.push(ReplyPiece::Text(std::mem::take(&mut self.held)));
                }
                false
            }
            TagState::Inside => {
                if let Some((thought, rest)) = self.held.split_once(CLOSE) {
                    push_reasoning(pieces, thought);
                    self.held = rest.to_owned();
                    self.state = TagState::JustAfter;
                    return true;
                }
                let whole = self.held.len() - partial_tag_bytes(&self.held);
                let rest = self.held.split_off(whole);
                push_reasoning(pieces, &std::mem::replace(&mut self.held, rest));
                false
            }
            TagState::JustAfter => {
                let text = self.held.trim_start();
                if !text.is_empty() {
                    pieces.push(ReplyPiece::Text(text.to_owned()));
                    self.state = TagState::After;
                }
                self.held.clear();
                false
            }
            TagState::After => false,
        }
    }
}

fn push_reasoning(pieces: &mut Vec<ReplyPiece>, text: &str) {
    if !text.is_empty() {
        pieces.push(ReplyPiece::Reasoning(text.to_owned()));
    }
}

/// The number of bytes at the end that may be the beginning of the closing tag.
fn partial_tag_bytes(text: &str) -> usize {
    let possible = (1..CLOSE.len()).rev();
    possible
        .into_iter()
        .find(|&length| text.ends_with(&CLOSE[..length]))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(pieces: &[&str]) -> (String, String) {
        let mut thinking = ThinkTagSplitter::default();
        let mut found: Vec<ReplyPiece> = Vec::new();
        for piece in pieces {
            found.extend(thinking.push(piece));
        }
        found.extend(thinking.finish());
        let (mut reasoning, mut text) = (String::new(), String::new());
        for piece in found {
            match piece {
                ReplyPiece::Reasoning(piece) => reasoning += &piece,
                ReplyPiece::Text(piece) => text += &piece,
            }
        }
        (reasoning, text)
    }

    #[test]
    fn reasoning_at_the_beginning_is_taken_out() {
        let expected = ("two\nis 2".to_owned(), "It is 2.".to_owned());
        assert_eq!(
            split(&["<thi", "nk>two\nis 2</th", "ink>\n\n", "It is 2."]),
            expected
        );
    }

    #[test]
    fn an_unclosed_thought_is_a_thought() {
        assert_eq!(split(&["<think>hm </thi"]).0, "hm </thi");
    }

    proptest! {
        #[test]
        fn other_text_stays_as_it_is(text in "[^<]{1,3}[a-z<>/ ]{0,30}", cut in 0usize..8) {
            prop_assume!(!text.trim_start().starts_with('<'));
            let cut = (0..=cut.min(text.len())).rev().find(|&cut| text.is_char_boundary(cut)).unwrap_or(0);
            let (a, b) = text.split_at(cut);
            prop_assert_eq!(split(&[a, b]), (String::new(), text.clone()));
        }
    }
}
