//! Reports: the results of an evaluation, as a file, compared with earlier ones, and as a table of scores.

use cellblock_agent::{Format, RunStatus};
use cellblock_model::{Cost, Usage};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// The version of the file format.
const FORMAT_VERSION: u32 = 1;

/// The longest report that is read.
const MAX_REPORT_BYTES: u64 = 64 << 20;

/// The results of an evaluation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvalReport {
    cellblock_eval: u32,
    /// The name of the suite.
    pub suite: String,
    /// The name of the model.
    pub model: String,
    /// The source of the replies in more detail, where the user gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The action format. `None` where the model was asked without an agent.
    pub format: Option<Format>,
    /// When the evaluation began.
    pub date: String,
    /// Whether every task was run to its end. False after Ctrl-C.
    pub complete: bool,
    /// The sums over all tasks.
    pub totals: Totals,
    /// The result of each task, in the order of the suite.
    pub tasks: Vec<TaskReport>,
}

/// The sums over all tasks of an evaluation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// The share of tasks that passed, from 0 to 1. A task with several tries counts by the share of them that passed.
    pub score: f64,
    /// The number of tasks that passed.
    pub passed: usize,
    /// The number of tasks.
    pub tasks: usize,
    /// The steps of all runs.
    pub steps: usize,
    /// The replies that ran code, or tried to.
    pub code_actions: usize,
    /// The replies among `code_actions` that could be read without repair.
    pub parsed_at_first_try: usize,
    /// The cells that failed.
    pub failed_cells: usize,
    /// The tokens used.
    pub usage: Usage,
    /// The cost of the tokens, where prices are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// The duration of all tasks added up, in milliseconds.
    pub ms: u64,
}

/// The result of one task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskReport {
    /// The name of the task.
    pub name: String,
    /// Whether all checks hold.
    pub passed: bool,
    /// How the run ended. `None` where there was no run.
    pub status: Option<RunStatus>,
    /// Why there is no answer, or why the task did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The answer. A long one is cut.
    pub answer: Option<Value>,
    /// What the checks found wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// The calls of the task's tools, by the model or by its code.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<TestToolCall>,
    /// The steps of the run.
    pub steps: usize,
    /// The replies that ran code, or tried to.
    pub code_actions: usize,
    /// The replies among `code_actions` that could be read without repair.
    pub parsed_at_first_try: usize,
    /// The cells that failed.
    pub failed_cells: usize,
    /// Descriptions of what was repaired in replies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<String>,
    /// The replies that could not be read, so that the model was asked again.
    pub asked_again: usize,
    /// The tokens used.
    pub usage: Usage,
    /// The cost of the tokens, where prices are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// The duration of the task in milliseconds.
    pub ms: u64,
    /// How often the task was run beyond the first time. The numbers above are sums over all tries; the answer and the problems are those
    /// of the first try that failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_tries: usize,
    /// How many of these further tries passed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_passed: usize,
    /// Whether the first try passed, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_passed: Option<bool>,
}

/// The sum of two costs, of which one may not be known.
fn sum_of_costs(one: Option<Cost>, other: Option<Cost>) -> Option<Cost> {
    match (one, other) {
        (Some(Cost(one)), Some(Cost(other))) => Some(Cost(one + other)),
        _ => one.or(other),
    }
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl TaskReport {
    /// The share of tries that passed, from 0 to 1.
    pub fn score(&self) -> f64 {
        let first = usize::from(self.first_passed.unwrap_or(self.passed));
        (first + self.more_passed) as f64 / (1 + self.more_tries) as f64
    }

    /// Adds another try of the same task. The task passes if every try did.
    pub(crate) fn add_try(&mut self, next: TaskReport) {
        self.first_passed.get_or_insert(self.passed);
        self.more_tries += 1;
        self.more_passed += usize::from(next.passed);
        self.steps += next.steps;
        self.code_actions += next.code_actions;
        self.parsed_at_first_try += next.parsed_at_first_try;
        self.failed_cells += next.failed_cells;
        self.asked_again += next.asked_again;
        self.usage += next.usage;
        self.cost = sum_of_costs(self.cost, next.cost);
        self.ms += next.ms;
        if self.passed && !next.passed {
            (self.passed, self.status) = (false, next.status);
            (self.message, self.answer) = (next.message, next.answer);
            (self.problems, self.calls) = (next.problems, next.calls);
            self.repairs = next.repairs;
        }
    }
}

/// A call of one of a task's tools.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestToolCall {
    /// The name of the tool.
    pub tool: String,
    /// The arguments of the call.
    pub arguments: Map<String, Value>,
}

