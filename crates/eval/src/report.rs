//! What came of an evaluation, as a value and as a file.

use cellblock_agent::{Format, RunStatus};
use cellblock_model::Usage;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The version of the file.
const VERSION: u32 = 1;

/// The longest file that is read.
const LONGEST: u64 = 64 << 20;

/// What came of a suite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    cellblock_eval: u32,
    /// The suite.
    pub suite: String,
    /// The model, as it is called.
    pub model: String,
    /// Who answered: more than a name, where someone said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// How the model acted; nothing where it was asked without an agent.
    pub format: Option<Format>,
    /// When it began.
    pub date: String,
    /// Whether every task came to its end: false after Ctrl-C.
    pub complete: bool,
    /// All tasks together.
    pub totals: Totals,
    /// Each task, in the order of the suite.
    pub tasks: Vec<TaskReport>,
}

/// All tasks together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// The share of tasks that passed, 0 to 1.
    pub score: f64,
    /// How many passed.
    pub passed: usize,
    /// How many there are.
    pub tasks: usize,
    /// Steps of all runs.
    pub steps: usize,
    /// Replies that ran code, or tried to.
    pub code_actions: usize,
    /// Those of them that could be read as they came.
    pub parsed_at_first_try: usize,
    /// Cells that failed.
    pub failed_cells: usize,
    /// Tokens.
    pub usage: Usage,
    /// The times of all tasks added up, in milliseconds.
    pub ms: u64,
}

/// What came of a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskReport {
    /// The task.
    pub name: String,
    /// Whether all of its checks hold.
    pub passed: bool,
    /// How its run ended; nothing where there was none.
    pub status: Option<RunStatus>,
    /// Why there is no answer, or why it did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The answer, cut where it is long.
    pub answer: Option<Value>,
    /// What the checks found wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// Calls of the task's tools, by the model or by its code.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Called>,
    /// Steps.
    pub steps: usize,
    /// Replies that ran code, or tried to.
    pub code_actions: usize,
    /// Those of them that could be read as they came.
    pub parsed_at_first_try: usize,
    /// Cells that failed.
    pub failed_cells: usize,
    /// What was repaired in replies, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<String>,
    /// Replies that could not be used, so that the model was asked again.
    pub asked_again: usize,
    /// Tokens.
    pub usage: Usage,
    /// How long it took, in milliseconds.
    pub ms: u64,
}

/// A call of one of the task's tools.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Called {
    /// The tool.
    pub tool: String,
    /// What it was given.
    pub arguments: Map<String, Value>,
}

/// A file of results that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct ReportError {
    path: PathBuf,
    problem: String,
}

impl Report {
    /// A report about nothing yet.
    pub(crate) fn new(suite: &str, source: Option<String>) -> Report {
        Report {
            cellblock_eval: VERSION,
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

    /// The word for how the model was asked.
    pub fn way(&self) -> &'static str {
        self.format.map_or("plain", Format::name)
    }

    /// Reads a file of results.
    pub fn read(path: impl AsRef<Path>) -> Result<Report, ReportError> {
        let path = path.as_ref();
        let unusable = |problem: String| ReportError::new(path, problem);
        let size = std::fs::metadata(path).map_err(|error| unusable(error.to_string()))?;
        if size.len() > LONGEST {
            return Err(unusable(format!("it is longer than {} MiB", LONGEST >> 20)));
        }
        let text = std::fs::read_to_string(path).map_err(|error| unusable(error.to_string()))?;
        let report: Report = serde_json::from_str(&text).map_err(|error| {
            unusable(format!("these are not results of an evaluation: {error}"))
        })?;
        if report.cellblock_eval != VERSION {
            let version = report.cellblock_eval;
            return Err(unusable(format!(
                "it has version {version}; this program reads version {VERSION}"
            )));
        }
        Ok(report)
    }

    /// Writes a file of results. It is there whole or not at all; an older one is replaced.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), ReportError> {
        let path = path.as_ref();
        let unwritable = |problem: String| ReportError::new(path, problem);
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut text =
            serde_json::to_vec_pretty(self).map_err(|error| unwritable(error.to_string()))?;
        text.push(b'\n');
        let new = tempfile::Builder::new()
            .prefix(".eval-")
            .permissions(permissions())
            .tempfile_in(folder);
        let mut new = new.map_err(|error| unwritable(error.to_string()))?;
        new.write_all(&text)
            .map_err(|error| unwritable(error.to_string()))?;
        new.persist(path)
            .map_err(|error| unwritable(error.error.to_string()))?;
        Ok(())
    }

    /// Adds up what the tasks came to.
    pub(crate) fn add_up(&mut self) {
        let mut totals = Totals {
            tasks: self.tasks.len(),
            ..Totals::default()
        };
        for task in &self.tasks {
            totals.passed += usize::from(task.passed);
            totals.steps += task.steps;
            totals.code_actions += task.code_actions;
            totals.parsed_at_first_try += task.parsed_at_first_try;
            totals.failed_cells += task.failed_cells;
            totals.usage += task.usage;
            totals.ms += task.ms;
        }
        if totals.tasks > 0 {
            totals.score = totals.passed as f64 / totals.tasks as f64;
        }
        self.totals = totals;
    }
}

impl Totals {
    /// The share of code actions that could be read as they came; nothing where there were none.
    pub fn parsed_share(&self) -> Option<f64> {
        (self.code_actions > 0).then(|| self.parsed_at_first_try as f64 / self.code_actions as f64)
    }
}

impl ReportError {
    fn new(path: &Path, problem: String) -> ReportError {
        ReportError {
            path: path.to_owned(),
            problem,
        }
    }
}

/// Results are no secret: as a plain new file would be.
fn permissions() -> std::fs::Permissions {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::Permissions::from_mode(0o666)
}
