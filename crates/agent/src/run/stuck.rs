//! Noticing that a run goes in circles.

use super::Done;
use cellblock_protocol::Locale;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher as _};

/// So often is often enough.
const OFTEN: usize = 3;

/// Counts what is done again and again.
#[derive(Debug, Default)]
pub(crate) struct StuckWatch {
    same: HashMap<u64, usize>,
    errors: HashMap<u64, usize>,
    failures_of: HashMap<String, usize>,
    was_told: bool,
}

/// What a watch says after a step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// Nothing new to say.
    Fine,
    /// The model must be told this.
    Tell(String),
    /// It was told, and goes on as before.
    Stuck(String),
}

impl StuckWatch {
    /// Looks at what was done in a step.
    pub(crate) fn look(&mut self, actions: &[Done], locale: Locale) -> Sign {
        let mut words: Vec<String> = Vec::new();
        let mut circles = None;
        for done in actions {
            let asked = (
                &done.name,
                &done.code,
                done.arguments.as_ref().map(ToString::to_string),
            );
            let count = counted(&mut self.same, (asked, &done.text));
            if count >= OFTEN {
                circles = Some(repeated_call(&done.name, count, locale));
            }
            if let Some(error) = done.error.as_ref().filter(|_| !done.ok) {
                let count = counted(&mut self.errors, error);
                if count >= OFTEN && circles.is_none() {
                    circles = Some(repeated_error(error, count, locale));
                }
            }
            let failures = self.failures_of.entry(done.name.clone()).or_default();
            *failures = if done.ok { 0 } else { *failures + 1 };
            if *failures > 0 && failures.is_multiple_of(OFTEN) {
                words.push(failing_tool(&done.name, *failures, locale));
            }
        }
        match circles {
            Some(circles) if self.was_told => Sign::Stuck(circles),
            Some(circles) => {
                self.was_told = true;
                words.insert(0, circles);
                Sign::Tell(words.join("\n"))
            }
            None if words.is_empty() => Sign::Fine,
            None => Sign::Tell(words.join("\n")),
        }
    }

    /// How often in a row a tool has failed.
    pub(crate) fn failures_of(&self, tool: &str) -> usize {
        self.failures_of.get(tool).copied().unwrap_or(0)
    }
}

fn counted(counts: &mut HashMap<u64, usize>, key: impl std::hash::Hash) -> usize {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    let count = counts.entry(hasher.finish()).or_default();
    *count += 1;
    *count
}

fn repeated_call(name: &str, count: usize, locale: Locale) -> String {
    match locale {
        Locale::En => format!(
            "Note: you have made the same call of {name} {count} times, with the same result each time. It will not change. Take another way, or answer with what you know."
        ),
        Locale::Zh => format!(
            "注意：你已经以相同的方式调用 {name} {count} 次，每次结果都相同，不会再变。请换一种方法，或用已知信息作答。"
        ),
    }
}

fn repeated_error(error: &str, count: usize, locale: Locale) -> String {
    match locale {
        Locale::En => format!(
            "Note: the same error has come {count} times: {error}. Do not try the same again. Find its cause, or take another way."
        ),
        Locale::Zh => format!(
            "注意：同一错误已出现 {count} 次：{error}。不要再重复同样的做法。请找出原因，或换一种方法。"
        ),
    }
}

fn failing_tool(name: &str, count: usize, locale: Locale) -> String {
    match locale {
        Locale::En => format!("Note: {name} has failed {count} times in a row."),
        Locale::Zh => format!("注意：{name} 已连续失败 {count} 次。"),
    }
}
