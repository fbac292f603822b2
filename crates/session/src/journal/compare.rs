//! A cell that is replayed: it gets the answers that it got the first time, and what it does is compared with what was recorded.

use crate::journal::record::{CallOutcome, EndedRecord, InputAnswer, RecordedCall, RecordedInput};
use cellblock_protocol::{CellError, CellResult, Cut, MimeBundle, ToolArguments, VariableChange};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// Something that is not as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// In which cell; none for the session as a whole.
    pub cell: Option<u64>,
    /// The part of the result that differs: `value`, `stdout`, `variable x`, …
    pub what: String,
    /// The recorded value.
    pub was: String,
    /// The value of the replay.
    pub is: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(cell) = self.cell {
            write!(out, "cell {cell}: ")?;
        }
        match (&self.was[..], &self.is[..]) {
            ("", "") => out.write_str(&self.what),
            (was, is) => write!(out, "{} was {was}, is {is}", self.what),
        }
    }
}

/// Everything in which a result differs from the recorded one. Times, memory, and addresses in texts do not count.
pub fn compare(recorded: &EndedRecord, now: &CellResult) -> Vec<Difference> {
    let was = &recorded.result;
    let mut found = Comparison {
        cell: recorded.cell,
        differences: Vec::new(),
    };
    found.check("status", was.status.name(), now.status.name());
    let outcome = |result: &CellResult| format!("{:?}", result.state.outcome).to_lowercase();
    found.check("state", outcome(was), outcome(now));
    let cuts = |result: &CellResult| result.truncated.clone().unwrap_or_default();
    let (old, new) = (cuts(was), cuts(now));
    found.check_stream("stdout", &was.stdout, old.stdout, &now.stdout, new.stdout);
    found.check_stream("stderr", &was.stderr, old.stderr, &now.stderr, new.stderr);
    let value = |result: &CellResult| result.value.as_ref().map(|value| value.repr.clone());
    found.check("value", shown(value(was)), shown(value(now)));
    let error = |result: &CellResult| result.error.as_ref().map(brief);
    found.check("error", shown(error(was)), shown(error(now)));
    let whole = recorded.left_out.is_empty();
    if whole {
        found.check_displays(&was.displays, &now.displays);
    }
    found.check_maps("variable", &variables(was), &variables(now));
    found.check_maps("file", &files(was), &files(now));
    found.differences
}

struct Comparison {
    cell: u64,
    differences: Vec<Difference>,
}

impl Comparison {
    fn check(&mut self, what: &str, was: impl AsRef<str>, is: impl AsRef<str>) {
        let (was, is) = (
            without_addresses(was.as_ref()),
            without_addresses(is.as_ref()),
        );
        if was != is {
            self.differences.push(Difference {
                cell: Some(self.cell),
                what: what.to_owned(),
                was: short(&was),
                is: short(&is),
            });
        }
    }

    /// Of a text that was cut, only what is there can be compared.
    fn check_stream(
        &mut self,
        what: &str,
        was: &str,
        was_cut: Option<Cut>,
        is: &str,
        is_cut: Option<Cut>,
    ) {
        let whole = was_cut.is_none() && is_cut.is_none();
        let length = was.len().min(is.len());
        let same = match (was.get(..length), is.get(..length)) {
            (Some(a), Some(b)) if !whole => without_addresses(a) == without_addresses(b),
            _ => without_addresses(was) == without_addresses(is),
        };
        if !same {
            self.check(what, format!("{was:?}"), format!("{is:?}"));
        }
    }

    fn check_displays(&mut self, was: &[MimeBundle], is: &[MimeBundle]) {
        if was.len() != is.len() {
            let count = |displays: &[MimeBundle]| displays.len().to_string();
            self.check("number of displays", count(was), count(is));
            return;
        }
        for (at, (was, is)) in was.iter().zip(is).enumerate() {
            let text = |bundle: &MimeBundle, kind: &str| {
                bundle
                    .get(kind)
                    .map(|it| without_addresses(&it.to_string()))
            };
            let mut kinds: Vec<&str> = was.types().chain(is.types()).collect();
            kinds.sort_unstable();
            kinds.dedup();
            for kind in kinds {
                if text(was, kind) != text(is, kind) {
                    self.differences.push(Difference {
                        cell: Some(self.cell),
                        what: format!("display {} is another ({kind})", at + 1),
                        was: String::new(),
                        is: String::new(),
                    });
                }
            }
        }
    }

    fn check_maps(
        &mut self,
        what: &str,
        was: &BTreeMap<String, String>,
        is: &BTreeMap<String, String>,
    ) {
        let untouched = "untouched".to_owned();
        let mut names: Vec<&String> = was.keys().chain(is.keys()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let of = |map: &BTreeMap<String, String>| map.get(name).unwrap_or(&untouched).clone();
            self.check(&format!("{what} {name}"), of(was), of(is));
        }
    }
}

/// Whether a name is new or changed depends on what was there before; what it is now does not.
fn variables(result: &CellResult) -> BTreeMap<String, String> {
    let describe = |variable: &VariableChange| {
        let text = format!("{} {}", variable.type_, variable.summary);
        (variable.name.clone(), text)
    };
    let changes = &result.variables;
    let bound = changes.added.iter().chain(&changes.changed).map(describe);
    let gone = changes.removed.iter();
    let gone = gone.map(|variable| (variable.name.clone(), "removed".to_owned()));
    bound.chain(gone).collect()
}

