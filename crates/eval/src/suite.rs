//! A file of tasks.

use crate::check::Check;
use crate::test_tools::TestTool;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// The longest file of tasks that is read.
const LONGEST: u64 = 16 << 20;

/// The longest name of a task. It is also the name of a file.
const LONGEST_NAME: usize = 64;

/// Tasks that belong together, from one TOML file.
#[derive(Clone, Debug, PartialEq)]
pub struct Suite {
    /// Its name.
    pub name: String,
    /// What it is about.
    pub description: String,
    /// The tasks, in the order of the file.
    pub tasks: Vec<Task>,
}

/// A question with everything that belongs to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Its name, unique in the suite.
    pub name: String,
    /// What is asked.
    pub question: String,
    /// What `get_secret` gives.
    pub secret: Option<String>,
    /// The tools that this task has.
    pub tools: Vec<TestTool>,
    /// The files in the workspace.
    pub files: Vec<TaskFile>,
    /// What the answer must look like, where that is asked for.
    pub schema: Option<Value>,
    /// What must be true in the end. All of them.
    pub checks: Vec<Check>,
}

/// A file that a task begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFile {
    /// Where it stands in the workspace.
    pub path: String,
    /// What is in it.
    pub contents: Vec<u8>,
}

/// A file of tasks that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct SuiteError {
    path: PathBuf,
    problem: String,
}

impl Suite {
    /// Reads a file of tasks, and checks it whole before anything runs.
    pub fn read(path: impl AsRef<Path>) -> Result<Suite, SuiteError> {
        let path = path.as_ref();
        let unusable = |problem: String| SuiteError {
            path: path.to_owned(),
            problem,
        };
        let size = std::fs::metadata(path).map_err(|error| unusable(error.to_string()))?;
        if size.len() > LONGEST {
            return Err(unusable(format!("it is longer than {} MiB", LONGEST >> 20)));
        }
        let text = std::fs::read_to_string(path).map_err(|error| unusable(error.to_string()))?;
        Suite::parse(&text).map_err(unusable)
    }

    /// The same from a text.
    pub fn parse(text: &str) -> Result<Suite, String> {
        let raw: RawSuite = toml::from_str(text).map_err(|error| error.to_string())?;
        raw.checked()
    }

    /// The suite with these tasks alone, in its own order.
    pub fn only(mut self, names: &[String]) -> Result<Suite, String> {
        for name in names {
            if !self.tasks.iter().any(|task| &task.name == name) {
                let known: Vec<&str> = self.tasks.iter().map(|task| &*task.name).collect();
                return Err(format!(
                    "there is no task `{name}`; the tasks are {}",
                    known.join(", ")
                ));
            }
        }
        self.tasks.retain(|task| names.contains(&task.name));
        Ok(self)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSuite {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    files: BTreeMap<String, RawFile>,
    tasks: Vec<RawTask>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTask {
    name: String,
    question: String,
    #[serde(default)]
    secret: Option<String>,
    #[serde(default)]
    tools: Vec<TestTool>,
    #[serde(default)]
    files: Vec<String>,
    #[serde(default)]
    schema: Option<Value>,
    checks: Vec<Check>,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a file is a text, or a table with the key `base64`"
)]
enum RawFile {
    Text(String),
    Bytes { base64: String },
}

impl RawSuite {
    fn checked(self) -> Result<Suite, String> {
        check_name("the suite", &self.name)?;
        if self.tasks.is_empty() {
            return Err("it has no tasks".to_owned());
        }
        let files = self
            .files
            .into_iter()
            .map(|(path, file)| Ok((path.clone(), file.read(&path)?)))
            .collect::<Result<BTreeMap<String, TaskFile>, String>>()?;
        let mut names = BTreeSet::new();
        let mut tasks = Vec::new();
        for raw in self.tasks {
            if !names.insert(raw.name.clone()) {
                return Err(format!("there are two tasks with the name `{}`", raw.name));
            }
            tasks.push(raw.checked(&files)?);
        }
        Ok(Suite {
            name: self.name,
            description: self.description,
            tasks,
        })
    }
}

impl RawTask {
    fn checked(self, files: &BTreeMap<String, TaskFile>) -> Result<Task, String> {
        check_name("a task", &self.name)?;
        let wrong = |problem: String| format!("task `{}`: {problem}", self.name);
        if self.question.trim().is_empty() {
            return Err(wrong("the question is empty".to_owned()));
        }
        if self.checks.is_empty() {
            return Err(wrong("it has no checks: nothing could fail".to_owned()));
        }
        if self.tools.contains(&TestTool::GetSecret) != self.secret.is_some() {
            return Err(wrong(
                "the tool `get_secret` and the key `secret` need each other".to_owned(),
            ));
        }
        for check in &self.checks {
            check.goes_with(&self.tools).map_err(&wrong)?;
        }
        let files = self
            .files
            .iter()
            .map(|path| {
                let file = files.get(path).cloned();
                file.ok_or_else(|| wrong(format!("the suite has no file `{path}`")))
            })
            .collect::<Result<_, String>>()?;
        Ok(Task {
            name: self.name,
            question: self.question,
            secret: self.secret,
            tools: self.tools,
            files,
            schema: self.schema,
            checks: self.checks,
        })
    }
}

impl RawFile {
    fn read(self, path: &str) -> Result<TaskFile, String> {
        let parts = || Path::new(path).components();
        let is_inside = parts().all(|part| matches!(part, Component::Normal(_)));
        if parts().next().is_none() || !is_inside {
            return Err(format!(
                "file `{path}`: it must be a relative path inside of the workspace"
            ));
        }
        let contents = match self {
            RawFile::Text(text) => text.into_bytes(),
            RawFile::Bytes { base64 } => {
                let letters: String = base64.split_whitespace().collect();
                let bytes = STANDARD.decode(letters);
                bytes.map_err(|error| format!("file `{path}`: this is not base64: {error}"))?
            }
        };
        Ok(TaskFile {
            path: path.to_owned(),
            contents,
        })
    }
}

/// Names become names of files, so nothing is allowed in them that could lead elsewhere.
fn check_name(whose: &str, name: &str) -> Result<(), String> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(is_good) {
        return Err(format!(
            "the name of {whose}, {name:?}, must have 1 to {LONGEST_NAME} letters, digits, `_` or `-`"
        ));
    }
    Ok(())
}
