//! Verification: the cells that led to an answer run again, and the results are compared.

mod evidence;
mod numbers;
mod text_parts;

use crate::agent::AgentConfig;
use crate::executor::{ExecutorOptions, OpenExecutor, WorkspaceChoice};
use crate::run::{ActionResult, Outcome};
use cellblock_protocol::{Cell, CellResult, FileChange, StateOutcome};
use cellblock_tools::names::{CHECKPOINTS, COMPUTE, FINAL_ANSWER, UNDO};
use cellblock_tools::{Approval, ApprovalMode, ApprovalPolicy, Call, Caller, Recording};
use evidence::Evidence;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The result of running the cells of an answer again in a clean session, with the recorded results of tools.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verification {
    /// The number of cells that ran again.
    pub cells: usize,
    /// Where the second run differs from the first.
    pub differences: Vec<Difference>,
    /// Whether the answer was found in what the second run produced. `None` in records of older versions.
    pub answer_was_computed: Option<bool>,
    /// The parts of the answer that were not found: numbers, names, or the answer as a whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untraced: Vec<String>,
}

/// The bytes of one file that is compared, or searched for the answer.
const MAX_FILE_BYTES: usize = 16 << 20;

/// The files that are searched for the answer.
const MAX_FILES: usize = 50;

/// The parts of an answer that a warning names.
const MAX_NAMED_PARTS: usize = 5;

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
    /// Whether nothing differs, and the answer was found in what the second run produced.
    pub fn is_confirmed(&self) -> bool {
        self.differences.is_empty() && self.answer_was_computed == Some(true)
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
            warnings.push(match self.untraced.as_slice() {
                [] => "verify: the answer is unverified: no code and no tool gave anything".to_owned(),
                parts => {
                    let named: Vec<String> = parts
                        .iter()
                        .take(MAX_NAMED_PARTS)
                        .map(|part| format!("{part:?}"))
                        .collect();
                    format!(
                        "verify: the answer is unverified: nothing that the code or a tool gave has {}",
                        named.join(", ")
                    )
                }
            });
        }
        warnings
    }
}

/// Runs the cells that led to the answer again, and looks for the answer in what they give.
///
/// `first` is the executor of the run itself, with the files that it left.
pub(crate) async fn verify(
    config: &AgentConfig,
    outcome: &Outcome,
    question: &str,
    recording: Recording,
    first: &dyn OpenExecutor,
) -> Verification {
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
    let mut second = SecondRun::default();
    for done in actions_of_answer(outcome) {
        second.repeat(done, executor.as_ref()).await;
    }
    let answer = outcome.answer.as_ref();
    let shown = outcome.answer_text();
    second.compare_files(&shown, first, executor.as_ref()).await;
    executor.close().await;
    let untraced = match answer {
        Some(answer) if second.has_results => second.evidence.untraced(answer, question),
        _ => Vec::new(),
    };
    Verification {
        cells: second.cells,
        differences: second.differences,
        answer_was_computed: Some(second.has_results && untraced.is_empty()),
        untraced,
    }
}

/// The second run of the actions that led to an answer.
#[derive(Default)]
struct SecondRun {
    cells: usize,
    /// Whether anything gave a result.
    has_results: bool,
    differences: Vec<Difference>,
    evidence: Evidence,
    /// The files that the cells wrote.
    files: Vec<String>,
}

impl SecondRun {
    /// Does an action again: a cell and an expression run; another tool gave the result that was recorded.
    async fn repeat(&mut self, done: &ActionResult, executor: &dyn OpenExecutor) {
        match (&done.code, &done.result) {
            (Some(code), Some(before)) => self.repeat_cell(done, code, before, executor).await,
            _ if done.name == COMPUTE => self.repeat_expression(done, executor).await,
            _ => {
                self.evidence.add_text(&done.text);
                self.has_results = true;
            }
        }
    }

