//! A reader for JSON objects that names the wrong field in its errors.

use serde_json::{Map, Value};

use crate::json::invalid::{Invalid, shown};

/// Reads a JSON object field by field.
///
/// Serde's own messages do not name the field whose type is wrong; people who write the pipe's lines
/// by hand need exactly that.
pub(crate) struct Fields(Map<String, Value>);

impl Fields {
    pub(crate) fn new(map: Map<String, Value>) -> Self {
        Self(map)
    }

    /// Takes a field that must be there.
    pub(crate) fn required<T: Field>(&mut self, name: &str) -> Result<T, Invalid> {
        self.optional(name)?.ok_or_else(|| Invalid::Missing {
            field: name.to_owned(),
            expected: T::EXPECTED.to_owned(),
        })
    }

    /// Takes a field that may be absent or null.
    pub(crate) fn optional<T: Field>(&mut self, name: &str) -> Result<Option<T>, Invalid> {
        match self.0.swap_remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => T::read(name, value).map(Some),
        }
    }

    /// Takes a field as it is; `None` only when it is absent, so that null can be told from nothing.
    pub(crate) fn any(&mut self, name: &str) -> Option<Value> {
        self.0.swap_remove(name)
    }

    /// The fields that were not taken yet.
    pub(crate) fn rest(self) -> Map<String, Value> {
        self.0
    }

    /// Refuses fields that were not taken.
    pub(crate) fn finish(self, known: &[&str]) -> Result<(), Invalid> {
        let Some(field) = self.0.keys().next() else {
            return Ok(());
        };
        let known = if known.is_empty() {
            "none".to_owned()
        } else {
            known.join(", ")
        };
        Err(Invalid::unknown(field, known))
    }
}

/// A type that can be read from one field.
pub(crate) trait Field: Sized {
    /// The description of a right value, in words that follow "expected".
    const EXPECTED: &'static str;

    fn read(name: &str, value: Value) -> Result<Self, Invalid>;

    fn refuse(name: &str, value: &Value) -> Invalid {
        Invalid::value(name, Self::EXPECTED, shown(value))
    }
}

impl Field for String {
    const EXPECTED: &'static str = "a text";

    fn read(name: &str, value: Value) -> Result<Self, Invalid> {
        match value {
            Value::String(text) => Ok(text),
            other => Err(Self::refuse(name, &other)),
        }
    }
}

impl Field for bool {
    const EXPECTED: &'static str = "true or false";

    fn read(name: &str, value: Value) -> Result<Self, Invalid> {
        value.as_bool().ok_or_else(|| Self::refuse(name, &value))
    }
}

impl Field for u32 {
    const EXPECTED: &'static str = "a whole number from 0 to 4294967295";

    fn read(name: &str, value: Value) -> Result<Self, Invalid> {
        let number = value.as_u64().and_then(|number| number.try_into().ok());
        number.ok_or_else(|| Self::refuse(name, &value))
    }
}

impl Field for u64 {
    const EXPECTED: &'static str = "a whole number, 0 or more";

    fn read(name: &str, value: Value) -> Result<Self, Invalid> {
        value.as_u64().ok_or_else(|| Self::refuse(name, &value))
    }
}

impl Field for Map<String, Value> {
    const EXPECTED: &'static str = "an object";

    fn read(name: &str, value: Value) -> Result<Self, Invalid> {
        match value {
            Value::Object(map) => Ok(map),
            other => Err(Self::refuse(name, &other)),
        }
    }
}

impl Field for Vec<String> {
    const EXPECTED: &'static str = "a list of texts";

    fn read(name: &str, value: Value) -> Result<Self, Invalid> {
        let Value::Array(items) = value else {
            return Err(Self::refuse(name, &value));
        };
        items
            .into_iter()
            .enumerate()
            .map(|(at, item)| String::read(&format!("{name}[{at}]"), item))
            .collect()
    }
}
