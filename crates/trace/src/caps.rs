//! How much of a value is written.

use serde_json::{Map, Value};

/// The most that is kept of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Characters of a text.
    pub characters: usize,
    /// Fields of an object, a span or an event.
    pub fields: usize,
    /// Items of a list.
    pub items: usize,
}

/// How deep values are followed.
const DEPTH: usize = 8;

impl Default for Caps {
    fn default() -> Self {
        Self {
            characters: 500,
            fields: 10,
            items: 20,
        }
    }
}

impl Caps {
    /// The value, cut to size. What was left out is said in its place.
    pub fn cut(&self, value: Value) -> Value {
        self.cut_to(value, DEPTH)
    }

    /// The text, cut to size.
    pub fn cut_text(&self, text: &str) -> String {
        let Some((end, _)) = text.char_indices().nth(self.characters) else {
            return text.to_owned();
        };
        let left_out = text[end..].chars().count();
        format!("{}… ({left_out} more characters)", &text[..end])
    }

    fn cut_to(&self, value: Value, depth: usize) -> Value {
        match value {
            Value::String(text) => Value::String(self.cut_text(&text)),
            Value::Array(_) | Value::Object(_) if depth == 0 => Value::String("…".into()),
            Value::Array(items) => {
                let more = items.len().saturating_sub(self.items);
                let kept = items.into_iter().take(self.items);
                let mut kept: Vec<_> = kept.map(|item| self.cut_to(item, depth - 1)).collect();
                if more > 0 {
                    kept.push(Value::String(format!("… ({more} more items)")));
                }
                Value::Array(kept)
            }
            Value::Object(map) => {
                let more = map.len().saturating_sub(self.fields);
                let kept = map.into_iter().take(self.fields);
                let mut kept: Map<_, _> = kept
                    .map(|(key, item)| (self.cut_text(&key), self.cut_to(item, depth - 1)))
                    .collect();
                if more > 0 {
                    kept.insert("…".into(), Value::String(format!("{more} more fields")));
                }
                Value::Object(kept)
            }
            other => other,
        }
    }
}
