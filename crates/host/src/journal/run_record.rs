//! What a run of the agent has beside its cells: a question, thoughts, and an answer.

use cellblock_session::journal::Journal;
use std::collections::BTreeMap;

/// A run, for its script and its notebook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunRecord {
    /// Its id.
    pub run: String,
    /// What was asked.
    pub question: String,
    /// What the model thought before a cell, by the number of the cell.
    pub thoughts: BTreeMap<u64, String>,
    /// What it answered.
    pub answer: Option<String>,
}

impl RunRecord {
    /// What the cells gave that stands in the answer: the answer itself, or the numbers in it.
    pub(super) fn basis(&self, journal: &Journal) -> Vec<String> {
        let mut given = String::new();
        for cell in journal.summary().kept() {
            let Some(ended) = &cell.ended else {
                continue;
            };
            let value = ended.result.value.as_ref();
            given.push_str(&ended.result.stdout);
            given.push('\n');
            given.push_str(value.map_or("", |value| value.repr.as_str()));
            given.push('\n');
        }
        let answer = self.answer.as_deref().unwrap_or_default().trim();
        if !answer.is_empty() && given.contains(answer) {
            return vec![answer.to_owned()];
        }
        let mut basis: Vec<String> = Vec::new();
        for number in numbers(answer) {
            if stands_in(number, &given) && !basis.iter().any(|known| known == number) {
                basis.push(number.to_owned());
            }
        }
        basis
    }
}

fn numbers(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_digit() && c != '.');
    let words = words.map(|word| word.trim_matches('.'));
    words.filter(|word| !word.is_empty())
}

/// Whether a number stands somewhere, and not as a part of a longer one.
fn stands_in(number: &str, text: &str) -> bool {
    numbers(text).any(|other| other == number)
}
