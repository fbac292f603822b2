//! Checks: what must be true of a run in the end.

use crate::report::TestToolCall;
use crate::test_tools::TestTool;
use cellblock_agent::repair::read_value;
use cellblock_protocol::{JsonError, parse_json_within};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Component, Path};

/// The most memory that a file of a run may take once it is parsed as JSON.
const MAX_JSON_MEMORY: usize = 256 << 20;

/// Files that a run left, by their paths.
pub(crate) type ProducedFiles = BTreeMap<String, Vec<u8>>;

/// What a run left behind, for its checks.
#[derive(Debug, Default)]
pub(crate) struct RunTraces<'a> {
    pub(crate) answer: Option<&'a Value>,
    /// The calls of the test tools.
    pub(crate) calls: &'a [TestToolCall],
    /// The files that checks are about, as far as they are there.
    pub(crate) files: ProducedFiles,
    /// The standard output of all cells.
    pub(crate) printed: String,
}

/// A condition that must hold at the end of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "check", rename_all = "snake_case", deny_unknown_fields)]
pub enum Check {
    /// The answer is this text. Spaces around it do not count.
    Exact {
        /// The text.
        answer: String,
    },
    /// The answer contains this text.
    Contains {
        /// The text.
        text: String,
    },
    /// The last number in the answer is this one.
    Number {
        /// The number.
        value: f64,
        /// The largest difference that still passes.
        #[serde(default)]
        tolerance: f64,
    },
    /// The answer is JSON and equal to this value. 1 and 1.0 are equal.
    Json {
        /// The value.
        value: Value,
        /// The largest difference between two numbers that still passes.
        #[serde(default)]
        tolerance: f64,
    },
    /// The run left this file in the workspace, and everything that is said of it is true.
    File {
        /// The path in the workspace.
        path: String,
        /// A text that the file contains.
        #[serde(default)]
        contains: Option<String>,
        /// The file is JSON and equal to this value.
        #[serde(default)]
        json: Option<Value>,
        /// The largest difference between two numbers of `json` that still passes.
        #[serde(default)]
        tolerance: f64,
        /// The number of lines that are not empty, without the first one, which names the columns.
        #[serde(default)]
        rows: Option<usize>,
        /// The file is a PNG picture of at least this width and height.
        #[serde(default)]
        picture: Option<[u32; 2]>,
    },
    /// A cell printed this text.
    Printed {
        /// The text.
        text: String,
    },
    /// The last call of this tool had these arguments, and perhaps others.
    Called {
        /// The tool.
        tool: TestTool,
        /// The arguments.
        #[serde(default)]
        arguments: Map<String, Value>,
    },
}

impl Check {
    /// Refuses a check that can never hold for a task with these tools.
    pub(crate) fn validate_for(&self, tools: &[TestTool]) -> Result<(), String> {
        match self {
            Check::Called { tool, .. } if !tools.contains(tool) => Err(format!(
                "a check wants a call of `{}`, which the task does not have",
                tool.name()
            )),
            Check::Number { tolerance, .. }
            | Check::Json { tolerance, .. }
            | Check::File { tolerance, .. }
                if *tolerance < 0.0 || !tolerance.is_finite() =>
            {
                Err("the tolerance of a check must not be negative".to_owned())
            }
            // The file may be written below a directory of the host.
            Check::File { path, .. } if !is_inside_workspace(path) => Err(format!(
                "a check wants the file `{path}`, which must be a relative path inside of the workspace"
            )),
            _ => Ok(()),
        }
    }