/// A report cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is too long.
    #[error("{}: it is longer than {max_mebibytes} MiB", path.display())]
    TooLong {
        /// The path of the file.
        path: PathBuf,
        /// The longest file that is read, in MiB.
        max_mebibytes: u64,
    },
    /// The file is not a report, or one of another version.
    #[error("{}: {problem}", path.display())]
    NotAReport {
        /// The path of the file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

impl EvalReport {
    /// A report without results.
    pub(crate) fn new(suite: &str, source: Option<String>) -> EvalReport {
        EvalReport {
            cellblock_eval: FORMAT_VERSION,
            suite: suite.to_owned(),
            model: String::new(),
            source,
            format: None,
            date: httpdate::fmt_http_date(std::time::SystemTime::now()),
            complete: false,
            totals: Totals::default(),
            tasks: Vec::new(),
        }
    }

    /// The name of the way in which the model was asked: the action format, or `plain`.
    pub fn mode_name(&self) -> &'static str {
        self.format.map_or("plain", Format::name)
    }

    /// Reads a report from a file.
    pub fn read(path: impl AsRef<Path>) -> Result<EvalReport, ReportError> {
        let path = path.as_ref();
        let unreadable = |source| ReportError::Io {
            path: path.to_owned(),
            source,
        };
        let unusable = |problem: String| ReportError::NotAReport {
            path: path.to_owned(),
            problem,
        };
        if std::fs::metadata(path).map_err(unreadable)?.len() > MAX_REPORT_BYTES {
            return Err(ReportError::TooLong {
                path: path.to_owned(),
                max_mebibytes: MAX_REPORT_BYTES >> 20,
            });
        }
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        let report: EvalReport = serde_json::from_str(&text).map_err(|error| {
            unusable(format!("these are not results of an evaluation: {error}"))
        })?;
        if report.cellblock_eval != FORMAT_VERSION {
            let version = report.cellblock_eval;
            return Err(unusable(format!(
                "it has version {version}; this program reads version {FORMAT_VERSION}"
            )));
        }
        Ok(report)
    }

    /// Writes the report to a file, whole or not at all. An older file is replaced.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), ReportError> {
        let path = path.as_ref();
        let unwritable = |source| ReportError::Io {
            path: path.to_owned(),
            source,
        };
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut text = serde_json::to_vec_pretty(self).map_err(|error| unwritable(error.into()))?;
        text.push(b'\n');
        let new = tempfile::Builder::new()
            .prefix(".eval-")
            .permissions(permissions())
            .tempfile_in(folder);
        let mut new = new.map_err(unwritable)?;
        new.write_all(&text).map_err(unwritable)?;
        new.persist(path).map_err(|error| unwritable(error.error))?;
        Ok(())
    }

    /// Computes the totals from the tasks.
    pub(crate) fn update_totals(&mut self) {
        let mut totals = Totals {
            tasks: self.tasks.len(),
            ..Totals::default()
        };
        for task in &self.tasks {
            totals.score += task.score();
            totals.passed += usize::from(task.passed);
            totals.steps += task.steps;
            totals.code_actions += task.code_actions;
            totals.parsed_at_first_try += task.parsed_at_first_try;
            totals.failed_cells += task.failed_cells;
            totals.usage += task.usage;
            totals.cost = sum_of_costs(totals.cost, task.cost);
            totals.ms += task.ms;
        }
        if totals.tasks > 0 {
            totals.score /= totals.tasks as f64;
        }
        self.totals = totals;
    }
}

impl Totals {
    /// The share of code actions that could be read without repair. `None` where there were no code actions.
    pub fn parsed_share(&self) -> Option<f64> {
        (self.code_actions > 0).then(|| self.parsed_at_first_try as f64 / self.code_actions as f64)
    }
}

/// The permissions of any new file: a report is no secret.
fn permissions() -> std::fs::Permissions {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::Permissions::from_mode(0o666)
}

