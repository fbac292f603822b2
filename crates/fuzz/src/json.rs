//! JSON that looks like messages of ours, with something wrong in it now and then.

use crate::choices::Choices;
use serde_json::{Map, Value, json};

/// Any value, nested at most so deep.
pub(crate) fn any(choices: &mut Choices<'_>, depth: usize) -> Value {
    match choices.below(if depth == 0 { 6 } else { 8 }) {
        0 => Value::Null,
        1 => json!(choices.one_in(2)),
        2 => json!(choices.number()),
        3 => json!(choices.number() as i64),
        4 => json!(f64::from_bits(choices.number())),
        5 => json!(text(choices)),
        6 => (0..choices.below(5))
            .map(|_| any(choices, depth - 1))
            .collect(),
        _ => {
            let entry = |choices: &mut Choices<'_>| (text(choices), any(choices, depth - 1));
            let entries: Map<String, Value> =
                (0..choices.below(5)).map(|_| entry(choices)).collect();
            entries.into()
        }
    }
}

/// A short text; sometimes a long or a strange one.
pub(crate) fn text(choices: &mut Choices<'_>) -> String {
    match choices.below(8) {
        0 => "a".to_owned(),
        1 => String::new(),
        2 => "x".repeat(choices.below(5_000)),
        3 => "\u{0}\u{1b}[31m\u{202e}\n\r\t".to_owned(),
        4 => "😀é".repeat(choices.below(20)),
        5 => choices
            .pick(&["../../etc/passwd", "/", "-1", "NaN", "null", "{}", "s1"])
            .to_owned(),
        _ => (0..choices.below(12))
            .map(|_| char::from(choices.byte()))
            .collect(),
    }
}

/// An object with these fields. Each may be left out, or be something else than it should.
pub(crate) fn object<'f>(
    choices: &mut Choices<'_>,
    fields: impl IntoIterator<Item = (&'f str, Value)>,
) -> Map<String, Value> {
    let mut object = Map::new();
    for (name, value) in fields {
        match choices.below(12) {
            10 => {}
            11 => drop(object.insert(name.to_owned(), any(choices, 3))),
            _ => drop(object.insert(name.to_owned(), value)),
        }
    }
    if choices.one_in(10) {
        object.insert(text(choices), any(choices, 2));
    }
    object
}

/// The text of a value, sometimes with a few bytes changed.
pub(crate) fn bytes(value: &Value, choices: &mut Choices<'_>) -> Vec<u8> {
    let mut bytes = value.to_string().into_bytes();
    if choices.one_in(6) {
        crate::choices::spoil(&mut bytes, choices);
    }
    bytes
}
