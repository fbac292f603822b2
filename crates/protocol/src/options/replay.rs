//! The option `replay`: whether kept cells are run again after a crash.

use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::json::fields::Field;
use crate::json::invalid::Invalid;
use crate::json::quantity::{Seconds, check_seconds, to_duration};

/// Whether kept cells are run again after a crash that found only an older checkpoint, and for how long. In JSON: `true` (30 seconds), `false`,
/// or a time such as `5` or `"500ms"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replay {
    /// The cells since the checkpoint are lost.
    Off,
    /// Kept cells are run again, as many as fit into this time.
    Within(Duration),
}

impl Replay {
    /// The time that a replay may take unless the session's options say otherwise.
    pub const DEFAULT_TIME: Duration = Duration::from_secs(30);

    /// The time that a replay may take; none where no cell is run again.
    pub fn time(self) -> Option<Duration> {
        match self {
            Self::Off => None,
            Self::Within(time) => Some(time),
        }
    }

    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for Replay {
    fn default() -> Self {
        Self::Within(Self::DEFAULT_TIME)
    }
}

impl From<bool> for Replay {
    fn from(on: bool) -> Self {
        if on { Self::default() } else { Self::Off }
    }
}

impl From<Duration> for Replay {
    fn from(time: Duration) -> Self {
        Self::Within(time)
    }
}

impl Serialize for Replay {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Off => serializer.serialize_bool(false),
            Self::Within(time) => serializer.serialize_f64(time.as_secs_f64()),
        }
    }
}

impl Field for Replay {
    const EXPECTED: &'static str = "true, false or a time such as 5 or \"500ms\"";

    fn read(name: &str, value: Value) -> Result<Self, Invalid> {
        match value {
            Value::Bool(on) => Ok(on.into()),
            value @ (Value::Number(_) | Value::String(_)) => {
                let Seconds(seconds) = Seconds::read(name, value)?;
                check_seconds(name, seconds)?;
                to_duration(name, seconds).map(Self::Within)
            }
            other => Err(Self::refuse(name, &other)),
        }
    }
}
