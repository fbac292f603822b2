//! What is wrong with a configuration file: where, which key, and what was probably meant.

use crate::failure::Usage;
use std::path::Path;

/// A mistake in the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Problem {
    line: Option<usize>,
    section: Option<String>,
    message: String,
    hint: Option<String>,
}

impl Problem {
    pub(super) fn of(error: &toml::de::Error, text: &str) -> Problem {
        let at = error.span().map(|span| span.start.min(text.len()));
        let before = at.and_then(|at| text.get(..at)).unwrap_or_default();
        let message = error.message().trim().replace('\n', ", ");
        let unknown = message.strip_prefix("unknown field ").map(quoted);
        let (message, hint) = match unknown.as_deref() {
            Some([unknown, known @ ..]) => (
                format!("there is no key `{unknown}` here"),
                Some(match closest(unknown, known) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => format!("the keys are {}", known.join(", ")),
                }),
            ),
            _ => (message, None),
        };
        Problem {
            line: at.map(|_| before.matches('\n').count() + 1),
            section: section(text, before.len()),
            message,
            hint,
        }
    }

    pub(super) fn in_file(self, path: &Path) -> anyhow::Error {
        let mut place = path.display().to_string();
        if let Some(line) = self.line {
            place.push_str(&format!(":{line}"));
        }
        if let Some(section) = &self.section {
            place.push_str(&format!(": {section}"));
        }
        let message = format!("{place}: {}", self.message);
        match self.hint {
            Some(hint) => Usage::hinted(message, hint),
            None => Usage::plain(message),
        }
    }
}

/// The head of the table that a place is in.
fn section(text: &str, at: usize) -> Option<String> {
    let line_end = text[at..].find('\n').map_or(text.len(), |more| at + more);
    let heads = text[..line_end].lines().map(str::trim);
    let head = heads.rev().find(|line| line.starts_with('['))?;
    Some(head.split('#').next().unwrap_or(head).trim().to_owned())
}

/// The words between backticks.
fn quoted(text: &str) -> Vec<String> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// The known word that differs least, when it differs little.
fn closest(word: &str, known: &[String]) -> Option<String> {
    let scored = known.iter().map(|other| (distance(word, other), other));
    let (distance, best) = scored.min_by_key(|(distance, _)| *distance)?;
    let limit = (word.chars().count() / 3).max(1);
    (distance <= limit + 1).then(|| best.clone())
}

/// How many letters must be added, removed or changed.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, compared) in other.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *compared);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}
