//! Suites: files of tasks in TOML.

use crate::check::{Check, is_inside_workspace};
use crate::test_tools::TestTool;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

/// The longest suite file that is read.
const MAX_SUITE_BYTES: u64 = 16 << 20;

/// The longest name of a task. It is also the name of a file.
const MAX_NAME_BYTES: usize = 64;

/// Tasks that belong together, from one TOML file.
///
/// ```
/// use cellblock_eval::Suite;
///
/// let suite = Suite::parse(r#"
///     name = "sums"
///     [[tasks]]
///     name = "small"
///     question = "What is 2 + 2?"
///     checks = [{ check = "number", value = 4 }]
/// "#)?;
/// assert_eq!(suite.tasks[0].name, "small");
/// # Ok::<(), cellblock_eval::InvalidSuite>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Suite {
    /// The name of the suite.
    pub name: String,
    /// What the suite is about.
    pub description: String,
    /// The tasks, in the order of the file.
    pub tasks: Vec<Task>,
}

/// A question with its tools, files and checks.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// The name of the task, unique in the suite.
    pub name: String,
    /// The question.
    pub question: String,
    /// The result of the tool `get_secret`.
    pub secret: Option<String>,
    /// The tools of this task.
    pub tools: Vec<TestTool>,
    /// The files that are in the workspace at the beginning.
    pub files: Vec<TaskFile>,
    /// The JSON schema of the answer, where there is one.
    pub schema: Option<Value>,
    /// What must be true in the end. The task passes if all of them hold.
    pub checks: Vec<Check>,
}

/// A file of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFile {
    /// The path in the workspace.
    pub path: String,
    /// The content of the file.
    pub contents: Vec<u8>,
}

/// A suite cannot be read, or lacks a task.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SuiteError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
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
    /// The file is not a valid suite.
    #[error("{}: {problem}", path.display())]
    Invalid {
        /// The path of the file.
        path: PathBuf,
        /// What is wrong with it.
        problem: InvalidSuite,
    },
    /// The suite has no task of this name.
    #[error("there is no task `{name}`; the tasks are {}", known.join(", "))]
    UnknownTask {
        /// The name that was looked for.
        name: String,
        /// The names of the suite's tasks.
        known: Vec<String>,
    },
}

/// What is wrong with the text of a suite. The message names the task or the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSuite(String);

impl Suite {
    /// Reads a suite from a file, and checks all of it before anything runs.
    pub fn read(path: impl AsRef<Path>) -> Result<Suite, SuiteError> {
        let path = path.as_ref();
        let unreadable = |source| SuiteError::Unreadable {
            path: path.to_owned(),
            source,
        };
        if std::fs::metadata(path).map_err(unreadable)?.len() > MAX_SUITE_BYTES {
            return Err(SuiteError::TooLong {
                path: path.to_owned(),
                max_mebibytes: MAX_SUITE_BYTES >> 20,
            });
        }
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Suite::parse_in(&text, Some(folder)).map_err(|problem| SuiteError::Invalid {
            path: path.to_owned(),
            problem,
        })
    }

    /// Reads a suite from a text. Its files cannot be files on disk.
    pub fn parse(text: &str) -> Result<Suite, InvalidSuite> {
        Suite::parse_in(text, None)
    }

    fn parse_in(text: &str, folder: Option<&Path>) -> Result<Suite, InvalidSuite> {
        let raw: RawSuite =
            toml::from_str(text).map_err(|error| InvalidSuite(error.to_string()))?;
        raw.checked(folder).map_err(InvalidSuite)
    }

