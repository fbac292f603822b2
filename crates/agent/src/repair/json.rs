//! Reading JSON from a reply, with text and fences around it and small mistakes in it.

use super::Repair;
use super::json_fixes::{escape_inner_quotes, fix_json};
use super::markup::unfenced;
use cellblock_model::{FinishReason, Reply};
use jsonrepair_rs::jsonrepair;
use serde_json::{Map, Value};

/// The longest text that is repaired. Longer text must be valid JSON.
const MAX_REPAIRED_BYTES: usize = 1 << 20;
/// The number of places in a text where an object may begin that are tried.
const MAX_OBJECT_STARTS: usize = 16;

/// A value that was read, and what had to be repaired for that.
#[derive(Clone, Debug, PartialEq)]
pub struct Repaired<T> {
    /// The value.
    pub value: T,
    /// The repairs. Empty where the text was valid.
    pub repairs: Vec<Repair>,
}

/// Whether a reply is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyEnd {
    /// The model finished the reply.
    Complete,
    /// The reply was cut off at the token limit, maybe in the middle of a word.
    CutOff,
}

/// Why no JSON object could be read. The message is for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadJsonError {
    /// The text is valid JSON, but not an object.
    #[error("the reply is JSON, but no object")]
    NotAnObject,
    /// The text is not valid JSON and too long to be repaired.
    #[error("the reply is longer than {MAX_REPAIRED_BYTES} bytes and no valid JSON: {0}")]
    TooLong(String),
    /// The text contains no object.
    #[error("there is no JSON object in the reply")]
    NoObject,
    /// The reply ended in the middle of a text.
    #[error("the reply was cut off in the middle of a text")]
    CutOff,
    /// The text is not valid JSON and cannot be repaired.
    #[error("the reply is not valid JSON: {0}")]
    Invalid(String),
}

impl ReplyEnd {
    /// Whether the model finished this reply.
    pub(crate) fn of(reply: &Reply) -> ReplyEnd {
        match reply.finish {
            FinishReason::Length => ReplyEnd::CutOff,
            _ => ReplyEnd::Complete,
        }
    }
}

/// Reads one JSON object from a reply.
///
/// `fields` are the names that the object may have at its top. `fits` says whether an object has the form that was asked for; a repaired
/// object must have it. Where the reply was cut off, a text without a closing quote is not taken for a whole one.
pub fn read_object(
    text: &str,
    end: ReplyEnd,
    fields: &[&str],
    fits: impl Fn(&Map<String, Value>) -> bool,
) -> Result<Repaired<Map<String, Value>>, ReadJsonError> {
    let text = text.trim().trim_start_matches('\u{feff}');
    let problem = match serde_json::from_str(text) {
        Ok(Value::Object(value)) => {
            return Ok(Repaired {
                value,
                repairs: Vec::new(),
            });
        }
        Ok(_) => return Err(ReadJsonError::NotAnObject),
        Err(error) => error.to_string(),
    };
    if text.len() > MAX_REPAIRED_BYTES {
        return Err(ReadJsonError::TooLong(problem));
    }
    let candidates = candidates(text);
    if candidates.is_empty() {
        return Err(ReadJsonError::NoObject);
    }
    let mut other = None;
    for candidate in &candidates {
        if let Ok(Value::Object(value)) = serde_json::from_str(candidate.text) {
            let read = Repaired {
                value,
                repairs: candidate.repairs(text),
            };
            if fits(&read.value) {
                return Ok(read);
            }
            other.get_or_insert(read);
        }
    }
    let mut is_cut = false;
    for candidate in &candidates {
        match repair_object(candidate.text, end, fields, &fits) {
            Ok(Some((value, more))) => {
                let mut repairs = candidate.repairs(text);
                repairs.extend(more);
                return Ok(Repaired { value, repairs });
            }
            Ok(None) => {}
            Err(CutInText) => is_cut = true,
        }
    }
    match other {
        Some(read) => Ok(read),
        None if is_cut => Err(ReadJsonError::CutOff),
        None => Err(ReadJsonError::Invalid(problem)),
    }
}

