//! Noticing that a run repeats itself.

use super::{ActionResult, texts};
use cellblock_protocol::Locale;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher as _};

/// The number of repetitions after which the model is told.
const REPETITION_LIMIT: usize = 3;

/// Counts repetitions in a run: of calls with the same result, of errors, and of failures of a tool.
#[derive(Debug, Default)]
pub(crate) struct StuckDetector {
    /// By the hash of a call and its result.
    calls: HashMap<u64, usize>,
    /// By the hash of an error.
    errors: HashMap<u64, usize>,
    /// The failures in a row, by tool.
    failures: HashMap<String, usize>,
    was_warned: bool,
}

/// What the detector says after a step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StuckStatus {
    /// The run makes progress.
    Progressing,
    /// The model repeats itself and must read this text.
    Warn(String),
    /// The model was warned and repeats itself again.
    Stuck(String),
}

impl StuckDetector {
    /// Counts the actions of a step.
    pub(crate) fn check_step(&mut self, actions: &[ActionResult], locale: Locale) -> StuckStatus {
        let mut warnings: Vec<String> = Vec::new();
        let mut repetition = None;
        for done in actions {
            let call = (
                &done.name,
                &done.code,
                done.arguments.as_ref().map(ToString::to_string),
            );
            let times = count(&mut self.calls, (call, &done.text));
            if times >= REPETITION_LIMIT {
                repetition = Some(texts::repeated_call(&done.name, times, locale));
            }
            if let Some(error) = done.error.as_ref().filter(|_| !done.ok) {
                let times = count(&mut self.errors, error);
                if times >= REPETITION_LIMIT && repetition.is_none() {
                    repetition = Some(texts::repeated_error(error, times, locale));
                }
            }
            let failures = self.failures.entry(done.name.clone()).or_default();
            *failures = if done.ok { 0 } else { *failures + 1 };
            if *failures > 0 && failures.is_multiple_of(REPETITION_LIMIT) {
                warnings.push(texts::failing_tool(&done.name, *failures, locale));
            }
        }
        match repetition {
            Some(repetition) if self.was_warned => StuckStatus::Stuck(repetition),
            Some(repetition) => {
                self.was_warned = true;
                warnings.insert(0, repetition);
                StuckStatus::Warn(warnings.join("\n"))
            }
            None if warnings.is_empty() => StuckStatus::Progressing,
            None => StuckStatus::Warn(warnings.join("\n")),
        }
    }

    /// The failures in a row of a tool.
    pub(crate) fn failures_of(&self, tool: &str) -> usize {
        self.failures.get(tool).copied().unwrap_or(0)
    }
}

/// Counts one more of this key, and returns how many there are now.
fn count(counts: &mut HashMap<u64, usize>, key: impl std::hash::Hash) -> usize {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    let count = counts.entry(hasher.finish()).or_default();
    *count += 1;
    *count
}
