//! Tokens, and what they cost.

use serde::{Deserialize, Serialize};
use std::ops::AddAssign;

/// Tokens of one reply, or of many added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Read.
    pub input_tokens: u64,
    /// Of those, read from the provider's cache.
    pub cached_input_tokens: u64,
    /// Written, reasoning included.
    pub output_tokens: u64,
    /// Of those, reasoning.
    pub reasoning_tokens: u64,
    /// Whether some of it is our estimate, because the endpoint told nothing.
    pub estimated: bool,
}

/// Prices for a million tokens, in any one currency.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prices {
    /// For input.
    pub input: f64,
    /// For input from the cache; like `input` where nothing is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<f64>,
    /// For output.
    pub output: f64,
}

/// An amount in the currency of the prices.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct Cost(pub f64);

impl Usage {
    /// Input and output together.
    pub fn total(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        let add = |sum: &mut u64, more| *sum = sum.saturating_add(more);
        add(&mut self.input_tokens, other.input_tokens);
        add(&mut self.cached_input_tokens, other.cached_input_tokens);
        add(&mut self.output_tokens, other.output_tokens);
        add(&mut self.reasoning_tokens, other.reasoning_tokens);
        self.estimated = self.estimated || other.estimated;
    }
}

impl Prices {
    /// What this usage costs.
    pub fn cost(&self, usage: &Usage) -> Cost {
        let cached = usage.cached_input_tokens.min(usage.input_tokens);
        let fresh = usage.input_tokens - cached;
        let sum = fresh as f64 * self.input
            + cached as f64 * self.cached_input.unwrap_or(self.input)
            + usage.output_tokens as f64 * self.output;
        Cost(sum / 1_000_000.0)
    }
}
