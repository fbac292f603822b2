//! What is left of rounds that had to go.

use crate::executor::Room;
use cellblock_model::estimate_tokens;
use cellblock_protocol::{FileEntry, Locale, Variable};
use std::collections::VecDeque;

/// Lines that are kept of what failed, and of what went well.
const MOST_LINES: usize = 100;
/// The most characters of one of them.
const LONGEST_LINE: usize = 300;

/// The summary of what was folded away: the goal stands in the question, which always stays.
#[derive(Clone, Debug, Default)]
pub(crate) struct Summary {
    /// What went wrong is worth more than what went well: nobody should try it again.
    failed: VecDeque<String>,
    went_well: VecDeque<String>,
    forgotten: usize,
    scene: Scene,
    budget: u64,
}

/// What was tried, in one line.
#[derive(Clone, Debug)]
pub(crate) struct Tried {
    pub(crate) line: String,
    pub(crate) failed: bool,
}

/// What there is in the session now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scene {
    pub(crate) plan: Option<String>,
    pub(crate) variables: Vec<Variable>,
    pub(crate) files: Vec<FileEntry>,
}

impl Scene {
    /// Looks at the session.
    pub(crate) async fn of(room: &dyn Room) -> Scene {
        Scene {
            plan: room.plan(),
            variables: room.variables().await,
            files: room.files().await,
        }
    }
}

impl Summary {
    /// Takes a new look at the session; the text may have so many tokens.
    pub(crate) fn see(&mut self, scene: Scene, budget: u64) {
        self.scene = scene;
        self.budget = budget;
    }

    /// Keeps what was tried.
    pub(crate) fn take(&mut self, tried: Vec<Tried>) {
        for Tried { line, failed } in tried {
            let line: String = line.chars().take(LONGEST_LINE).collect();
            let lines = if failed {
                &mut self.failed
            } else {
                &mut self.went_well
            };
            if !lines.contains(&line) {
                lines.push_back(line);
            }
            if lines.len() > MOST_LINES {
                lines.pop_front();
                self.forgotten += 1;
            }
        }
    }

    /// The words for the model; empty where nothing was folded away.
    pub(crate) fn text(&self, locale: Locale) -> String {
        if self.failed.is_empty() && self.went_well.is_empty() {
            return String::new();
        }
        let words = Words::of(locale);
        let mut parts = vec![words.head.to_owned()];
        if let Some(plan) = &self.scene.plan {
            parts.push(format!("{}\n{}", words.plan, first(plan, 2_000)));
        }
        let variables = self.scene.variables.iter();
        let variables = variables.map(|variable| {
            format!(
                "{}: {} {}",
                variable.name,
                variable.type_,
                first(&variable.summary, 60)
            )
        });
        parts.push(format!(
            "{} {}",
            words.variables,
            listed(variables, words.none)
        ));
        let files = self.scene.files.iter();
        let files = files.map(|file| format!("{} ({} bytes)", file.path, file.bytes));
        parts.push(format!("{} {}", words.files, listed(files, words.none)));
        parts.push(words.tried.to_owned());
        let fixed: u64 = parts.iter().map(|part| estimate_tokens(part)).sum();
        let mut left = self.budget.saturating_sub(fixed).max(200);
        let failed = newest(&self.failed, &mut left);
        let went_well = newest(&self.went_well, &mut left);
        let kept = failed.len() + went_well.len();
        let missing = self.forgotten + self.failed.len() + self.went_well.len() - kept;
        if missing > 0 {
            parts.push(format!("- (+{missing})"));
        }
        parts.extend(failed);
        parts.extend(went_well);
        parts.join("\n")
    }
}

/// The newest lines that there is room for, in order.
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

struct Words {
    head: &'static str,
    plan: &'static str,
    variables: &'static str,
    files: &'static str,
    tried: &'static str,
    none: &'static str,
}

impl Words {
    fn of(locale: Locale) -> &'static Words {
        match locale {
            Locale::En => &Words {
                head: "Summary of the steps so far, whose text was left out to save room. The goal is the question above.",
                plan: "Plan:",
                variables: "Live variables:",
                files: "Files in the workspace:",
                tried: "What was done and what came of it:",
                none: "none",
            },
            Locale::Zh => &Words {
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

fn first(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}
