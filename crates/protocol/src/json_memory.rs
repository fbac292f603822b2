//! How much memory a JSON text takes once it is parsed.
//!
//! Code in a session decides what is in a frame. Three bytes of JSON (`[],`) become some hundred bytes
//! of [`Value`], so a bound on bytes alone bounds nothing.

use serde_json::Value;

/// About how many bytes a JSON text takes in memory when it is parsed into a [`Value`], rather more than less.
///
/// Reads the text once and allocates nothing. The text need not be valid JSON.
pub fn memory_when_parsed(text: &str) -> usize {
    count(text, usize::MAX)
}

/// Whether a JSON text takes at most `max` bytes in memory when it is parsed. Reads no further than it must.
pub(crate) fn is_parsed_within(text: &str, max: usize) -> bool {
    count(text, max) <= max
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

/// The memory of a text, or a number above `enough` as soon as that is reached.
fn count(text: &str, enough: usize) -> usize {
    let bytes = text.as_bytes();
    let mut memory = VALUE;
    let mut at = 0;
    // One bit for each list (0) and object (1) that is open, the innermost last. `serde_json` parses nothing that is
    // nested deeper than the 128 bits.
    let mut open_objects = 0u128;
    while let Some(byte) = bytes.get(at) {
        at += 1;
        memory += match byte {
            b'{' => {
                open_objects = open_objects << 1 | 1;
                OBJECT
            }
            b'[' => {
                open_objects <<= 1;
                LIST
            }
            b'}' | b']' => {
                open_objects >>= 1;
                0
            }
            b',' if open_objects & 1 == 1 => NEXT_ENTRY,
            b',' => NEXT_VALUE,
            b'"' => {
                let length = string_length(&text[at..]);
                at += length + 1;
                ALLOCATION + length
            }
            _ => 0,
        };
        if memory > enough {
            break;
        }
    }
    memory
}

/// How many bytes there are before the quotation mark that ends a string.
///
/// Goes from one quotation mark to the next by `find`, which the standard library does many bytes at a time.
fn string_length(text: &str) -> usize {
    let mut from = 0;
    while let Some(quote) = text[from..].find('"') {
        let end = from + quote;
        let before = text.as_bytes()[..end].iter().rev();
        let backslashes = before.take_while(|byte| **byte == b'\\').count();
        if backslashes.is_multiple_of(2) {
            return end;
        }
        from = end + 1;
    }
    text.len()
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
        assert!(!is_parsed_within(&text, 10_000));
        assert!(count(&text, 10_000) < 20_000);
        assert!(is_parsed_within(&text, memory_when_parsed(&text)));
    }
}