    async fn repeat_cell(
        &mut self,
        done: &ActionResult,
        code: &str,
        before: &CellResult,
        executor: &dyn OpenExecutor,
    ) {
        self.cells += 1;
        let cell = Cell {
            timeout: done.timeout,
            ..Cell::new(code)
        };
        let ran = executor.run(cell, None).await;
        let Some(after) = ran.result else {
            let status = before.status.name();
            let difference = difference(self.cells, "status", status, &ran.text);
            self.differences.push(difference);
            return;
        };
        compare(self.cells, before, &after, &mut self.differences);
        self.has_results = true;
        self.evidence.add_text(&after.output);
        if let Some(value) = &after.value {
            self.evidence.add_text(&value.repr);
        }
        let calls = after.tool_calls.iter();
        for call in calls.filter(|call| call.name == FINAL_ANSWER) {
            if let Some(answer) = call.arguments.to_map().get("answer") {
                self.evidence.add_answer(answer.clone());
            }
        }
        let written = after.files.created.iter().chain(&after.files.changed);
        self.files.extend(written.map(|file| file.path.clone()));
    }

    async fn repeat_expression(&mut self, done: &ActionResult, executor: &dyn OpenExecutor) {
        let arguments = done.arguments.as_ref().and_then(Value::as_object);
        let call = Call {
            id: String::new(),
            name: COMPUTE.to_owned(),
            arguments: arguments.cloned().unwrap_or_default().into(),
            caller: Caller::User,
        };
        let outcome = executor.call(call, None).await;
        if let Ok(output) = outcome.answer.outcome {
            self.evidence.add_text(&output.to_text());
            self.has_results = true;
        }
    }

    /// Compares the contents of files that the answer names, and adds the texts of written files to the evidence.
    async fn compare_files(
        &mut self,
        answer: &str,
        first: &dyn OpenExecutor,
        second: &dyn OpenExecutor,
    ) {
        let mut files = std::mem::take(&mut self.files);
        files.sort();
        files.dedup();
        for path in files.iter().take(MAX_FILES) {
            let Ok(now) = second.get_file(path).await else {
                continue;
            };
            if now.len() > MAX_FILE_BYTES {
                continue;
            }
            let name = path.rsplit('/').next().unwrap_or(path);
            if answer.contains(name) {
                match first.get_file(path).await {
                    Ok(before) if before == now => {
                        self.evidence.add_same_file(name);
                        self.evidence.add_same_file(path);
                    }
                    Ok(before) => {
                        let what = format!("the content of {path}");
                        let (before, now) = (before.len(), now.len());
                        let [before, now] = [before, now].map(|bytes| format!("{bytes} bytes"));
                        let difference = difference(self.cells, &what, &before, &now);
                        self.differences.push(difference);
                    }
                    Err(_) => {}
                }
            }
            if let Ok(text) = std::str::from_utf8(&now) {
                self.evidence.add_text(text);
            }
        }
    }
}

/// The actions that led to the answer, in order: cells whose state was kept and that were not taken back, and tools that succeeded.
fn actions_of_answer(outcome: &Outcome) -> Vec<&ActionResult> {
    let mut actions: Vec<&ActionResult> = Vec::new();
    for done in outcome.steps.iter().flat_map(|step| &step.actions) {
        match &done.result {
            Some(result) if result.state.outcome == StateOutcome::Kept => actions.push(done),
            Some(_) => {}
            None if done.name == UNDO && done.ok => remove_undone(&mut actions, done),
            None if done.code.is_some() || done.name == CHECKPOINTS => {}
            None if done.ok => actions.push(done),
            None => {}
        }
    }
    actions
}

/// Removes the last cells, as the tool `undo` did.
fn remove_undone(actions: &mut Vec<&ActionResult>, undo: &ActionResult) {
    let arguments = undo.arguments.as_ref();
    let count = arguments
        .and_then(|arguments| arguments.get("count"))
        .and_then(Value::as_u64);
    for _ in 0..count.unwrap_or(1) {
        let Some(last) = actions.iter().rposition(|done| done.result.is_some()) else {
            return;
        };
        actions.remove(last);
    }
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