    /// The suite with only these tasks, in the order of the file.
    pub fn with_tasks(mut self, names: &[String]) -> Result<Suite, SuiteError> {
        for name in names {
            if !self.tasks.iter().any(|task| &task.name == name) {
                return Err(SuiteError::UnknownTask {
                    name: name.clone(),
                    known: self.tasks.into_iter().map(|task| task.name).collect(),
                });
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
    question: RawQuestion,
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
    expecting = "a question is a text, or a table with the key `path`"
)]
enum RawQuestion {
    Text(String),
    /// A text file beside the suite, by its path from there.
    Disk {
        path: PathBuf,
    },
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a file is a text, or a table with the key `base64` or `path`"
)]
enum RawFile {
    Text(String),
    Bytes {
        base64: String,
    },
    /// A file beside the suite, by its path from there.
    Disk {
        path: PathBuf,
    },
}

impl RawSuite {
    fn checked(self, folder: Option<&Path>) -> Result<Suite, String> {
        check_name("the suite", &self.name)?;
        if self.tasks.is_empty() {
            return Err("it has no tasks".to_owned());
        }
        let files = self
            .files
            .into_iter()
            .map(|(path, file)| Ok((path.clone(), file.read(&path, folder)?)))
            .collect::<Result<BTreeMap<String, TaskFile>, String>>()?;
        let mut names = BTreeSet::new();
        let mut tasks = Vec::new();
        for raw in self.tasks {
            if !names.insert(raw.name.clone()) {
                return Err(format!("there are two tasks with the name `{}`", raw.name));
            }
            tasks.push(raw.checked(&files, folder)?);
        }
        Ok(Suite {
            name: self.name,
            description: self.description,
            tasks,
        })
    }
}

impl RawTask {
    fn checked(
        self,
        files: &BTreeMap<String, TaskFile>,
        folder: Option<&Path>,
    ) -> Result<Task, String> {
        check_name("a task", &self.name)?;
        let wrong = |problem: String| format!("task `{}`: {problem}", self.name);
        let question = self.question.read(folder).map_err(&wrong)?;
        if question.trim().is_empty() {
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
            check.validate_for(&self.tools).map_err(&wrong)?;
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
            question,
            secret: self.secret,
            tools: self.tools,
            files,
            schema: self.schema,
            checks: self.checks,
        })
    }
}

impl RawQuestion {
    fn read(&self, folder: Option<&Path>) -> Result<String, String> {
        match self {
            RawQuestion::Text(text) => Ok(text.clone()),
            RawQuestion::Disk { path } => {
                let text = String::from_utf8(read_beside_suite(folder, path)?);
                let text = text.map_err(|_| format!("{}: it is not UTF-8", path.display()))?;
                Ok(text.trim_end().to_owned())
            }
        }
    }
}

impl RawFile {
    fn read(self, path: &str, folder: Option<&Path>) -> Result<TaskFile, String> {
        if !is_inside_workspace(path) {
            return Err(format!(
                "file `{path}`: it must be a relative path inside of the workspace"
            ));
        }
        let contents = match self {
            RawFile::Text(text) => text.into_bytes(),
            RawFile::Bytes { base64 } => {
                let digits: String = base64.split_whitespace().collect();
                let bytes = STANDARD.decode(digits);
                bytes.map_err(|error| format!("file `{path}`: this is not base64: {error}"))?
            }
            RawFile::Disk { path: source } => read_beside_suite(folder, &source)
                .map_err(|problem| format!("file `{path}`: {problem}"))?,
        };
        Ok(TaskFile {
            path: path.to_owned(),
            contents,
        })
    }
}

/// Reads a file by its path from the folder of the suite.
fn read_beside_suite(folder: Option<&Path>, path: &Path) -> Result<Vec<u8>, String> {
    let folder = folder.ok_or("a path needs a suite that is a file itself")?;
    let path = folder.join(path);
    let wrong = |problem: String| format!("{}: {problem}", path.display());
    let length = std::fs::metadata(&path).map_err(|error| wrong(error.to_string()))?;
    if length.len() > MAX_SUITE_BYTES {
        return Err(wrong(format!(
            "it is longer than {} MiB",
            MAX_SUITE_BYTES >> 20
        )));
    }
    std::fs::read(&path).map_err(|error| wrong(error.to_string()))
}

/// Checks a name. It becomes the name of a file, so it must not be a path that leads elsewhere.
fn check_name(whose: &str, name: &str) -> Result<(), String> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.chars().all(is_good) {
        return Err(format!(
            "the name of {whose}, {name:?}, must have 1 to {MAX_NAME_BYTES} letters, digits, `_` or `-`"
        ));
    }
    Ok(())
}
