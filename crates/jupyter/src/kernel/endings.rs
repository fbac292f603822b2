//! What a notebook is told about a cell that did not end well.

use super::Advice;
use super::execution::Counts;
use cellblock_protocol::{CellResult, StateAfterCell, StateOutcome, Status};
use serde_json::{Value, json};

/// A failed cell, as the messages `error` and `execute_reply` tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    name: String,
    value: String,
    traceback: Vec<String>,
    ending: Value,
}

impl Failure {
    /// The kernel could not run something.
    pub(super) fn of_kernel(problem: String) -> Self {
        Self {
            traceback: vec![problem.clone()],
            name: "CellblockError".to_owned(),
            value: problem,
            ending: Value::Null,
        }
    }

    /// An expression failed: `PythonError: NameError: name 'x' is not defined`.
    pub(super) fn of_expression(error: &str) -> Self {
        let text = error.strip_prefix("PythonError: ").unwrap_or(error);
        let (name, value) = text.split_once(": ").unwrap_or(("Exception", text));
        Self {
            name: name.to_owned(),
            value: value.to_owned(),
            traceback: vec![text.to_owned()],
            ending: Value::Null,
        }
    }

    /// A cell failed, crashed, took too long or was interrupted.
    pub(super) fn of_cell(result: &CellResult, counts: &Counts, advice: Option<Advice>) -> Self {
        let ending = json!({
            "status": result.status,
            "exit_code": result.exit_code,
            "signal": result.signal,
        });
        let mut failure = match &result.error {
            Some(error) => Self {
                name: error.type_.clone(),
                value: error.value.clone(),
                traceback: with_counts(&error.traceback, counts)
                    .lines()
                    .map(str::to_owned)
                    .collect(),
                ending,
            },
            None => {
                let name = match result.status {
                    Status::Timeout => "Timeout",
                    Status::Interrupted => "KeyboardInterrupt",
                    _ => "Crashed",
                };
                let value = how_it_ended(result);
                Self {
                    traceback: vec![format!("{name}: {value}")],
                    name: name.to_owned(),
                    value,
                    ending,
                }
            }
        };
        let own = result.error.as_ref().and_then(|error| error.hint.clone());
        let is_replaced = advice.as_ref().is_some_and(|advice| advice.replaces_hint);
        let hints = own.filter(|_| !is_replaced).into_iter();
        let hints = hints.chain(advice.map(|advice| advice.text));
        failure
            .traceback
            .extend(hints.flat_map(|hint| [String::new(), format!("hint: {hint}")]));
        failure
    }

    /// What the host knows of the end of the cell; null where no cell was run.
    pub(super) fn ending(&self) -> Value {
        self.ending.clone()
    }

    /// The contents of the message `error`.
    pub(super) fn content(&self) -> Value {
        json!({"ename": self.name, "evalue": self.value, "traceback": self.traceback})
    }

    /// The answer to an expression of the client's.
    pub(super) fn expression(&self) -> Value {
        let mut content = self.content();
        content["status"] = "error".into();
        content
    }
}

/// What the notebook must know of the state after a cell that ended Python; none where the variables are those that the cell left.
pub(super) fn notice(result: &CellResult, counts: &Counts) -> Option<String> {
    let after = match result.state.outcome {
        StateOutcome::Kept => return None,
        StateOutcome::Restored => state_before(&result.state, counts),
        StateOutcome::Ended => {
            "there was no checkpoint: all variables are gone, and the next cell begins anew"
                .to_owned()
        }
    };
    let mut text = format!("Cellblock: {}; {after}.\n", how_it_ended(result));
    for missing in result.state.not_restored.iter().take(10) {
        text.push_str(&format!("  not restored: {missing}\n"));
    }
    Some(text)
}

fn state_before(state: &StateAfterCell, counts: &Counts) -> String {
    if !state.lost.is_empty() {
        let lost: Vec<String> = state
            .lost
            .iter()
            .map(|cell| match counts.of_cell(*cell) {
                Some(count) => format!("In [{count}]"),
                None => format!("<cell {cell}>"),
            })
            .collect();
        return format!(
            "the newest checkpoint was older, so what these cells did is gone too: {}",
            lost.join(", ")
        );
    }
    if state.has_variables_of_before() {
        "the kernel goes on, and variables and files are those from before the cell".to_owned()
    } else {
        "the kernel goes on with the state of its newest checkpoint".to_owned()
    }
}

fn how_it_ended(result: &CellResult) -> String {
    match (result.status, result.signal, result.exit_code) {
        (Status::Timeout, ..) => {
            let seconds = result.usage.wall.as_secs_f64();
            format!("the cell was stopped by its time limit after {seconds:.1} s")
        }
        (Status::Interrupted, ..) => "the cell was interrupted".to_owned(),
        (Status::Failure, ..) => "the cell failed".to_owned(),
        (_, Some(signal), _) => format!("the cell ended Python (signal {signal})"),
        (_, None, Some(code)) => format!("the cell ended Python (exit code {code})"),
        _ => "the cell ended Python".to_owned(),
    }
}

/// A traceback in which cells have the counts of the notebook: `<cell In[3]>` for `<cell 5>`.
fn with_counts(traceback: &str, counts: &Counts) -> String {
    const MARK: &str = "<cell ";
    let mut text = String::with_capacity(traceback.len());
    let mut rest = traceback;
    while let Some(start) = rest.find(MARK) {
        let after = &rest[start + MARK.len()..];
        let digits = after.find(|letter: char| !letter.is_ascii_digit());
        let (number, tail) = after.split_at(digits.unwrap_or(after.len()));
        let count = number
            .parse()
            .ok()
            .and_then(|cell| counts.of_cell(cell))
            .filter(|_| tail.starts_with('>'));
        text.push_str(&rest[..start + MARK.len()]);
        match count {
            Some(count) => text.push_str(&format!("In[{count}]")),
            None => text.push_str(number),
        }
        rest = tail;
    }
    text + rest
}
