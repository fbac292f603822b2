//! Processes beside the interpreter of a session: what is asked for, and what is told of them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::json::duration::milliseconds;
use crate::json::fields::{Field, Fields};
use crate::json::invalid::{Invalid, shown, shown_text};
use crate::json::quantity::{Seconds, check_seconds, to_duration};

/// Most bytes of the arguments, the variables and the directory of a process together.
pub const MAX_SPAWN_BYTES: usize = 100_000;
/// Most arguments, and most variables.
pub const MAX_SPAWN_STRINGS: usize = 1_000;
/// Most bytes of a tag.
const MAX_TAG_BYTES: usize = 1_000;

/// A process to start beside the interpreter of a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Spawn {
    /// The program and its arguments. A program without a slash is looked for on the `PATH` of the process.
    pub argv: Vec<String>,
    /// The working directory: absolute in the session, or below the workspace. The workspace when absent.
    pub cwd: Option<String>,
    /// Variables beside those of the session, or in their place.
    pub env: BTreeMap<String, String>,
    /// Whether something will be written to the standard input. Else it is `/dev/null`.
    pub stdin: bool,
    /// A terminal of this size in place of the pipes.
    pub pty: Option<TerminalSize>,
    /// A text of the caller's, which [`ProcessInfo`] shows.
    pub tag: Option<String>,
    /// The time after which the process is ended with all that it started.
    pub timeout: Option<Duration>,
}

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
}

/// A process that was started, and what it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessInfo {
    /// Its name in the session: `p1`, `p2`, …
    pub proc: String,
    /// Its process id in the session.
    pub pid: u32,
    /// The text that came with the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The directory in which it was started.
    pub cwd: String,
    /// When it was started, in seconds since 1970.
    pub since: f64,
}

/// A stream that a process writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProcessStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// Its terminal.
    Pty,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ProcessEnd {
    /// Its exit code, if it ended by itself.
    pub exit_code: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// Why it ended.
    pub status: ProcessStatus,
    /// CPU time, with that of its children that it waited for. In JSON: `cpu_ms`, milliseconds.
    #[serde(rename = "cpu_ms", with = "milliseconds")]
    pub cpu: Duration,
    /// The most bytes of memory that it held.
    pub peak_bytes: u64,
}

/// Why a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessStatus {
    /// By itself, with an exit code.
    Exited,
    /// By a signal: of its own, of another process, of the caller's, or of the kernel's for want of memory.
    Signaled,
    /// Its time was over.
    Timeout,
    /// The caller had it ended, with all that it started.
    Killed,
    /// The session went back to a checkpoint that is older than the process.
    TakenBack,
    /// The session ended, or went over its disk limit.
    SessionEnded,
}

impl Spawn {
    pub(crate) const FIELDS: &'static [&'static str] = &[
        "argv", "shell", "cwd", "env", "stdin", "pty", "tag", "timeout",
    ];

    /// A process that runs this program with these arguments.
    pub fn new(argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    /// A process that runs a line of the shell.
    pub fn shell(line: impl Into<String>) -> Self {
        Self::new(["/bin/sh".to_owned(), "-c".to_owned(), line.into()])
    }

    /// Starts it in this directory.
    #[must_use]
    pub fn current_directory(mut self, path: impl Into<String>) -> Self {
        self.cwd = Some(path.into());
        self
    }

    /// Sets one variable.
    #[must_use]
    pub fn variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Something will be written to its standard input.
    #[must_use]
    pub fn with_input(mut self) -> Self {
        self.stdin = true;
        self
    }

    /// Gives it a terminal of this size in place of the pipes.
    #[must_use]
    pub fn with_terminal(mut self, size: TerminalSize) -> Self {
        self.pty = Some(size);
        self
    }

    /// Names it for [`ProcessInfo`].
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tag = Some(tag.into());
        self
    }

    /// Ends it, with all that it started, after this time.
    #[must_use]
    pub fn timeout(mut self, time: Duration) -> Self {
        self.timeout = Some(time);
        self
    }

    /// Refuses what cannot be started, before anything is.
    pub fn validate(&self) -> Result<(), Invalid> {
        if self.argv.first().is_none_or(String::is_empty) {
            return Err(Invalid::value(
                "argv",
                "a program and its arguments",
                format!("{:?}", self.argv),
            ));
        }
        for (field, count) in [("argv", self.argv.len()), ("env", self.env.len())] {
            if count > MAX_SPAWN_STRINGS {
                let expected = format!("at most {MAX_SPAWN_STRINGS}");
                return Err(Invalid::value(field, expected, count.to_string()));
            }
        }
        let variables = self.env.iter().flat_map(|(name, value)| [name, value]);
        let texts = || {
            let argv = self.argv.iter().map(|text| ("argv", text));
            let directory = self.cwd.iter().map(|text| ("cwd", text));
            argv.chain(directory)
                .chain(variables.clone().map(|text| ("env", text)))
        };
        if let Some((field, text)) = texts().find(|(_, text)| text.contains('\0')) {
            return Err(Invalid::value(
                field,
                "texts without a zero byte",
                shown_text(text),
            ));
        }
        if let Some(name) = self
            .env
            .keys()
            .find(|name| name.is_empty() || name.contains('='))
        {
            return Err(Invalid::value("env", "names without `=`", shown_text(name)));
        }
        let bytes: usize = texts().map(|(_, text)| text.len() + 2).sum();
        if bytes > MAX_SPAWN_BYTES {
            return Err(Invalid::value(
                "argv",
                format!("at most {MAX_SPAWN_BYTES} bytes with `env`; write a file for more"),
                format!("{bytes} bytes"),
            ));
        }
        if let Some(tag) = self.tag.as_ref().filter(|tag| tag.len() > MAX_TAG_BYTES) {
            let expected = format!("at most {MAX_TAG_BYTES} bytes");
            return Err(Invalid::value(
                "tag",
                expected,
                format!("{} bytes", tag.len()),
            ));
        }
        if let Some(time) = self.timeout {
            check_seconds("timeout", time.as_secs_f64())?;
        }
        if let Some(size) = self.pty {
            size.validate()?;
        }
        Ok(())
    }

    pub(crate) fn take(fields: &mut Fields) -> Result<Self, Invalid> {
        let line: Option<String> = fields.optional("shell")?;
        let argv = match (fields.optional("argv")?, line) {
            (Some(argv), None) => argv,
            (None, Some(line)) => Self::shell(line).argv,
            (both, _) => {
                return Err(Invalid::Missing {
                    field: "argv".to_owned(),
                    expected: match both {
                        None => "`argv` or `shell`".to_owned(),
                        Some(_) => "`argv` or `shell`, not both".to_owned(),
                    },
                });
            }
        };
        let spawn = Self {
            argv,
            cwd: fields.optional("cwd")?,
            env: fields
                .optional::<EnvironmentField>("env")?
                .map(|variables| variables.0)
                .unwrap_or_default(),
            stdin: fields.optional("stdin")?.unwrap_or(false),
            pty: fields.optional("pty")?,
            tag: fields.optional("tag")?,
            timeout: fields
                .optional::<Seconds>("timeout")?
                .map(|seconds| to_duration("timeout", seconds.0))
                .transpose()?,
        };
        spawn.validate()?;
        Ok(spawn)
    }
}

