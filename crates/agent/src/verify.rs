//! Running the cells of an answer once more, to see whether they give the same.

use crate::agent::Setup;
use crate::executor::Setting;
use crate::run::{Done, Outcome};
use cellblock_protocol::{Cell, CellResult, FileChange, StateOutcome};
use cellblock_tools::{Approval, ApprovalMode, ApprovalPolicy, Recording};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What came of running the cells again in a clean session, with the recorded results of tools.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verification {
    /// How many cells were run again.
    pub cells: usize,
    /// What was not the same.
    pub differences: Vec<Difference>,
    /// For a typed answer: whether a cell or a tool gave it.
    pub answer_was_computed: Option<bool>,
}

/// Something that was not the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The cell, counted from 1 in the order in which they ran.
    pub cell: usize,
    /// `status`, `stdout`, `value` or `files`.
    pub what: String,
    /// What it was.
    pub before: String,
    /// What it is.
    pub after: String,
}

impl Verification {
    /// Whether everything was the same and the answer stands on it.
    pub fn is_good(&self) -> bool {
        self.differences.is_empty() && self.answer_was_computed != Some(false)
    }

    /// The same in words, for people.
    pub fn warnings(&self) -> Vec<String> {
        let mut words: Vec<String> = self
            .differences
            .iter()
            .map(|difference| {
                format!(
                    "verify: {} of cell {} differs when it is run again: {:?} before, {:?} now",
                    difference.what, difference.cell, difference.before, difference.after
                )
            })
            .collect();
        if self.answer_was_computed == Some(false) {
            words.push("verify: no cell and no tool gave the answer".to_owned());
        }
        words
    }
}

/// Runs the cells that led to the answer again.
pub(crate) async fn verify(setup: &Setup, outcome: &Outcome, recording: Recording) -> Verification {
    let cells = cells_that_count(outcome);
    let room = setup.executor.open(Setting {
        registry: setup.registry.clone(),
        seed: setup.seed.clone(),
        // They ran once, with whatever leave they needed, and tools are not called.
        approval: Approval::new(ApprovalPolicy::mode(ApprovalMode::Never), None),
        locale: setup.locale,
        fresh_workspace: true,
        replay: Some(recording),
        earlier: None,
    });
    let mut differences = Vec::new();
    for (index, done) in cells.iter().enumerate() {
        let (Some(code), Some(before)) = (&done.code, &done.result) else {
            continue;
        };
        let cell = Cell {
            timeout: done.timeout,
            ..Cell::new(code.as_str())
        };
        let ran = room.run(cell, None).await;
        match ran.result {
            Some(after) => compare(index + 1, before, &after, &mut differences),
            None => differences.push(difference(
                index + 1,
                "status",
                before.status.name(),
                &ran.text,
            )),
        }
    }
    room.close().await;
    let is_typed = setup.answer.is_some();
    let answer_was_computed = outcome.answer.as_ref().filter(|_| is_typed).map(|answer| {
        let mut seen = String::new();
        for done in outcome
            .steps
            .iter()
            .flat_map(|step| &step.actions)
            .filter(|done| done.ok)
        {
            match &done.result {
                Some(result) => {
                    seen.push_str(&result.output);
                    let value = result.value.as_ref();
                    seen.push_str(value.map_or("", |value| value.repr.as_str()));
                    seen.push('\n');
                }
                None => seen.push_str(&done.text),
            }
            seen.push('\n');
        }
        leaves(answer).iter().all(|leaf| stands_in(leaf, &seen))
    });
    Verification {
        cells: cells.len(),
        differences,
        answer_was_computed,
    }
}

/// Cells whose state was kept, without those that were taken back later.
fn cells_that_count(outcome: &Outcome) -> Vec<&Done> {
    let mut cells: Vec<&Done> = Vec::new();
    for done in outcome.steps.iter().flat_map(|step| &step.actions) {
        if let Some(result) = &done.result {
            if result.state.outcome == StateOutcome::Kept {
                cells.push(done);
            }
        } else if done.name == "undo" && done.ok {
            let arguments = done.arguments.as_ref();
            let count = arguments
                .and_then(|arguments| arguments.get("count"))
                .and_then(Value::as_u64);
            let left = cells
                .len()
                .saturating_sub(usize::try_from(count.unwrap_or(1)).unwrap_or(0));
            cells.truncate(left);
        }
    }
    cells
}

fn compare(
    cell: usize,
    before: &CellResult,
    after: &CellResult,
    differences: &mut Vec<Difference>,
) {
    let value = |result: &CellResult| {
        result
            .value
            .as_ref()
            .map(|value| without_addresses(&value.repr))
            .unwrap_or_default()
    };
    let pairs = [
        (
            "status",
            before.status.name().to_owned(),
            after.status.name().to_owned(),
        ),
        (
            "stdout",
            without_addresses(&before.stdout),
            without_addresses(&after.stdout),
        ),
        ("value", value(before), value(after)),
        ("files", files(before), files(after)),
    ];
    for (what, before, after) in pairs {
        if before != after {
            differences.push(difference(cell, what, &before, &after));
        }
    }
}

fn difference(cell: usize, what: &str, before: &str, after: &str) -> Difference {
    let short = |text: &str| text.chars().take(200).collect();
    Difference {
        cell,
        what: what.to_owned(),
        before: short(before),
        after: short(after),
    }
}

fn files(result: &CellResult) -> String {
    let list = |files: &[FileChange]| {
        let mut names: Vec<String> = files
            .iter()
            .map(|file| format!("{} ({} bytes)", file.path, file.bytes))
            .collect();
        names.sort();
        names.join(", ")
    };
    let parts = [
        list(&result.files.created),
        list(&result.files.changed),
        list(&result.files.deleted),
    ];
    parts.join(" | ")
}

/// `<object at 0x7f…>` is another one each time.
fn without_addresses(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(" at 0x") {
        out.push_str(before);
        out.push_str(" at 0x…");
        rest = after.trim_start_matches(|c: char| c.is_ascii_hexdigit());
    }
    out.push_str(rest);
    out
}

/// The texts and numbers of an answer.
fn leaves(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().flat_map(leaves).collect(),
        Value::Object(map) => map.values().flat_map(leaves).collect(),
        Value::String(text) => vec![text.clone()],
        Value::Number(number) => vec![number.to_string()],
        Value::Bool(_) | Value::Null => Vec::new(),
    }
}

/// Whether a text stands somewhere as a whole word: 2 does not stand in 12.
fn stands_in(leaf: &str, seen: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '.';
    seen.match_indices(leaf).any(|(at, _)| {
        let before = seen[..at].chars().next_back();
        let mut after = seen[at + leaf.len()..].chars();
        let next = after.next();
        // A number may end a sentence, or be written as 2.0.
        let ends = match next {
            Some('.') => after
                .next()
                .is_none_or(|c| !c.is_alphanumeric() || c == '0'),
            Some(c) => !c.is_alphanumeric(),
            None => true,
        };
        before.is_none_or(|c| !is_word(c)) && ends
    })
}
