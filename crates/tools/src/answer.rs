//! What a call came to.

use crate::{Failure, Output, Part};
use cellblock_protocol::Locale;
use std::time::Duration;

/// The answer to a call. There is always one.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The id of the call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// What came of it.
    pub outcome: Result<Output, Failure>,
    /// What the model should be told beside it: that a person edited the call, for example.
    pub notes: Vec<String>,
    /// How long it took, with the time that a person needed to decide.
    pub took: Duration,
}

impl Answer {
    /// Whether there is an output.
    pub fn is_ok(&self) -> bool {
        self.outcome.is_ok()
    }

    /// The text that a model reads, at most about `budget` characters. Pictures are in [`attachments`](Answer::attachments).
    pub fn for_model(&self, locale: Locale, budget: usize) -> String {
        let text = match &self.outcome {
            Ok(output) => shorten(output.to_text(), budget),
            // What a person says to the model is no failure of the tool.
            Err(failure @ Failure::Answered { .. }) => failure.to_string(),
            Err(failure) => match locale {
                Locale::En => format!("Tool call failed: {failure}"),
                Locale::Zh => format!("工具函数调用失败, 错误信息: {failure}"),
            },
        };
        let mut lines = self.notes.clone();
        lines.push(text);
        lines.join("\n")
    }

    /// The pictures and documents of the output, in order.
    pub fn attachments(&self) -> impl Iterator<Item = &Part> {
        let parts = self.outcome.as_ref().map(|output| output.parts.as_slice());
        parts
            .unwrap_or_default()
            .iter()
            .filter(|part| part.as_text().is_none())
    }
}

/// The beginning and the end of a text that is too long, and how much is missing between them.
pub(crate) fn shorten(text: String, budget: usize) -> String {
    if text.len() <= budget {
        return text;
    }
    let length = text.chars().count();
    if length <= budget {
        return text;
    }
    let half = budget / 2;
    let at = |index: usize| {
        text.char_indices()
            .nth(index)
            .map_or(text.len(), |(at, _)| at)
    };
    let left_out = length - 2 * half;
    format!(
        "{}\n[… {left_out} characters left out …]\n{}",
        &text[..at(half)],
        &text[at(length - half)..]
    )
}
