//! How much memory a JSON text takes once it is parsed, and parsing within a bound.
//!
//! A peer decides what is in a message. Three bytes of JSON (`[],`) become some hundred bytes of [`Value`], so
//! a bound on bytes alone bounds nothing.

use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io::BufRead as _;

/// About how many bytes a JSON text takes in memory when it is parsed into a [`Value`], rather more than less.
///
/// Reads the text once and allocates nothing. The text need not be valid JSON.
pub fn memory_when_parsed(text: &str) -> usize {
    let mut memory = JsonMemory::default();
    memory.add(text.as_bytes());
    memory.bytes()
}

/// Parses a JSON text of a peer, unless its values take more than `max` bytes in memory: then nothing is parsed.
///
/// The bytes of the text itself need a bound of their own.
pub fn parse_json_within<T: DeserializeOwned>(text: &[u8], max: usize) -> Result<T, JsonError> {
    match is_parsed_within(text, max) {
        true => Ok(serde_json::from_slice(text)?),
        false => Err(JsonError::TooManyValues { max }),
    }
}

/// Why a text was not parsed by [`parse_json_within`].
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// Its values take more memory than they may.
    #[error("its values would take more than {} MiB of memory", .max >> 20)]
    TooManyValues {
        /// How many bytes they may take.
        max: usize,
    },
    /// It is no JSON, or has another form.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// Whether a JSON text takes at most `max` bytes in memory when it is parsed. Reads no further than it must.
pub(crate) fn is_parsed_within(text: &[u8], max: usize) -> bool {
    let mut memory = JsonMemory::default();
    memory.add_until(text, max);
    memory.bytes() <= max
}

const VALUE: usize = size_of::<Value>();
/// A list has room for four values at first. It grows by doubling, so each further value may take the room of two.
const LIST: usize = 4 * VALUE + ALLOCATION;
const NEXT_VALUE: usize = 2 * VALUE;
/// An entry of an object has a key, a value and two numbers.
const ENTRY: usize = size_of::<String>() + VALUE + 16;
const OBJECT: usize = 4 * ENTRY + 2 * ALLOCATION;
const NEXT_ENTRY: usize = 2 * ENTRY;
/// The bytes that the allocator takes for itself.
const ALLOCATION: usize = 32;

/// Counts what a JSON text takes in memory when it is parsed, while the text comes in pieces.
///
/// For texts that are handed to a parser that cannot be asked to stop: the count is known before the text is whole.
#[derive(Clone, Debug, Default)]
pub struct JsonMemory {
    bytes: usize,
    /// One bit for each list (0) and object (1) that is open, the innermost last. `serde_json` parses nothing that
    /// is nested deeper than the 128 bits.
    open_objects: u128,
    is_string: bool,
    /// Whether an odd number of backslashes stands at the end of what came of a string.
    is_escaped: bool,
}

impl JsonMemory {
    /// Counts the next piece of the text.
    pub fn add(&mut self, piece: &[u8]) {
        self.add_until(piece, usize::MAX);
    }

    /// About how many bytes the text so far takes, rather more than less.
    pub fn bytes(&self) -> usize {
        VALUE + self.bytes
    }

    /// Counts the next piece, up to the place where the text takes more than `enough`.
    fn add_until(&mut self, piece: &[u8], enough: usize) {
        let mut at = 0;
        while let Some(byte) = piece.get(at)
            && self.bytes() <= enough
        {
            if self.is_string {
                at += self.add_string(&piece[at..]);
                continue;
            }
            at += 1;
            self.bytes += match byte {
                b'{' => {
                    self.open_objects = self.open_objects << 1 | 1;
                    OBJECT
                }
                b'[' => {
                    self.open_objects <<= 1;
                    LIST
                }
                b'}' | b']' => {
                    self.open_objects >>= 1;
                    0
                }
                b',' if self.open_objects & 1 == 1 => NEXT_ENTRY,
                b',' => NEXT_VALUE,
                b'"' => {
                    self.is_string = true;
                    ALLOCATION
                }
                _ => 0,
            };
        }
    }

