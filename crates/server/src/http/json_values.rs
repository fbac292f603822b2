//! How many values a JSON text has, and what they take in memory: far more than the bytes that they are written in. `[[0],[0],…` becomes a
//! hundred times as much.

use crate::error::ApiError;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use serde_json::Value;

/// The most values of one text.
const MAX_VALUES: usize = 1_000_000;
/// What each value or key counts of the share of its user, beside its bytes. A list or table grows by doubling, so half of it can be empty.
const VALUE_BYTES: usize = 2 * size_of::<Value>();
/// What each list or object counts more. With its first value a list gets room for four, and an object room for three with their keys.
const CONTAINER_BYTES: usize = 5 * size_of::<Value>() - VALUE_BYTES;

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

/// What the values of a JSON text take in memory, beside the bytes of the text: at most.
pub(super) fn bytes_when_read(text: &[u8]) -> usize {
    let bytes_of = |mark| match mark {
        b'[' | b'{' => VALUE_BYTES + CONTAINER_BYTES,
        _ => VALUE_BYTES,
    };
    VALUE_BYTES + marks(text).map(bytes_of).sum::<usize>()
}

/// Counts the values and keys of a JSON text.
pub(crate) fn count_values(text: &[u8]) -> usize {
    1 + marks(text).count()
}

/// The marks before and between the values and keys of a JSON text. It reads only what is outside of strings.
fn marks(text: &[u8]) -> impl Iterator<Item = u8> {
    let (mut is_string, mut is_escaped) = (false, false);
    text.iter().copied().filter(move |byte| {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_string,
            b'"' => is_string = !is_string,
            b',' | b':' | b'[' | b'{' => return !is_string,
            _ => {}
        }
        false
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

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

    /// The memory of a process is measured, so it is one in which no other test runs.
    #[test]
    fn values_take_no_more_memory_than_they_count() {
        const MARK: &str = "CELLBLOCK_TEST_MEASURES_VALUES";
        const COUNT: usize = 100_000;
        if std::env::var_os(MARK).is_none() {
            let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
            let name = "http::json_values::tests::values_take_no_more_memory_than_they_count";
            let output = alone.args(["--exact", name]).env(MARK, "1").output();
            let output = output.unwrap();
            assert!(output.status.success(), "{output:?}");
            return;
        }
        let resident = || {
            let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
            4096 * pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap()
        };
        // As `docs/server.md` says.
        assert_eq!((VALUE_BYTES, CONTAINER_BYTES), (144, 216));
        let deep = format!("{}0{},", "[".repeat(100), "]".repeat(100));
        let mut kept = Vec::new();
        for (part, count) in [
            ("0,", COUNT),
            ("[],", COUNT),
            ("[0],", COUNT),
            (r#"{"":0},"#, COUNT),
            (r#"{"a":"b","c":[{}],"d":{"e":0}},"#, COUNT / 4),
            (deep.as_str(), COUNT / 100),
        ] {
            let text = format!("[{}0]", part.repeat(count));
            let before = resident();
            kept.push(serde_json::from_str::<Value>(&text).unwrap());
            let taken = resident() - before;
            let counted = bytes_when_read(text.as_bytes()) + text.len();
            println!("{part}: {taken} of {counted}");
            assert!(taken <= counted, "{part}: {taken} of {counted}");
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
