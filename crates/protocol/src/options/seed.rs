//! Variables that a session begins with.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::json::invalid::{Invalid, shown_text};

/// Variables to begin with: names and JSON values. Bytes travel as `{"$bytes": "<base64>"}`.
pub type Seed = Map<String, Value>;

/// A seed value of bytes.
pub fn bytes_seed(contents: &[u8]) -> Value {
    let mut map = Map::new();
    map.insert(BYTES.to_owned(), Value::String(STANDARD.encode(contents)));
    Value::Object(map)
}

/// Checks that every name can be a Python variable and that every `$bytes` is base64.
pub fn validate_seed(seed: &Seed) -> Result<(), Invalid> {
    check_seed("seed", seed)
}

/// Validates a seed that stands in the field `field`, as [`validate_seed`] does.
pub(crate) fn check_seed(field: &str, seed: &Seed) -> Result<(), Invalid> {
    for (name, value) in seed {
        if !is_identifier(name) {
            return Err(Invalid::value(
                field,
                "names that are Python identifiers",
                shown_text(name),
            ));
        }
        if is_keyword(name) {
            return Err(Invalid::value(
                field,
                "names that are not Python keywords",
                shown_text(name),
            ));
        }
        if !bytes_are_base64(value) {
            let expected = "`{\"$bytes\": base64}` with valid, padded base64";
            return Err(Invalid::value(
                format!("{field}.{name}"),
                expected,
                "something else",
            ));
        }
    }
    Ok(())
}

const BYTES: &str = "$bytes";

/// Only at the top of a value: deeper down `$bytes` is a key like any other.
fn bytes_are_base64(value: &Value) -> bool {
    match value {
        Value::Object(map) if map.len() == 1 => match map.get(BYTES) {
            Some(Value::String(text)) => STANDARD.decode(text).is_ok(),
            Some(_) => false,
            None => true,
        },
        _ => true,
    }
}

/// Near enough to Python's own rule. The guest binds names in a dictionary and never pastes them into
/// code, so a name on the border does no harm.
pub(crate) fn is_identifier(name: &str) -> bool {
    let mut characters = name.chars();
    let starts_well = characters
        .next()
        .is_some_and(|first| first == '_' || first.is_alphabetic());
    starts_well && characters.all(|c| c == '_' || c.is_alphanumeric())
}

pub(crate) fn is_keyword(name: &str) -> bool {
    const KEYWORDS: &[&str] = &[
        "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class",
        "continue", "def", "del", "elif", "else", "except", "finally", "for", "from", "global",
        "if", "import", "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return",
        "try", "while", "with", "yield",
    ];
    KEYWORDS.contains(&name)
}
