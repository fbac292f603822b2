//! Questions that the prompt asks the session while a person types: what can stand at the cursor, and whether an input is complete.

use cellblock::{Completeness, CompletenessStatus, Completions, Cursor, Session};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;

/// The longest time that a key press waits for the session. A thread of an earlier cell may keep the interpreter busy.
const MAX_KEY_WAIT: Duration = Duration::from_secs(1);

/// The session that the prompt leads to. A fork or a new session takes its place.
#[derive(Clone, Debug)]
pub(crate) struct CurrentSession(Arc<Mutex<Session>>);

impl CurrentSession {
    pub(crate) fn new(session: &Session) -> CurrentSession {
        CurrentSession(Arc::new(Mutex::new(session.clone())))
    }

    pub(crate) fn replace(&self, session: &Session) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = session.clone();
    }

    fn get(&self) -> Session {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Asks the session from the thread of the line editor, which no runtime drives.
#[derive(Clone, Debug)]
pub(crate) struct Questions {
    runtime: Handle,
    session: CurrentSession,
}

impl Questions {
    /// `runtime` must have a thread of its own: the line editor blocks the thread that it is called from.
    pub(crate) fn new(runtime: Handle, session: CurrentSession) -> Questions {
        Questions { runtime, session }
    }

    /// The texts that can stand at a cursor, or nothing where the session does not answer soon.
    pub(crate) fn complete(&self, cursor: Cursor) -> Option<Completions> {
        let session = self.session.get();
        self.answer(async move { session.complete(cursor).await })
    }

    /// Whether Enter runs the code, or nothing where the session does not answer soon.
    pub(crate) fn is_complete(&self, code: &str) -> Option<bool> {
        let session = self.session.get();
        let Completeness { status, .. } =
            self.answer(async move { session.is_complete(code).await })?;
        match status {
            // Running what is invalid shows what is wrong with it.
            CompletenessStatus::Complete | CompletenessStatus::Invalid => Some(true),
            CompletenessStatus::Incomplete => Some(false),
            CompletenessStatus::Unknown => None,
        }
    }

    fn answer<T, E>(&self, question: impl Future<Output = Result<T, E>>) -> Option<T> {
        let bounded = async { tokio::time::timeout(MAX_KEY_WAIT, question).await };
        self.runtime.block_on(bounded).ok()?.ok()
    }
}

/// The part of a line that is asked about: its place, and the code that stands for it in the question.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Asked<'a> {
    /// Code before the part of the line. It is not in the line.
    before: &'static str,
    code: &'a str,
    range: Range<usize>,
}

impl<'a> Asked<'a> {
    /// What to ask about a line, with the cursor at its end. `None` where the line is no Python and holds no path.
    pub(crate) fn about(line: &'a str) -> Option<Asked<'a>> {
        if line.starts_with('!') {
            // The shell's words are paths, which a text in Python can be as well.
            let start = line.rfind([' ', '=', '!', '\'', '"', '<', '>'])? + 1;
            return Some(Asked::part(line, "'", start));
        }
        if line.starts_with('%') {
            let (magic, _) = line.split_once(char::is_whitespace)?;
            let takes_code = matches!(magic.trim_start_matches('%'), "time" | "timeit");
            return takes_code.then(|| Asked::part(line, "", magic.len() + 1));
        }
        Some(Asked::part(line, "", 0))
    }

    fn part(line: &'a str, before: &'static str, start: usize) -> Asked<'a> {
        Asked {
            before,
            code: &line[start..],
            range: start..line.len(),
        }
    }

    /// The question.
    pub(crate) fn cursor(&self) -> Cursor {
        Cursor::at_end(format!("{}{}", self.before, self.code))
    }

    /// The bytes before the cursor that the matches replace, and their texts. Matches that replace something else than the first one
    /// are left out: the line editor replaces one piece of text.
    pub(crate) fn matches(&self, completions: Completions) -> (usize, Vec<String>) {
        let asked = format!("{}{}", self.before, self.code);
        let Some(start) = completions.matches.first().map(|first| first.start) else {
            return (0, Vec::new());
        };
        let replaced: usize = asked.chars().skip(start as usize).map(char::len_utf8).sum();
        let replaced = replaced.min(self.range.len());
        let fitting = completions
            .matches
            .into_iter()
            .filter(|one| one.start == start);
        (replaced, fitting.map(|one| one.text).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellblock::Completion;

    fn matching(text: &str, start: u64) -> Completion {
        Completion {
            text: text.to_owned(),
            start,
            ..Completion::default()
        }
    }

    #[test]
    fn a_line_of_the_shell_asks_about_its_last_word_as_a_path() {
        let asked = Asked::about("!cat data/fi").unwrap();
        assert_eq!(asked.cursor(), Cursor::at_end("'data/fi"));
        let matches = vec![matching("first.csv", 6)];
        assert_eq!(
            asked.matches(Completions { matches }),
            (2, vec!["first.csv".to_owned()])
        );
    }

    #[test]
    fn a_magic_asks_about_its_code_alone() {
        let asked = Asked::about("%time mathé.").unwrap();
        assert_eq!(asked.cursor(), Cursor::at_end("mathé."));
        assert_eq!(Asked::about("%fork "), None);
        assert_eq!(Asked::about("%ti"), None);
    }

    #[test]
    fn matches_that_replace_another_text_are_left_out() {
        let asked = Asked::about("d['é").unwrap();
        let matches = vec![matching("émile", 3), matching("other", 4)];
        assert_eq!(
            asked.matches(Completions { matches }),
            (2, vec!["émile".to_owned()])
        );
    }

    #[test]
    fn an_answer_that_lies_about_its_place_replaces_no_more_than_was_typed() {
        let asked = Asked::about("!é").unwrap();
        let matches = vec![matching("x", 0)];
        assert_eq!(asked.matches(Completions { matches }).0, 2);
    }
}