/// Reads any JSON value from an answer: the whole text, the content of its only fence, or the one object or list in it.
pub fn read_value(text: &str) -> Option<Repaired<Value>> {
    let text = text.trim();
    if let Ok(value) = serde_json::from_str(text) {
        return Some(Repaired {
            value,
            repairs: Vec::new(),
        });
    }
    if let Some(value) = unfenced(text).and_then(|body| serde_json::from_str(&body).ok()) {
        return Some(Repaired {
            value,
            repairs: vec![Repair::CodeFence],
        });
    }
    if text.len() > MAX_REPAIRED_BYTES {
        return None;
    }
    for open in ['{', '['] {
        let (Some(start), Some(end)) = (text.find(open), text.rfind(closing(open))) else {
            continue;
        };
        let Some(body) = text.get(start..=end) else {
            continue;
        };
        let mut repairs = Vec::new();
        if body.len() < text.len() {
            repairs.push(Repair::TextAround);
        }
        if let Ok(value) = serde_json::from_str(body) {
            return Some(Repaired { value, repairs });
        }
        let fixed = fix_json(body);
        if let Ok(value) = serde_json::from_str(&fixed.text) {
            repairs.extend(fixed.repairs);
            return Some(Repaired { value, repairs });
        }
    }
    None
}

/// A reply that was cut off ends inside a text.
struct CutInText;

type RepairedObject = Option<(Map<String, Value>, Vec<Repair>)>;

/// The repaired object, if it has the right form and every letter of the original.
fn repair_object(
    text: &str,
    end: ReplyEnd,
    fields: &[&str],
    fits: &impl Fn(&Map<String, Value>) -> bool,
) -> Result<RepairedObject, CutInText> {
    let fixed = fix_json(text);
    let is_open = fixed.repairs.contains(&Repair::Unclosed);
    let ends_in_word = text.trim_end().ends_with(|c: char| c.is_alphanumeric());
    if end == ReplyEnd::CutOff && is_open && (fixed.ended_in_string || ends_in_word) {
        return Err(CutInText);
    }
    if let Ok(Value::Object(map)) = serde_json::from_str(&fixed.text)
        && fits(&map)
    {
        return Ok(Some((map, fixed.repairs)));
    }
    let quoted = fix_json(&escape_inner_quotes(text, fields));
    if !quoted.repairs.contains(&Repair::Unclosed)
        && let Ok(Value::Object(map)) = serde_json::from_str(&quoted.text)
        && fits(&map)
    {
        return Ok(Some((map, vec![Repair::Punctuation])));
    }
    for attempt in [text, &fixed.text] {
        let Ok(Ok(Value::Object(map))) =
            jsonrepair(attempt).map(|text| serde_json::from_str(&text))
        else {
            continue;
        };
        if fits(&map) && letters(text) == letters(&Value::Object(map.clone()).to_string()) {
            return Ok(Some((map, vec![Repair::Punctuation])));
        }
    }
    Ok(None)
}

/// The letters and digits of a JSON text, without escapes. A repair must neither add nor lose any.
fn letters(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c == '\\' {
            if chars.next() == Some('u') {
                chars.nth(3);
            }
        } else if c.is_alphanumeric() {
            kept.push(c);
        }
    }
    kept
}

/// A part of a reply that may be the object.
struct Candidate<'a> {
    text: &'a str,
}

impl Candidate<'_> {
    fn repairs(&self, whole: &str) -> Vec<Repair> {
        let start = self.text.as_ptr() as usize - whole.as_ptr() as usize;
        let before = whole[..start].trim();
        let after = whole[start + self.text.len()..].trim();
        let is_fence = |text: &str| {
            let text = text.trim_matches('`');
            text.is_empty() || text.eq_ignore_ascii_case("json")
        };
        if before.is_empty() && after.is_empty() {
            Vec::new()
        } else if is_fence(before) && is_fence(after) {
            vec![Repair::CodeFence]
        } else {
            vec![Repair::TextAround]
        }
    }
}

/// The parts that may be the object: each balanced part, then from the first opening to the last closing bracket, then to the end.
fn candidates(text: &str) -> Vec<Candidate<'_>> {
    let mut found = Vec::new();
    let mut at = 0;
    for _ in 0..MAX_OBJECT_STARTS {
        let Some(start) = text[at..].find('{').map(|offset| at + offset) else {
            break;
        };
        match balanced_end(&text[start..]) {
            Some(length) => {
                found.push(Candidate {
                    text: &text[start..start + length],
                });
                at = start + length;
            }
            None => at = start + 1,
        }
    }
    if let Some(start) = text.find('{') {
        if let Some(end) = text.rfind('}').filter(|end| *end > start) {
            found.push(Candidate {
                text: &text[start..=end],
            });
        }
        let open_end = text[start..].trim_end().trim_end_matches('`').trim_end();
        found.push(Candidate { text: open_end });
    }
    found
}

/// The byte after the bracket that closes the one at the beginning. Brackets inside strings do not count.
fn balanced_end(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    let mut in_string = false;
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if in_string => is_escaped = true,
            '"' => in_string = !in_string,
            '{' | '[' if !in_string => depth += 1,
            '}' | ']' if !in_string => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

fn closing(open: char) -> char {
    if open == '{' { '}' } else { ']' }
}