    /// Counts a piece of a string up to the next quotation mark, and returns how many bytes that are.
    ///
    /// Goes to the quotation mark by `skip_until`, which the standard library does many bytes at a time.
    fn add_string(&mut self, piece: &[u8]) -> usize {
        // A slice is read without errors.
        let read = { piece }.skip_until(b'"').unwrap_or(piece.len());
        let text = piece[..read].strip_suffix(b"\"").unwrap_or(&piece[..read]);
        let backslashes = text.iter().rev().take_while(|byte| **byte == b'\\').count();
        let is_escaped = match backslashes == text.len() {
            true => self.is_escaped != (backslashes % 2 == 1),
            false => backslashes % 2 == 1,
        };
        let is_end = text.len() < read && !is_escaped;
        self.bytes += if is_end { text.len() } else { read };
        self.is_string = !is_end;
        self.is_escaped = is_escaped && text.len() == read;
        read
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use serde_json::json;

    /// The bytes that a value takes, counted as the allocator would.
    fn memory_of(value: &Value) -> usize {
        match value {
            Value::String(text) => text.len(),
            Value::Array(items) if items.is_empty() => 0,
            Value::Array(items) => {
                items.capacity() * VALUE + items.iter().map(memory_of).sum::<usize>()
            }
            Value::Object(map) if map.is_empty() => 0,
            Value::Object(map) => {
                let room = map.len().next_power_of_two().max(4);
                let entries = map.iter().map(|(key, item)| key.len() + memory_of(item));
                room * ENTRY + entries.sum::<usize>()
            }
            _ => 0,
        }
    }

    #[test]
    fn a_text_is_never_taken_for_less_memory_than_its_value_takes() {
        let many = |item: Value| Value::Array(vec![item; 1000]);
        let values = [
            many(json!([])),
            many(json!({})),
            many(json!({"": 0})),
            many(json!([[0]])),
            many(json!([0, 0, 0, 0, 0])),
            many(json!("")),
            many(json!({"a": {"b": {"c": 1}}, "d": "text"})),
            json!("x".repeat(10_000)),
        ];
        for value in values {
            let text = value.to_string();
            let parsed: Value = serde_json::from_str(&text).unwrap();
            let (guess, real) = (memory_when_parsed(&text), memory_of(&parsed));
            assert!(guess >= real, "{guess} < {real}: {}", &text[..40]);
        }
    }

    #[test]
    fn what_stands_inside_a_string_is_no_structure() {
        let one = memory_when_parsed(r#""a""#);
        assert_eq!(memory_when_parsed(r#""\"{[,""#), one + 4);
        assert_eq!(
            memory_when_parsed(r#""\\",[]"#),
            one + 1 + NEXT_VALUE + LIST
        );
        assert_eq!(memory_when_parsed(r#""never ends {[,"#), one + 13);
    }

    #[test]
    fn a_text_beyond_the_bound_is_seen_early() {
        let text = "[],".repeat(1000);
        assert!(!is_parsed_within(text.as_bytes(), 10_000));
        let mut memory = JsonMemory::default();
        memory.add_until(text.as_bytes(), 10_000);
        assert!(memory.bytes() < 20_000);
        assert!(is_parsed_within(text.as_bytes(), memory_when_parsed(&text)));
    }

    #[test]
    fn a_text_in_pieces_is_counted_like_a_whole_one() {
        let text = br#"{"a\": ["b\"[,", "\", {}, [[]]], """: "\\"}, "never ends "#;
        let mut whole = JsonMemory::default();
        whole.add(text);
        for length in 1..text.len() {
            let mut pieces = JsonMemory::default();
            text.chunks(length).for_each(|piece| pieces.add(piece));
            assert_eq!(pieces.bytes(), whole.bytes(), "pieces of {length}");
        }
    }

    #[test]
    fn a_text_beyond_the_bound_is_not_parsed() {
        let text = "[[],[],[]]";
        let most = memory_when_parsed(text);
        let parsed: Value = parse_json_within(text.as_bytes(), most).unwrap();
        assert_eq!(parsed, json!([[], [], []]));
        let refused = parse_json_within::<Value>(text.as_bytes(), most - 1);
        assert!(matches!(refused, Err(JsonError::TooManyValues { .. })));
    }
}
