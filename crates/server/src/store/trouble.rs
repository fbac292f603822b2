//! What the operator is told of a store that cannot be used. Callers learn only that it is so: where the file is, is not theirs to know.

use super::StoreError;
use std::sync::{Arc, Mutex, PoisonError};

/// The problem that the operator was told last.
#[derive(Clone, Debug, Default)]
pub(super) struct Trouble(Arc<Mutex<Option<String>>>);

impl Trouble {
    /// Writes a problem to standard error when it begins, and when it is over.
    pub(super) fn tell<T>(&self, outcome: &Result<T, StoreError>, has_written: bool) {
        let problem = outcome.as_ref().err().map(ToString::to_string);
        if let Some(news) = self.news(problem, has_written) {
            eprintln!("{news}");
        }
    }

    fn news(&self, problem: Option<String>, has_written: bool) -> Option<String> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A store on a full disk, or that another program holds, can still be read.
        let is_read = problem.is_none() && !has_written;
        if is_read || *told == problem {
            return None;
        }
        told.clone_from(&problem);
        Some(match problem {
            Some(problem) => format!("error: {problem}"),
            None => "the store can be used again".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_told_when_it_begins_and_when_it_is_over() {
        let trouble = Trouble::default();
        let full = || Some("the disk is full".to_owned());
        let told = [None, full(), full(), None, None].map(|problem| trouble.news(problem, true));
        let expected = [
            None,
            Some("error: the disk is full".to_owned()),
            None,
            Some("the store can be used again".to_owned()),
            None,
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_problem_is_not_over_because_the_store_can_be_read() {
        let trouble = Trouble::default();
        let full = || Some("the disk is full".to_owned());
        let done = [
            (full(), false),
            (None, false),
            (full(), false),
            (None, true),
        ];
        let told = done.map(|(problem, has_written)| trouble.news(problem, has_written));
        let expected = [
            Some("error: the disk is full".to_owned()),
            None,
            None,
            Some("the store can be used again".to_owned()),
        ];
        assert_eq!(told, expected);
    }
}
