//! Verification: the cells that led to an answer run again, and the results are compared.

use crate::agent::AgentConfig;
use crate::executor::{ExecutorOptions, WorkspaceChoice};
use crate::run::{ActionResult, Outcome};
use cellblock_protocol::{Cell, CellResult, FileChange, StateOutcome};
use cellblock_tools::names::UNDO;
use cellblock_tools::{Approval, ApprovalMode, ApprovalPolicy, Recording};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The result of running the cells of an answer again in a clean session, with the recorded results of tools.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verification {
    /// The number of cells that ran again.
    pub cells: usize,
    /// Where the second run differs from the first.
    pub differences: Vec<Difference>,
    /// For a typed answer: whether its numbers and texts stand in a result of a cell or a tool.
    pub answer_was_computed: Option<bool>,
}

/// A difference between the two runs of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The number of the cell, from 1, in the order in which the cells ran.
    pub cell: usize,
    /// What differs: `status`, `stdout`, `value` or `files`.
    pub what: String,
    /// The value of the first run.
    pub before: String,
    /// The value of the second run.
    pub after: String,
}

impl Verification {
    /// Whether nothing differs, and the answer was computed.
    pub fn is_confirmed(&self) -> bool {
        self.differences.is_empty() && self.answer_was_computed != Some(false)
    }

    /// The differences as warnings for people.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = self
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
            warnings.push("verify: no cell and no tool gave the answer".to_owned());
        }
        warnings
    }
}

/// Runs the cells that led to the answer again.
pub(crate) async fn verify(
    config: &AgentConfig,
    outcome: &Outcome,
    recording: Recording,
) -> Verification {
    let cells = kept_cells(outcome);
    let executor = config.executor.open(ExecutorOptions {
        registry: config.registry.clone(),
        seed: config.seed.clone(),
        // The cells were approved when they ran first, and tools are not called.
        approval: Approval::new(ApprovalPolicy::mode(ApprovalMode::Never), None),
        locale: config.locale,
        workspace: WorkspaceChoice::Fresh,
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
        let ran = executor.run(cell, None).await;
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
    executor.close().await;
    let is_typed = config.answer_schema.is_some();
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
        leaf_values(answer)
            .iter()
            .all(|leaf| contains_word(&seen, leaf))
    });
    Verification {
        cells: cells.len(),
        differences,
        answer_was_computed,
    }
}

/// The cells whose state was kept, without those that were taken back later.
fn kept_cells(outcome: &Outcome) -> Vec<&ActionResult> {
    let mut cells: Vec<&ActionResult> = Vec::new();
    for done in outcome.steps.iter().flat_map(|step| &step.actions) {
        if let Some(result) = &done.result {
            if result.state.outcome == StateOutcome::Kept {
                cells.push(done);
            }
        } else if done.name == UNDO && done.ok {
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

/// A text without the addresses of objects, such as `<object at 0x7f…>`, which differ from run to run.
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
fn leaf_values(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().flat_map(leaf_values).collect(),
        Value::Object(map) => map.values().flat_map(leaf_values).collect(),
        Value::String(text) => vec![text.clone()],
        Value::Number(number) => vec![number.to_string()],
        Value::Bool(_) | Value::Null => Vec::new(),
    }
}

/// Whether a text contains a value as a whole word: 12 does not contain 2.
fn contains_word(text: &str, word: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '.';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let mut after = text[at + word.len()..].chars();
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
