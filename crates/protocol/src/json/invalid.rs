//! The error for a request that cannot be fulfilled as it was written.

use serde_json::Value;

/// Something the caller asked for that cannot be: names the field, what was expected and what came.
///
/// One type for every way in (library, pipe, configuration), so that the message is the same everywhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// The field is there and holds something that cannot be used.
    #[error("`{field}`: expected {expected}, got {came}")]
    Value {
        /// The path of the field, such as `limits.memory`.
        field: String,
        /// The description of a right value.
        expected: String,
        /// The value that came, shortened.
        came: String,
    },
    /// A field that must be there is not.
    #[error("missing field `{field}`: expected {expected}")]
    Missing {
        /// The path of the field.
        field: String,
        /// The description of a right value.
        expected: String,
    },
    /// A field that is not read: most often a spelling mistake, so it is not ignored.
    #[error("unknown field `{field}`; the fields are {known}")]
    Unknown {
        /// The path of the field.
        field: String,
        /// The names that are read, joined by commas.
        known: String,
    },
}

impl Invalid {
    /// The field holds `came`, which is not what was expected.
    pub fn value(
        field: impl AsRef<str>,
        expected: impl Into<String>,
        came: impl Into<String>,
    ) -> Self {
        Self::Value {
            field: short(field.as_ref()),
            expected: expected.into(),
            came: came.into(),
        }
    }

    pub(crate) fn unknown(field: &str, known: String) -> Self {
        Self::Unknown {
            field: short(field),
            known,
        }
    }

    /// The path of the field that is wrong.
    pub fn field(&self) -> &str {
        match self {
            Self::Value { field, .. }
            | Self::Missing { field, .. }
            | Self::Unknown { field, .. } => field,
        }
    }

    /// Puts the name of the field above in front: `memory` becomes `limits.memory`.
    pub(crate) fn inside(mut self, parent: &str) -> Self {
        match &mut self {
            Self::Value { field, .. }
            | Self::Missing { field, .. }
            | Self::Unknown { field, .. } => {
                *field = format!("{parent}.{field}");
            }
        }
        self
    }
}

/// A JSON value as it is shown in a message: itself when it is short, else its beginning.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) => shown_text(text),
        other => other.to_string(),
    }
}

/// A text as it is shown in a message: in quotes, control characters escaped, never long.
pub(crate) fn shown_text(text: &str) -> String {
    const MAX_SHOWN_CHARS: usize = 60;
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// A name as it is shown in a message: a name of a megabyte is not sent back.
pub(crate) fn short(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(80).collect()
}