    /// The file that the check is about.
    pub(crate) fn file(&self) -> Option<&str> {
        match self {
            Check::File { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Checks a run of the agent. The error says what is wrong.
    pub(crate) fn check_run(&self, run: &RunTraces<'_>) -> Result<(), String> {
        if let Some(path) = self.file() {
            let contents = run.files.get(path);
            let contents = contents.ok_or_else(|| format!("there is no file `{path}`"))?;
            return self
                .check_file(contents)
                .map_err(|wrong| format!("`{path}`: {wrong}"));
        }
        if let Check::Printed { text } = self {
            let is_printed = run.printed.contains(text.as_str());
            let wrong = || format!("no cell printed {text:?}");
            return is_printed.then_some(()).ok_or_else(wrong);
        }
        let Check::Called { tool, arguments } = self else {
            return self.check_answer(run.answer);
        };
        let last = run.calls.iter().rfind(|call| call.tool == tool.name());
        let last = last.ok_or_else(|| format!("`{}` was never called", tool.name()))?;
        for (name, expected) in arguments {
            let given = last.arguments.get(name);
            if !given.is_some_and(|given| is_loosely_equal(given, expected)) {
                return Err(format!(
                    "`{}` was last called with {name} = {}, not {expected}",
                    tool.name(),
                    given.map_or("nothing".to_owned(), ToString::to_string)
                ));
            }
        }
        Ok(())
    }

    fn check_file(&self, contents: &[u8]) -> Result<(), String> {
        let Check::File {
            contains,
            json,
            tolerance,
            rows,
            picture,
            ..
        } = self
        else {
            return Ok(());
        };
        let text = String::from_utf8_lossy(contents);
        if let Some(wanted) = contains
            && !text.contains(wanted.as_str())
        {
            return Err(format!("it does not contain {wanted:?}"));
        }
        if let Some(wanted) = json {
            let given = parse_json_within(contents, MAX_JSON_MEMORY);
            let given: Value = given.map_err(|error| match error {
                JsonError::TooManyValues { .. } => error.to_string(),
                JsonError::Json(error) => format!("it is not JSON: {error}"),
            })?;
            if !is_equal(&given, wanted, *tolerance) {
                return Err(format!("it is {given}, not {wanted}"));
            }
        }
        if let Some(wanted) = rows {
            let lines = text.lines().filter(|line| !line.trim().is_empty());
            let found = lines.count().saturating_sub(1);
            if found != *wanted {
                return Err(format!("it has {found} rows, not {wanted}"));
            }
        }
        if let Some([width, height]) = picture {
            let (found_width, found_height) =
                png_size(contents).ok_or("it is no PNG picture".to_owned())?;
            if found_width < *width || found_height < *height {
                return Err(format!(
                    "it has {found_width} by {found_height} pixels, less than {width} by {height}"
                ));
            }
        }
        Ok(())
    }

    /// Checks the reply of a model without tools: arguments that a call should have had must stand in the reply.
    pub(crate) fn check_plain_reply(&self, reply: &str) -> Result<(), String> {
        if let Some(path) = self.file() {
            return Err(format!(
                "there is no file `{path}`: without the agent none is written"
            ));
        }
        if let Check::Printed { text } = self {
            return Err(format!(
                "{text:?} was not printed: without the agent no code runs"
            ));
        }
        let answer = Value::String(reply.to_owned());
        let Check::Called { arguments, .. } = self else {
            return self.check_answer(Some(&answer));
        };
        for expected in arguments.values() {
            let is_there = match expected {
                Value::Number(number) => number.as_f64() == last_number(reply),
                Value::String(text) => has_word(reply, text),
                other => has_word(reply, &other.to_string()),
            };
            if !is_there {
                return Err(format!("the reply does not give {expected}"));
            }
        }
        Ok(())
    }

    fn check_answer(&self, answer: Option<&Value>) -> Result<(), String> {
        let answer = answer.ok_or("there is no answer")?;
        let text = match answer {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        match self {
            Check::Exact { answer } if text.trim() != answer.trim() => {
                Err(format!("the answer is not {answer:?}"))
            }
            Check::Contains { text: wanted } if !text.contains(wanted.as_str()) => {
                Err(format!("the answer does not contain {wanted:?}"))
            }
            Check::Number { value, tolerance } => match last_number(&text) {
                Some(number) if (number - value).abs() <= *tolerance => Ok(()),
                Some(number) => Err(format!(
                    "the last number in the answer is {number}, not {value}"
                )),
                None => Err(format!(
                    "there is no number in the answer; {value} was wanted"
                )),
            },
            Check::Json { value, tolerance } => {
                let given = match answer {
                    Value::String(text) => read_value(text).map(|read| read.value),
                    other => Some(other.clone()),
                };
                match given {
                    Some(given) if is_equal(&given, value, *tolerance) => Ok(()),
                    Some(given) => Err(format!("the answer is {given}, not {value}")),
                    None => Err("the answer is not JSON".to_owned()),
                }
            }
            _ => Ok(()),
        }
    }
}

/// Whether a path is relative and leads nowhere else.
pub(crate) fn is_inside_workspace(path: &str) -> bool {
    let parts = || Path::new(path).components();
    parts().next().is_some() && parts().all(|part| matches!(part, Component::Normal(_)))
}

/// The width and height of a PNG picture, from its first chunk.
fn png_size(contents: &[u8]) -> Option<(u32, u32)> {
    let header = contents.strip_prefix(b"\x89PNG\r\n\x1a\n")?;
    let sizes = header.get(8..16).filter(|_| &header[4..8] == b"IHDR")?;
    let number = |bytes: &[u8]| Some(u32::from_be_bytes(bytes.try_into().ok()?));
    Some((number(&sizes[..4])?, number(&sizes[4..])?))
}

/// Whether two JSON values are equal. Numbers may differ by the tolerance; 1 and 1.0 are equal.
fn is_equal(one: &Value, other: &Value, tolerance: f64) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => match (one.as_f64(), other.as_f64()) {
            (Some(one), Some(other)) => one == other || (one - other).abs() <= tolerance,
            _ => one == other,
        },
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|(one, other)| is_equal(one, other, tolerance))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, value)| {
                    other
                        .get(key)
                        .is_some_and(|other| is_equal(value, other, tolerance))
                })
        }
        _ => one == other,
    }
}