/// The comparison of a report with an earlier one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportComparison {
    /// The score of the earlier report.
    pub score_before: f64,
    /// The score of this report.
    pub score_now: f64,
    /// The tasks that passed before and fail now.
    pub regressions: Vec<TaskChange>,
    /// The tasks that failed before and pass now.
    pub improvements: Vec<TaskChange>,
    /// The tasks that only this report has.
    pub added: Vec<String>,
    /// The tasks that only the earlier report has.
    pub removed: Vec<String>,
}

/// A task whose result changed.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskChange {
    /// The name of the task.
    pub task: String,
    /// What is wrong now, or was wrong before.
    pub problems: Vec<String>,
}

impl EvalReport {
    /// Compares the report with an earlier one, task by task.
    pub fn compare_with(&self, earlier: &EvalReport) -> ReportComparison {
        let mut changes = ReportComparison {
            score_before: earlier.totals.score,
            score_now: self.totals.score,
            ..ReportComparison::default()
        };
        for task in &self.tasks {
            let before = earlier.tasks.iter().find(|old| old.name == task.name);
            let change = |problems: &[String]| TaskChange {
                task: task.name.clone(),
                problems: problems.to_vec(),
            };
            match before {
                None => changes.added.push(task.name.clone()),
                Some(old) if old.passed && !task.passed => {
                    changes.regressions.push(change(&task.problems));
                }
                Some(old) if !old.passed && task.passed => {
                    changes.improvements.push(change(&old.problems));
                }
                Some(_) => {}
            }
        }
        let is_removed = |name: &String| !self.tasks.iter().any(|task| &task.name == name);
        let names = earlier.tasks.iter().map(|task| task.name.clone());
        changes.removed = names.filter(is_removed).collect();
        changes
    }
}

/// The beginning of the line before the table in a page.
const TABLE_BEGIN: &str = "<!-- scores: begin";

/// The line after the table.
const TABLE_END: &str = "<!-- scores: end -->";

/// A page has no marks between which the table could stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the page has no line that begins with `{TABLE_BEGIN}`, followed by a line `{TABLE_END}`")]
pub struct NoTableMarks;

/// The scores of many reports as a Markdown table: a row for each model and mode, and three columns for each suite.
pub fn score_table(reports: &[EvalReport]) -> String {
    let suites: BTreeSet<&str> = reports.iter().map(|report| &*report.suite).collect();
    // Without an agent before the formats.
    let rows: BTreeSet<(&str, usize, &str)> = reports
        .iter()
        .map(|report| {
            (
                &*report.model,
                usize::from(report.format.is_some()),
                report.mode_name(),
            )
        })
        .collect();
    let mut table = String::from("| model | asked |");
    for suite in &suites {
        table.push_str(&format!(
            " {suite} | steps, tokens | code read at the first try |"
        ));
    }
    table.push_str("\n| --- | --- |");
    table.push_str(&" --- | --- | --- |".repeat(suites.len()));
    table.push('\n');
    for (model, _, mode) in rows {
        let asked = match mode {
            "plain" => "without the agent".to_owned(),
            format => format!("`{format}`"),
        };
        table.push_str(&format!("| {} | {asked} |", escape_cell(model)));
        for suite in &suites {
            let found = reports
                .iter()
                .find(|it| it.suite == *suite && it.model == model && it.mode_name() == mode);
            table.push_str(&found.map_or(" | | |".to_owned(), columns));
        }
        table.push('\n');
    }
    table
}

/// Replaces the table in a page, between two comments.
pub fn replace_score_table(page: &str, table: &str) -> Result<String, NoTableMarks> {
    let begin = page.find(TABLE_BEGIN).ok_or(NoTableMarks)?;
    let body = begin + page[begin..].find('\n').ok_or(NoTableMarks)? + 1;
    let end = body + page[body..].find(TABLE_END).ok_or(NoTableMarks)?;
    Ok(format!("{}{table}{}", &page[..body], &page[end..]))
}

/// The three columns of a suite.
fn columns(report: &EvalReport) -> String {
    let totals = &report.totals;
    let unfinished = if report.complete {
        ""
    } else {
        ", not finished"
    };
    let share = totals
        .parsed_share()
        .map_or("–".to_owned(), |share| format!("{:.0} %", share * 100.0));
    format!(
        " {:.2} ({} of {}){unfinished} | {}, {} | {share} |",
        totals.score,
        totals.passed,
        totals.tasks,
        totals.steps,
        totals.usage.total(),
    )
}

/// A text that can stand in a Markdown table.
fn escape_cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
