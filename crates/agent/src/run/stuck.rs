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
        // Code that was skipped after a failure neither failed nor repeated anything.
        let was_skipped = |done: &&ActionResult| !done.ok && done.error.is_none();
        for done in actions.iter().filter(|done| !was_skipped(done)) {
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
                // A time-out or a crash says nothing of its cause: only the same code has the same.
                let has_cause = done.result.as_ref().is_none_or(|cell| cell.error.is_some());
                let code = done.code.as_ref().filter(|_| !has_cause);
                let times = count(&mut self.errors, (error, code));
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

#[cfg(test)]
mod tests {
    use super::{StuckDetector, StuckStatus};
    use crate::run::ActionResult;
    use cellblock_protocol::Locale;

    fn failed(code: &str, error: Option<&str>) -> ActionResult {
        ActionResult {
            name: "execute_python_code".to_owned(),
            code: Some(code.to_owned()),
            timeout: None,
            arguments: None,
            ok: false,
            text: format!("{code}: {error:?}"),
            error: error.map(str::to_owned),
            result: None,
            ms: 0,
        }
    }

    #[test]
    fn code_that_was_skipped_after_a_failure_does_not_count_as_failed() {
        let mut detector = StuckDetector::default();
        let step = [
            failed("a", Some("KeyError: 'x'")),
            failed("b", None),
            failed("c", None),
        ];
        assert_eq!(
            detector.check_step(&step, Locale::En),
            StuckStatus::Progressing
        );
        assert_eq!(detector.failures_of("execute_python_code"), 1);
    }

    #[test]
    fn three_different_errors_are_not_called_the_same() {
        let mut detector = StuckDetector::default();
        for error in ["KeyError: 'x'", "NameError: y", "ValueError: z"] {
            let status = detector.check_step(&[failed(error, Some(error))], Locale::En);
            if let StuckStatus::Warn(note) = status {
                assert!(!note.contains("same"), "{note}");
            }
        }
    }
}
