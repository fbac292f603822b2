//! What a run may use.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What a run may use. Each limit ends the run with a status of its own, and with what was reached so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunLimits {
    /// Replies of the model that act. Default 20.
    pub steps: usize,
    /// Time on the wall clock.
    pub time: Option<Duration>,
    /// Tokens, read and written together.
    pub tokens: Option<u64>,
    /// Cost in the currency of the model's prices. Without prices nothing is counted.
    pub cost: Option<f64>,
    /// Steps in a row in which everything failed. Default 8.
    pub failures: usize,
    /// How often in a row the model is asked again for a reply that can be read. Default 3.
    pub malformed_replies: usize,
    /// How often it is asked again for an answer that fits. Default 3.
    pub invalid_answers: usize,
    /// After so many failures in a row `compute` is no longer offered. Default 5.
    pub compute_failures: usize,
}

impl Default for RunLimits {
    fn default() -> RunLimits {
        RunLimits {
            steps: 20,
            time: None,
            tokens: None,
            cost: None,
            failures: 8,
            malformed_replies: 3,
            invalid_answers: 3,
            compute_failures: 5,
        }
    }
}
