//! Checks: what must be true of a run in the end.

use crate::report::TestToolCall;
use crate::test_tools::TestTool;
use cellblock_agent::repair::read_value;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

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
            Check::Number { tolerance, .. } if *tolerance < 0.0 || !tolerance.is_finite() => {
                Err("the tolerance of a check must not be negative".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Checks a run of the agent. The error says what is wrong.
    pub(crate) fn check_run(
        &self,
        answer: Option<&Value>,
        calls: &[TestToolCall],
    ) -> Result<(), String> {
        let Check::Called { tool, arguments } = self else {
            return self.check_answer(answer);
        };
        let last = calls.iter().rfind(|call| call.tool == tool.name());
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

    /// Checks the reply of a model without tools: arguments that a call should have had must stand in the reply.
    pub(crate) fn check_plain_reply(&self, reply: &str) -> Result<(), String> {
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
            Check::Json { value } => {
                let given = match answer {
                    Value::String(text) => read_value(text).map(|read| read.value),
                    other => Some(other.clone()),
                };
                match given {
                    Some(given) if is_equal(&given, value) => Ok(()),
                    Some(given) => Err(format!("the answer is {given}, not {value}")),
                    None => Err("the answer is not JSON".to_owned()),
                }
            }
            _ => Ok(()),
        }
    }
}

/// Whether two JSON values are equal. 1 and 1.0 are equal.
fn is_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|(one, other)| is_equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(key, value)| other.get(key).is_some_and(|other| is_equal(value, other)))
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
        _ => is_equal(given, expected),
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
    use super::{has_word, last_number};

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
