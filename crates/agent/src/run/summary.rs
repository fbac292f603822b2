//! The summary of old steps that were dropped from the conversation.

use crate::executor::OpenExecutor;
use cellblock_model::estimate_tokens;
use cellblock_protocol::{FileEntry, Locale, Variable};
use std::collections::VecDeque;

/// The number of notes that are kept of failures, and of successes.
const MAX_NOTES: usize = 100;
/// The characters of one note.
const MAX_NOTE_CHARS: usize = 300;

/// The summary of dropped steps. The goal is not in it: the question always stays in the conversation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Summary {
    /// Notes of failures. They come first: the model should not try the same again.
    failed: VecDeque<String>,
    succeeded: VecDeque<String>,
    /// The notes that were dropped because there were too many.
    dropped: usize,
    session: SessionOverview,
    /// The tokens that the text may have.
    budget: u64,
}

/// An action and its result in one line.
#[derive(Clone, Debug)]
pub(crate) struct AttemptNote {
    pub(crate) line: String,
    pub(crate) failed: bool,
}

/// What is in the session: the plan, the variables, the files.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionOverview {
    pub(crate) plan: Option<String>,
    pub(crate) variables: Vec<Variable>,
    pub(crate) files: Vec<FileEntry>,
}

impl SessionOverview {
    /// Reads the plan, the variables and the files of the session.
    pub(crate) async fn read(executor: &dyn OpenExecutor) -> SessionOverview {
        SessionOverview {
            plan: executor.plan(),
            variables: executor.variables().await,
            files: executor.files().await,
        }
    }
}

impl Summary {
    /// Updates what is in the session. `budget` is the tokens that the text may have.
    pub(crate) fn set_session(&mut self, session: SessionOverview, budget: u64) {
        self.session = session;
        self.budget = budget;
    }

    /// Adds notes.
    pub(crate) fn add(&mut self, notes: Vec<AttemptNote>) {
        for AttemptNote { line, failed } in notes {
            let line: String = line.chars().take(MAX_NOTE_CHARS).collect();
            let lines = if failed {
                &mut self.failed
            } else {
                &mut self.succeeded
            };
            if !lines.contains(&line) {
                lines.push_back(line);
            }
            if lines.len() > MAX_NOTES {
                lines.pop_front();
                self.dropped += 1;
            }
        }
    }

    /// The text for the model. Empty where nothing was dropped.
    pub(crate) fn text(&self, locale: Locale) -> String {
        if self.failed.is_empty() && self.succeeded.is_empty() {
            return String::new();
        }
        let texts = Texts::of(locale);
        let mut parts = vec![texts.head.to_owned()];
        if let Some(plan) = &self.session.plan {
            parts.push(format!("{}\n{}", texts.plan, first_chars(plan, 2_000)));
        }
        let variables = self.session.variables.iter();
        let variables = variables.map(|variable| {
            format!(
                "{}: {} {}",
                variable.name,
                variable.type_,
                first_chars(&variable.summary, 60)
            )
        });
        parts.push(format!(
            "{} {}",
            texts.variables,
            listed(variables, texts.none)
        ));
        let files = self.session.files.iter();
        let files = files.map(|file| format!("{} ({} bytes)", file.path, file.bytes));
        parts.push(format!("{} {}", texts.files, listed(files, texts.none)));
        parts.push(texts.tried.to_owned());
        let fixed: u64 = parts.iter().map(|part| estimate_tokens(part)).sum();
        let mut left = self.budget.saturating_sub(fixed).max(200);
        let failed = newest(&self.failed, &mut left);
        let succeeded = newest(&self.succeeded, &mut left);
        let kept = failed.len() + succeeded.len();
        let missing = self.dropped + self.failed.len() + self.succeeded.len() - kept;
        if missing > 0 {
            parts.push(format!("- (+{missing})"));
        }
        parts.extend(failed);
        parts.extend(succeeded);
        parts.join("\n")
    }
}

/// The newest lines that fit into the tokens that are left, in order.
fn newest(lines: &VecDeque<String>, left: &mut u64) -> VecDeque<String> {
    let mut kept = VecDeque::new();
    for line in lines.iter().rev() {
        let tokens = estimate_tokens(line) + 2;
        if tokens > *left {
            break;
        }
        *left -= tokens;
        kept.push_front(format!("- {line}"));
    }
    kept
}

/// The headings of the summary in one language.
struct Texts {
    head: &'static str,
    plan: &'static str,
    variables: &'static str,
    files: &'static str,
    tried: &'static str,
    none: &'static str,
}

impl Texts {
    fn of(locale: Locale) -> &'static Texts {
        match locale {
            Locale::En => &Texts {
                head: "Summary of the steps so far, whose text was left out to save room. The goal is the question above.",
                plan: "Plan:",
                variables: "Live variables:",
                files: "Files in the workspace:",
                tried: "What was done and what came of it:",
                none: "none",
            },
            Locale::Zh => &Texts {
                head: "以下是此前各步骤的摘要，原文为节省篇幅已略去。目标即上面的问题。",
                plan: "计划：",
                variables: "现有变量：",
                files: "工作目录中的文件：",
                tried: "已做之事及其结果：",
                none: "无",
            },
        }
    }
}

fn listed(items: impl Iterator<Item = String>, none: &str) -> String {
    let mut items: Vec<String> = items.take(101).collect();
    if items.len() > 100 {
        items[100] = "…".to_owned();
    }
    if items.is_empty() {
        none.to_owned()
    } else {
        items.join("; ")
    }
}

fn first_chars(text: &str, max_chars: usize) -> String {
    text.chars().take(max_chars).collect()
}
