//! A cell: the code to run, and how to run it.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::fields::Fields;
use crate::invalid::Invalid;
use crate::quantity::{Seconds, check_seconds, duration_of_seconds, optional_seconds};

/// The most code one cell may have. A line of the pipe is no longer, so nothing larger can be asked for there.
pub const MAX_CODE_BYTES: usize = 16_000_000;

/// A piece of Python to run, with what is special about this one run.
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
    pub(crate) const FIELDS: &'static [&'static str] = &["code", "timeout", "atomic"];

    /// A cell with the session's settings.
    pub fn new(code: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            timeout: None,
            atomic: None,
            script: None,
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
        Ok(())
    }

    pub(crate) fn take(fields: &mut Fields) -> Result<Self, Invalid> {
        let cell = Self {
            code: fields.required("code")?,
            timeout: fields
                .optional::<Seconds>("timeout")?
                .map(|seconds| duration_of_seconds("timeout", seconds.0))
                .transpose()?,
            atomic: fields.optional("atomic")?,
            script: None,
        };
        cell.validate()?;
        Ok(cell)
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