impl TerminalSize {
    /// Refuses a terminal without columns or rows.
    pub fn validate(self) -> Result<(), Invalid> {
        match (self.cols, self.rows) {
            (1.., 1..) => Ok(()),
            (cols, rows) => Err(Invalid::value(
                "pty",
                Self::EXPECTED,
                format!("{cols} columns and {rows} rows"),
            )),
        }
    }
}

impl Field for TerminalSize {
    const EXPECTED: &'static str = "an object with `cols` and `rows`, 1 to 65535";

    fn read(name: &str, value: Value) -> Result<Self, Invalid> {
        let size = serde_json::from_value::<Self>(value.clone())
            .ok()
            .filter(|size| size.validate().is_ok());
        size.ok_or_else(|| Invalid::value(name, Self::EXPECTED, shown(&value)))
    }
}

/// Variables of an environment, as a field.
pub(crate) struct EnvironmentField(pub(crate) BTreeMap<String, String>);

impl Field for EnvironmentField {
    const EXPECTED: &'static str = "an object of texts";

    fn read(name: &str, value: Value) -> Result<Self, Invalid> {
        let map = Map::<String, Value>::read(name, value)?;
        map.into_iter()
            .map(|(key, value)| {
                let value = String::read(&format!("{name}.{key}"), value)?;
                Ok((key, value))
            })
            .collect::<Result<_, _>>()
            .map(EnvironmentField)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: Value) -> Result<Spawn, Invalid> {
        let Value::Object(map) = value else {
            panic!("an object")
        };
        let mut fields = Fields::new(map);
        let spawn = Spawn::take(&mut fields)?;
        fields.finish(Spawn::FIELDS)?;
        Ok(spawn)
    }

    #[test]
    fn a_line_of_the_shell_is_an_argument_of_the_shell() {
        let spawn =
            read(json!({"shell": "ls | wc", "pty": {"cols": 80, "rows": 24}, "timeout": "2s"}));
        let expected = Spawn::new(["/bin/sh", "-c", "ls | wc"])
            .with_terminal(TerminalSize { cols: 80, rows: 24 })
            .timeout(Duration::from_secs(2));
        assert_eq!(spawn, Ok(expected));
    }

    #[test]
    fn what_cannot_be_started_is_refused_and_named() {
        for (request, field) in [
            (json!({}), "argv"),
            (json!({"argv": []}), "argv"),
            (json!({"argv": [""]}), "argv"),
            (json!({"argv": ["a\0b"]}), "argv"),
            (json!({"argv": ["a"], "shell": "b"}), "argv"),
            (json!({"argv": ["a", "x".repeat(MAX_SPAWN_BYTES)]}), "argv"),
            (json!({"argv": vec!["a"; MAX_SPAWN_STRINGS + 1]}), "argv"),
            (json!({"argv": ["a"], "env": {"A=B": "c"}}), "env"),
            (json!({"argv": ["a"], "env": {"A": 1}}), "env.A"),
            (json!({"argv": ["a"], "pty": {"cols": 0, "rows": 1}}), "pty"),
            (
                json!({"argv": ["a"], "pty": {"cols": 70000, "rows": 1}}),
                "pty",
            ),
            (json!({"argv": ["a"], "timeout": -1}), "timeout"),
            (json!({"argv": ["a"], "cwd": 1}), "cwd"),
            (json!({"argv": ["a"], "other": 1}), "other"),
        ] {
            let message = read(request).unwrap_err().to_string();
            assert!(message.contains(&format!("`{field}`")), "{message}");
        }
    }
}