fn files(result: &CellResult) -> BTreeMap<String, String> {
    let changes = &result.files;
    let there = changes.created.iter().chain(&changes.changed);
    let there = there.map(|file| (file.path.clone(), format!("of {} bytes", file.bytes)));
    let gone = changes.deleted.iter();
    let gone = gone.map(|file| (file.path.clone(), "deleted".to_owned()));
    there.chain(gone).collect()
}

fn brief(error: &CellError) -> String {
    format!("{}: {}", error.type_, error.value)
}

fn shown(text: Option<String>) -> String {
    text.unwrap_or_else(|| "nothing".to_owned())
}

fn short(text: &str) -> String {
    const MAX_CHARS: usize = 200;
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text.to_owned(),
    }
}

/// `<object at 0x7f31…>` is another object each time, and says nothing about it.
fn without_addresses(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("0x") {
        let digits = rest[at + 2..]
            .bytes()
            .take_while(u8::is_ascii_hexdigit)
            .count();
        let end = at + 2 + digits;
        if digits >= 6 {
            plain.push_str(&rest[..at]);
            plain.push_str("0x…");
        } else {
            plain.push_str(&rest[..end]);
        }
        rest = &rest[end..];
    }
    plain.push_str(rest);
    plain
}

/// The recorded answers of one cell that were not given yet.
#[derive(Debug)]
pub struct RecordedAnswers {
    calls: VecDeque<RecordedCall>,
    inputs: VecDeque<RecordedInput>,
}

/// An answer, and how the question differs from the recorded one.
#[derive(Debug)]
pub struct ReplayedAnswer<T> {
    /// The answer for the code.
    pub outcome: Result<T, String>,
    /// In which way the call or the question is another one than was recorded, if it is.
    pub mismatch: Option<String>,
}

impl<T> ReplayedAnswer<T> {
    fn plain(outcome: Result<T, String>) -> ReplayedAnswer<T> {
        ReplayedAnswer {
            outcome,
            mismatch: None,
        }
    }

    fn mismatched(text: String) -> ReplayedAnswer<T> {
        ReplayedAnswer {
            outcome: Err(format!("replayed: {text}")),
            mismatch: Some(text),
        }
    }
}

impl RecordedAnswers {
    /// All that a cell was answered.
    pub fn new(ended: &EndedRecord) -> RecordedAnswers {
        RecordedAnswers {
            calls: ended.calls.iter().cloned().collect(),
            inputs: ended.inputs.iter().cloned().collect(),
        }
    }

    /// The first recorded call with this name and these arguments: calls at the same time may come in another order.
    pub fn call(&mut self, name: &str, arguments: &ToolArguments) -> ReplayedAnswer<Value> {
        let same = |call: &RecordedCall| call.name == name && call.arguments == *arguments;
        let found = self.calls.iter().position(same);
        let Some(call) = found.and_then(|at| self.calls.remove(at)) else {
            return ReplayedAnswer::mismatched(format!(
                "no call of {name} with {} was recorded",
                arguments.as_json()
            ));
        };
        match call.outcome {
            CallOutcome::Result(value) => ReplayedAnswer::plain(Ok(value)),
            CallOutcome::Error(message) => ReplayedAnswer::plain(Err(message)),
            CallOutcome::NotKept(bytes) => ReplayedAnswer::mismatched(format!(
                "the answer of {name} was too large for the journal ({bytes} bytes)"
            )),
            CallOutcome::Unanswered => {
                ReplayedAnswer::mismatched(format!("{name} was not answered then"))
            }
        }
    }

    /// The next recorded answer to a question.
    pub fn input(&mut self, prompt: &str) -> ReplayedAnswer<String> {
        match self.inputs.pop_front() {
            Some(input) => {
                let changed = (input.prompt != prompt)
                    .then(|| format!("the question was {:?}, is {prompt:?}", input.prompt));
                ReplayedAnswer {
                    outcome: match input.answer {
                        InputAnswer::Text(text) => Ok(text),
                        InputAnswer::Error(reason) => Err(reason),
                    },
                    mismatch: changed,
                }
            }
            None => ReplayedAnswer::mismatched(format!("no answer to {prompt:?} was recorded")),
        }
    }

    /// The recorded answers that the code did not ask for.
    pub fn left(&self) -> Vec<String> {
        let calls = self
            .calls
            .iter()
            .map(|call| format!("the recorded call of {} was not made", call.name));
        let inputs = self
            .inputs
            .iter()
            .map(|input| format!("the recorded question {:?} was not asked", input.prompt));
        calls.chain(inputs).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_do_not_count_and_small_numbers_do() {
        let pairs = [
            ("<f at 0x7f00aa>", "<f at 0x…>"),
            ("0x10 and 0xdeadbeef", "0x10 and 0x…"),
            ("0x", "0x"),
        ];
        for (text, plain) in pairs {
            assert_eq!(without_addresses(text), plain);
        }
    }
}
