//! What calls may use.

use std::time::Duration;

/// A time limit that is none: for tools with a clock of their own.
pub const UNLIMITED: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// What one call may use, and how many of them one cell may make.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallLimits {
    /// Calls that the code of one cell may make. Default 10 000.
    pub calls_per_cell: usize,
    /// Bytes of the arguments, and of the result, of one call. Default 16 MiB.
    pub bytes: usize,
    /// Time of one call, where the tool names none itself; waiting for a person is not counted. Default 120 s.
    pub time: Duration,
}

impl CallLimits {
    /// A result travels to the session in one frame of 64 MiB, and base64 makes it a third longer.
    pub(crate) const MOST_BYTES: usize = 40 << 20;
}

impl Default for CallLimits {
    fn default() -> CallLimits {
        CallLimits {
            calls_per_cell: 10_000,
            bytes: 16 << 20,
            time: Duration::from_secs(120),
        }
    }
}
