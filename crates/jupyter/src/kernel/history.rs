//! The cells of a kernel, for `history_request`.

use crate::message::Message;
use serde_json::{Value, json};
use std::collections::VecDeque;

/// The most cells, and the most bytes of their texts, that are kept.
const MAX_CELLS: usize = 10_000;
const MAX_BYTES: usize = 32 << 20;
/// The number of this session in replies. A kernel knows no earlier ones.
const SESSION: u64 = 1;

#[derive(Debug, Default)]
pub(super) struct History {
    cells: VecDeque<HistoryCell>,
    bytes: usize,
}

#[derive(Debug)]
struct HistoryCell {
    count: u64,
    input: String,
    output: Option<String>,
}

impl HistoryCell {
    fn bytes(&self) -> usize {
        self.input.len() + self.output.as_ref().map_or(0, String::len)
    }

    fn entry(&self, with_output: bool) -> Value {
        match with_output {
            true => json!([SESSION, self.count, [self.input, self.output]]),
            false => json!([SESSION, self.count, self.input]),
        }
    }
}

impl History {
    /// Remembers a cell that was run, with the text of its value.
    pub(super) fn add(&mut self, count: u64, input: &str, output: Option<&str>) {
        let cell = HistoryCell {
            count,
            input: input.to_owned(),
            output: output.map(str::to_owned),
        };
        self.bytes += cell.bytes();
        self.cells.push_back(cell);
        while self.cells.len() > MAX_CELLS || self.bytes > MAX_BYTES && self.cells.len() > 1 {
            if let Some(oldest) = self.cells.pop_front() {
                self.bytes -= oldest.bytes();
            }
        }
    }

    /// The contents of the reply to a `history_request`.
    pub(super) fn answer(&self, request: &Message) -> Value {
        let with_output = request.flag("output", false);
        let limit = request
            .number("n")
            .and_then(|n| usize::try_from(n).ok())
            .unwrap_or(usize::MAX);
        let found: Vec<&HistoryCell> = match request.text("hist_access_type") {
            "range" => self.range(request),
            "search" => self.search(request.text("pattern"), request.flag("unique", false)),
            _ => self.cells.iter().collect(),
        };
        let first = match request.text("hist_access_type") {
            "range" => 0,
            _ => found.len().saturating_sub(limit),
        };
        let entries: Vec<Value> = found[first..]
            .iter()
            .map(|cell| cell.entry(with_output))
            .collect();
        json!({"status": "ok", "history": entries})
    }

    /// The cells from `start` to before `stop`; counts below zero are from the end.
    fn range(&self, request: &Message) -> Vec<&HistoryCell> {
        let session = request.number("session").unwrap_or(0);
        if session != 0 && session.unsigned_abs() != SESSION {
            return Vec::new();
        }
        let last = self.cells.back().map_or(0, |cell| cell.count);
        let from_end = |count: i64| match u64::try_from(count) {
            Ok(count) => count,
            Err(_) => (last + 1).saturating_sub(count.unsigned_abs()),
        };
        let start = request.number("start").map_or(0, from_end);
        let stop = request.number("stop").map_or(u64::MAX, from_end);
        let cells = self.cells.iter();
        cells
            .filter(|cell| (start..stop).contains(&cell.count))
            .collect()
    }

    fn search(&self, pattern: &str, unique: bool) -> Vec<&HistoryCell> {
        let pattern: Vec<char> = match pattern {
            "" => vec!['*'],
            pattern => pattern.chars().collect(),
        };
        let mut found: Vec<&HistoryCell> = Vec::new();
        for cell in &self.cells {
            if matches_pattern(&pattern, &cell.input) {
                if unique {
                    found.retain(|earlier| earlier.input != cell.input);
                }
                found.push(cell);
            }
        }
        found
    }
}

/// Whether a text fits a pattern in which `*` stands for any text and `?` for any character.
fn matches_pattern(pattern: &[char], text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    let (mut at, mut place) = (0, 0);
    // Where to go on when what follows the last `*` does not fit: one character further.
    let mut retry: Option<(usize, usize)> = None;
    while place < text.len() {
        match pattern.get(at) {
            Some('*') => {
                retry = Some((at + 1, place));
                at += 1;
            }
            Some(&wanted) if wanted == '?' || wanted == text[place] => {
                at += 1;
                place += 1;
            }
            _ => match retry {
                Some((after, from)) => {
                    retry = Some((after, from + 1));
                    at = after;
                    place = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_fits_as_a_shell_would_say() {
        let fits =
            |pattern: &str, text| matches_pattern(&pattern.chars().collect::<Vec<_>>(), text);
        assert!(fits("1+2*", "1+2+3"));
        assert!(fits("*", ""));
        assert!(fits("a*c?e", "abcxcde"));
        assert!(!fits("1+2*", "x = 1+2"));
        assert!(!fits("a?", "a"));
        assert!(!fits("*b", "ba"));
    }

    #[test]
    fn the_oldest_cells_are_forgotten_when_there_are_too_many() {
        let mut history = History::default();
        for count in 0..MAX_CELLS as u64 + 10 {
            history.add(count, "x", None);
        }
        assert_eq!(history.cells.len(), MAX_CELLS);
        history.add(0, &"x".repeat(MAX_BYTES), None);
        assert_eq!(history.cells.len(), 1);
    }
}
