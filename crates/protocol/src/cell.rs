//! A cell: the code to run, and how to run it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::json::duration::optional_seconds;
use crate::json::fields::{Field, Fields};
use crate::json::invalid::{Invalid, shown_text};
use crate::json::quantity::{Seconds, check_seconds, duration_of_seconds};

/// The most code one cell may have. A line of the pipe is no longer, so nothing larger can be asked for there.
pub const MAX_CODE_BYTES: usize = 16_000_000;

/// The highest number that a caller can give a cell, so that the numbers after it never run out.
const MAX_CELL_NUMBER: u64 = 1 << 53;
/// The most variables of the environment of one cell, and the most bytes of their names and values together.
const MAX_ENV_VARIABLES: usize = 1000;
const MAX_ENV_BYTES: usize = 1 << 20;

/// A piece of Python to run, with what is special about this one run.
///
/// A text is a cell too. The rest is said by methods:
///
/// ```
/// use cellblock_protocol::Cell;
/// use std::time::Duration;
///
/// let cell = Cell::new("import time; time.sleep(60)").timeout(Duration::from_secs(1));
/// assert!(cell.validate().is_ok());
/// assert_eq!(Cell::from("1 + 1"), Cell::new("1 + 1"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub struct Cell {
    /// The source. Not looked at here: what is no Python, Python says itself.
    pub code: String,
    /// The time that the code may take on the wall clock; the session's limit when absent. In JSON: seconds.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "optional_seconds::serialize"
    )]
    pub timeout: Option<Duration>,
    /// Whether a failed cell leaves nothing behind; the session's choice when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub atomic: Option<bool>,
    /// Variables of the environment that only this cell sees: they are as before when it is over.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Whether the value of the last expression is not looked at, and open figures are not shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub silent: bool,
    /// The number that the cell shall have, where it is higher than that of every cell before it; else, and when absent, the next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The idempotency key of the request for the cell, for its record in a journal.
    #[serde(skip)]
    pub key: Option<String>,
    /// Whether the value of the last expression is `_` in later cells, as at Python's own prompt. It stays in memory until the next one.
    #[serde(skip)]
    pub keep_value: bool,
    /// Set when the code is that of a script: it then finds itself as Python runs one.
    #[serde(skip)]
    pub script: Option<Script>,
}

/// The name and the arguments of a script.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Script {
    /// The name of the script in tracebacks, `__file__` and `sys.argv[0]`.
    pub name: String,
    /// The rest of `sys.argv`.
    pub arguments: Vec<String>,
}

impl Cell {
    pub(crate) const FIELDS: &'static [&'static str] =
        &["code", "timeout", "atomic", "env", "silent", "count"];

    /// A cell with the session's settings.
    pub fn new(code: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            ..Self::default()
        }
    }

    /// Runs the code as this script.
    #[must_use]
    pub fn script(mut self, script: Script) -> Self {
        self.script = Some(script);
        self
    }

    /// Stops the code after this much time. [`validate`](Self::validate) refuses zero, and more than 7 days.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Whether a Python exception takes everything back that the cell did.
    #[must_use]
    pub fn atomic(mut self, atomic: bool) -> Self {
        self.atomic = Some(atomic);
        self
    }

    /// Lets only this cell see a variable of the environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Whether the value of the last expression is not looked at.
    #[must_use]
    pub fn silent(mut self, silent: bool) -> Self {
        self.silent = silent;
        self
    }

    /// Keeps the value of the last expression as `_`.
    #[must_use]
    pub fn keep_value(mut self) -> Self {
        self.keep_value = true;
        self
    }

    /// Gives the cell a number, where it is higher than that of every cell before it.
    #[must_use]
    pub fn count(mut self, count: u64) -> Self {
        self.count = Some(count);
        self
    }

    /// The time that the code may take, given the session's own limit.
    pub fn wall(&self, session: Duration) -> Duration {
        self.timeout.unwrap_or(session)
    }

    /// Refuses what cannot be run, before anything runs.
    pub fn validate(&self) -> Result<(), Invalid> {
        if self.code.len() > MAX_CODE_BYTES {
            let expected = format!("at most {MAX_CODE_BYTES} bytes");
            return Err(Invalid::value(
                "code",
                expected,
                format!("{} bytes", self.code.len()),
            ));
        }
        if let Some(limit) = self.timeout {
            check_seconds("timeout", limit.as_secs_f64())?;
        }
        if self.count.is_some_and(|count| count > MAX_CELL_NUMBER) {
            let expected = format!("at most {MAX_CELL_NUMBER}");
            let came = self.count.unwrap_or_default().to_string();
            return Err(Invalid::value("count", expected, came));
        }
        check_environment(&self.env)
    }

    pub(crate) fn take(fields: &mut Fields) -> Result<Self, Invalid> {
        let cell = Self {
            code: fields.required("code")?,
            timeout: fields
                .optional::<Seconds>("timeout")?
                .map(|seconds| duration_of_seconds("timeout", seconds.0))
                .transpose()?,
            atomic: fields.optional("atomic")?,
            env: fields.optional("env")?.unwrap_or_default(),
            silent: fields.optional("silent")?.unwrap_or_default(),
            count: fields.optional("count")?,
            key: None,
            keep_value: false,
            script: None,
        };
        cell.validate()?;
        Ok(cell)
    }
}

/// Refuses what no environment can hold.
fn check_environment(env: &BTreeMap<String, String>) -> Result<(), Invalid> {
    let bytes: usize = env
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    if env.len() > MAX_ENV_VARIABLES || bytes > MAX_ENV_BYTES {
        let expected =
            format!("at most {MAX_ENV_VARIABLES} variables of {MAX_ENV_BYTES} bytes together");
        let came = format!("{} variables of {bytes} bytes", env.len());
        return Err(Invalid::value("env", expected, came));
    }
    for (name, value) in env {
        if name.is_empty() || name.contains(['=', '\0']) {
            let expected = "names that are not empty and have no `=`";
            return Err(Invalid::value("env", expected, shown_text(name)));
        }
        if value.contains('\0') {
            let expected = "values without a null character";
            return Err(Invalid::value("env", expected, shown_text(name)));
        }
    }
    Ok(())
}

impl Field for BTreeMap<String, String> {
    const EXPECTED: &'static str = "an object of texts";

    fn read(name: &str, value: Value) -> Result<Self, Invalid> {
        let map = Map::read(name, value)?;
        map.into_iter()
            .map(|(key, value)| Ok((key.clone(), String::read(&format!("{name}.{key}"), value)?)))
            .collect()
    }
}

impl From<&str> for Cell {
    fn from(code: &str) -> Self {
        Self::new(code)
    }
}

impl From<String> for Cell {
    fn from(code: String) -> Self {
        Self::new(code)
    }
}

impl TryFrom<Map<String, Value>> for Cell {
    type Error = Invalid;

    fn try_from(map: Map<String, Value>) -> Result<Self, Invalid> {
        let mut fields = Fields::new(map);
        let cell = Self::take(&mut fields)?;
        fields.finish(Self::FIELDS)?;
        Ok(cell)
    }
}
