//! The lines of a record.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::{SystemTime, UNIX_EPOCH};

/// The version of the format.
pub(crate) const VERSION: u32 = 1;

/// What a run began with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Beginning {
    /// What was asked.
    pub question: String,
    /// The model.
    pub model: String,
    /// Whatever else the agent needs to go on: format, limits, session, files …
    #[serde(default)]
    pub options: Value,
}

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ending {
    /// `answered`, `max_steps`, …
    pub status: String,
    /// The answer, where there is one.
    #[serde(default)]
    pub answer: Option<String>,
    /// The rest of the outcome: steps, usage, files …
    #[serde(default)]
    pub outcome: Value,
}

/// One line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    /// From 0, without gaps: a line that someone removed is missed.
    pub(crate) n: u64,
    /// Seconds since 1970.
    pub(crate) at: f64,
    #[serde(flatten)]
    pub(crate) entry: Entry,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Entry {
    Run {
        version: u32,
        begun: Beginning,
    },
    Event(Value),
    /// Another program took it up again.
    Resumed {},
    /// From here on nothing could be written.
    Stopped {
        reason: String,
    },
    Ended(Ending),
}

pub(crate) fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |time| time.as_secs_f64())
}
