//! Names that go into subjects, keys and file names of an engine, so they are checked before they are used.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The longest name, in bytes.
pub const MAX_NAME_BYTES: usize = 64;

/// The longest idempotency key, in bytes. Clients choose keys, so they may be longer than names.
pub const MAX_KEY_BYTES: usize = 200;

/// A text that cannot be a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {text:?} must have 1 to {longest} {allowed}")]
pub struct InvalidName {
    kind: &'static str,
    text: String,
    longest: usize,
    allowed: &'static str,
}

fn checked(
    kind: &'static str,
    text: String,
    longest: usize,
    allowed: &'static str,
    is_allowed: fn(u8) -> bool,
) -> Result<String, InvalidName> {
    if (1..=longest).contains(&text.len()) && text.bytes().all(is_allowed) {
        return Ok(text);
    }
    // A hostile name may be long: the message shows its beginning.
    let text = text.chars().take(MAX_NAME_BYTES).collect();
    Err(InvalidName {
        kind,
        text,
        longest,
        allowed,
    })
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

fn is_visible_byte(byte: u8) -> bool {
    byte.is_ascii_graphic()
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $kind:literal, $longest:expr, $allowed:literal, $is_allowed:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(String);

        impl $type {
            /// Checks a text.
            pub fn new(text: impl Into<String>) -> Result<$type, InvalidName> {
                checked($kind, text.into(), $longest, $allowed, $is_allowed).map($type)
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $type {
            type Error = InvalidName;

            fn try_from(text: String) -> Result<$type, InvalidName> {
                $type::new(text)
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> String {
                name.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }
    };
}

name!(
    /// The id of a session.
    SessionId, "a session id", MAX_NAME_BYTES, "letters, digits, `-` or `_`", is_name_byte
);
name!(
    /// The id of one start of a node: its name and a part that is new at each start.
    ///
    /// A node that starts again has none of the sessions that it had. With a new id, requests for those sessions do not reach it.
    NodeId, "a node id", MAX_NAME_BYTES, "letters, digits, `-` or `_`", is_name_byte
);
name!(
    /// The idempotency key of a request: a request that is sent again has the same key and runs once.
    RequestKey, "a key", MAX_KEY_BYTES, "visible ASCII characters", is_visible_byte
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_subject_or_its_directory() {
        for text in ["", ".", "..", "a.b", "a/b", "a b", ">", "*", "a\n", "ä"] {
            assert!(SessionId::new(text).is_err(), "{text:?}");
        }
        assert!(SessionId::new("x".repeat(MAX_NAME_BYTES + 1)).is_err());
        assert_eq!(SessionId::new("run-7_b").unwrap().as_str(), "run-7_b");
        assert!(serde_json::from_str::<NodeId>("\"../x\"").is_err());
    }

    #[test]
    fn the_error_says_what_is_allowed() {
        let error = SessionId::new("a/b").unwrap_err().to_string();
        assert_eq!(
            error,
            "a session id \"a/b\" must have 1 to 64 letters, digits, `-` or `_`"
        );
    }
}
