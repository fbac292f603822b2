//! JSON in a reply that may have text, fences and small mistakes around and in it.

use super::Repair;
use super::fences::unfenced;
use super::mend::{escape_inner_quotes, mend};
use jsonrepair_rs::jsonrepair;
use serde_json::{Map, Value};

/// Longer text is only read, not repaired.
const LONGEST: usize = 1 << 20;
/// Places in a text where an object may begin.
const MOST_BEGINNINGS: usize = 16;

/// Something read, and what had to be repaired for that.
#[derive(Clone, Debug, PartialEq)]
pub struct Read<T> {
    /// What it is.
    pub value: T,
    /// What was wrong.
    pub repairs: Vec<Repair>,
}

/// Reads one JSON object from a reply. `fields` are the names that it may have at its top. `fits` says whether an object has the shape that was asked for; what is repaired must have
/// it. `cut_off` says that the reply ended at a limit: then a text that is not closed is not taken for a whole one.
pub fn read_object(
    text: &str,
    cut_off: bool,
    fields: &[&str],
    fits: impl Fn(&Map<String, Value>) -> bool,
) -> Result<Read<Map<String, Value>>, String> {
    let text = text.trim().trim_start_matches('\u{feff}');
    let problem = match serde_json::from_str(text) {
        Ok(Value::Object(value)) => {
            return Ok(Read {
                value,
                repairs: Vec::new(),
            });
        }
        Ok(_) => return Err("the reply is JSON, but no object".to_owned()),
        Err(error) => error.to_string(),
    };
    if text.len() > LONGEST {
        return Err(format!(
            "the reply is longer than {LONGEST} bytes and no valid JSON: {problem}"
        ));
    }
    let candidates = candidates(text);
    if candidates.is_empty() {
        return Err("there is no JSON object in the reply".to_owned());
    }
    let mut other = None;
    for candidate in &candidates {
        if let Ok(Value::Object(value)) = serde_json::from_str(candidate.text) {
            let read = Read {
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
        match mended(candidate.text, cut_off, fields, &fits) {
            Ok(Some((value, more))) => {
                let mut repairs = candidate.repairs(text);
                repairs.extend(more);
                return Ok(Read { value, repairs });
            }
            Ok(None) => {}
            Err(CutInText) => is_cut = true,
        }
    }
    match other {
        Some(read) => Ok(read),
        None if is_cut => Err("the reply was cut off in the middle of a text".to_owned()),
        None => Err(format!("the reply is not valid JSON: {problem}")),
    }
}

/// Reads any JSON value from an answer: the whole of it, what stands in its only fence, or the one object or list in it.
pub fn read_value(text: &str) -> Option<Read<Value>> {
    let text = text.trim();
    if let Ok(value) = serde_json::from_str(text) {
        return Some(Read {
            value,
            repairs: Vec::new(),
        });
    }
    if let Some(value) = unfenced(text).and_then(|body| serde_json::from_str(&body).ok()) {
        return Some(Read {
            value,
            repairs: vec![Repair::CodeFence],
        });
    }
    if text.len() > LONGEST {
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
            return Some(Read { value, repairs });
        }
        let mended = mend(body);
        if let Ok(value) = serde_json::from_str(&mended.text) {
            repairs.extend(mended.repairs);
            return Some(Read { value, repairs });
        }
    }
    None
}

struct CutInText;

type Mending = Option<(Map<String, Value>, Vec<Repair>)>;

/// The mended object, where it has the right shape and every letter of the original.
fn mended(
    text: &str,
    cut_off: bool,
    fields: &[&str],
    fits: &impl Fn(&Map<String, Value>) -> bool,
) -> Result<Mending, CutInText> {
    let ours = mend(text);
    let is_open = ours.repairs.contains(&Repair::Unclosed);
    let ends_in_word = text.trim_end().ends_with(|c: char| c.is_alphanumeric());
    if cut_off && is_open && (ours.ended_in_string || ends_in_word) {
        return Err(CutInText);
    }
    if let Ok(Value::Object(map)) = serde_json::from_str(&ours.text)
        && fits(&map)
    {
        return Ok(Some((map, ours.repairs)));
    }
    let quoted = mend(&escape_inner_quotes(text, fields));
    if !quoted.repairs.contains(&Repair::Unclosed)
        && let Ok(Value::Object(map)) = serde_json::from_str(&quoted.text)
        && fits(&map)
    {
        return Ok(Some((map, vec![Repair::Punctuation])));
    }
    for attempt in [text, &ours.text] {
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

/// The letters and digits of a JSON text, without escapes: what a repair must neither add nor lose.
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

/// What may be the object: each balanced part, then the first opening to the last closing bracket, then to the end.
fn candidates(text: &str) -> Vec<Candidate<'_>> {
    let mut found = Vec::new();
    let mut at = 0;
    for _ in 0..MOST_BEGINNINGS {
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

/// Where the bracket at the beginning is closed, strings left aside.
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
