//! How many values a JSON text has. In memory each one takes far more than the bytes that it is written in: `[[],[],…` becomes thirty times
//! as much.

use crate::error::ApiError;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;

/// The most values of one text.
pub(crate) const MAX_VALUES: usize = 1_000_000;
/// What each value takes of the share of its user, beside its bytes.
pub(super) const VALUE_BYTES: usize = 48;

/// Counts the values of a text, and refuses too many. What is no JSON at all is left to its reader.
pub(crate) fn checked_values(text: &[u8]) -> Result<usize, ApiError> {
    let values = count_values(text);
    match values <= MAX_VALUES {
        true => Ok(values),
        false => Err(ApiError::too_large(format!(
            "the body has {values} JSON values, and a body may have {MAX_VALUES}"
        ))
        .hint("send large data as a file")),
    }
}

/// Whether a body with these headers may be read as JSON. A form is not: what is in it may look like anything.
pub(super) fn may_be_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(|kind| kind.as_bytes());
    !kind.is_some_and(|kind| {
        let form = b"multipart/";
        kind.len() >= form.len() && kind[..form.len()].eq_ignore_ascii_case(form)
    })
}

/// Counts the values and keys of a JSON text, by the marks between them. It reads only what is outside of strings.
pub(crate) fn count_values(text: &[u8]) -> usize {
    let (mut values, mut is_string, mut is_escaped) = (1, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_string,
            b'"' => is_string = !is_string,
            b',' | b':' | b'[' | b'{' if !is_string => values += 1,
            _ => {}
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_keys_are_counted_outside_of_strings() {
        for (text, values) in [
            ("1", 1),
            (r#""a, [b]: \", {c}""#, 1),
            (r#""\\", "#, 2),
            ("[]", 2),
            ("[1,2,3]", 4),
            (r#"{"a": 1, "b,": [2]}"#, 6),
        ] {
            assert_eq!(count_values(text.as_bytes()), values, "{text}");
        }
    }

    #[test]
    fn a_long_text_is_one_value() {
        let code = format!("{{\"code\": \"{}\"}}", "a,[b]:".repeat(1_000_000));
        assert_eq!(checked_values(code.as_bytes()), Ok(3));
        let error = checked_values("[],".repeat(600_000).as_bytes());
        assert!(error.is_err());
    }
}