/// Like [`is_equal`], but a number may be written as a text, and spaces around a text do not count.
fn is_loosely_equal(given: &Value, expected: &Value) -> bool {
    match (given, expected) {
        (Value::String(given), Value::String(expected)) => given.trim() == expected.trim(),
        (Value::String(given), Value::Number(expected)) => {
            given.trim().parse().ok() == expected.as_f64()
        }
        _ => is_equal(given, expected, 0.0),
    }
}

/// Whether a text contains a word with no letter or digit beside it.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    text.match_indices(word).any(|(start, _)| {
        let before = text[..start].chars().next_back();
        let after = text[start + word.len()..].chars().next();
        !is_part(before) && !is_part(after)
    })
}

/// The last number in a text, with or without commas between thousands.
fn last_number(text: &str) -> Option<f64> {
    let bytes = text.as_bytes();
    let mut last = None;
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let end = end_of_number(bytes, at);
        // A digit in a word, such as the 2 in `Q2`, is no number.
        let before = text[..at].chars().next_back();
        if !before.is_some_and(|c| c.is_alphabetic() || c == '_') {
            let is_negative = before == Some('-')
                && !text[..at - 1]
                    .chars()
                    .next_back()
                    .is_some_and(char::is_alphanumeric);
            let digits = text[at..end].replace(',', "");
            if let Ok(number) = digits.parse::<f64>() {
                last = Some(if is_negative { -number } else { number });
            }
        }
        at = end;
    }
    last
}

/// The end of the number that begins here: digits, commas before three digits, one point before a digit, an exponent.
fn end_of_number(bytes: &[u8], start: usize) -> usize {
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut at = start;
    while is_digit(at)
        || (bytes.get(at) == Some(&b',') && (1..4).all(|n| is_digit(at + n)) && !is_digit(at + 4))
    {
        at += 1;
    }
    if bytes.get(at) == Some(&b'.') && is_digit(at + 1) {
        at += 1;
        while is_digit(at) {
            at += 1;
        }
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let digits = at + 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        if is_digit(digits) {
            at = digits;
            while is_digit(at) {
                at += 1;
            }
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::{Check, has_word, last_number};
    use serde_json::json;

    #[test]
    fn a_file_of_many_small_values_is_not_parsed() {
        let check = json!({"check": "file", "path": "a.json", "json": []});
        let check: Check = serde_json::from_value(check).unwrap();
        let lists = format!("[{}[]]", "[],".repeat(1_000_000));
        assert_eq!(check.check_file(b"[]"), Ok(()));
        assert_eq!(
            check.check_file(lists.as_bytes()),
            Err("its values would take more than 256 MiB of memory".to_owned())
        );
    }

    #[test]
    fn the_last_number_of_an_answer_is_found() {
        for (text, number) in [
            ("21386.41", Some(21386.41)),
            ("The 3 values add up to $1,234.50.", Some(1234.5)),
            ("between 1 and -7", Some(-7.0)),
            ("5-3", Some(3.0)),
            ("it is 1e3", Some(1000.0)),
            ("in Q2 it was 17 in all", Some(17.0)),
            ("1,2,3", Some(3.0)),
            ("**42**", Some(42.0)),
            ("none", None),
            ("größe 7 €", Some(7.0)),
        ] {
            assert_eq!(last_number(text), number, "{text}");
        }
    }

    #[test]
    fn a_word_stands_alone() {
        assert!(has_word("the answer is `aQue9ScN`.", "aQue9ScN"));
        assert!(!has_word("aQue9ScNx", "aQue9ScN"));
        assert!(!has_word("", "a"));
    }
}
