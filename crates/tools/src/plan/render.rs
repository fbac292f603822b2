//! The texts of a plan: for the model, and as Markdown, in both languages.

use super::diff::PlanDiff;
use super::history::Statistics;
use super::{FlatTask, TaskStatus};
use cellblock_protocol::Locale;
use std::collections::HashMap;

/// The longest text for the model (P4), and the longest changes and ready tasks in it.
const MAX_CHARS: usize = 8_000;
const MAX_CHANGES_CHARS: usize = 2_000;
const MAX_READY_CHARS: usize = 800;
const MAX_NAME_CHARS: usize = 120;
const MAX_TEXT_CHARS: usize = 400;

/// The text for the model: changes, tree, statistics, ready tasks.
pub(super) fn for_model(tasks: &[FlatTask<'_>], diff: &PlanDiff, texts: &PlanTexts) -> String {
    let changes = within(changes(diff, texts), MAX_CHANGES_CHARS, texts);
    let names: Vec<String> = ready_tasks(tasks).into_iter().map(short_name).collect();
    let ready = names_within(&names, MAX_READY_CHARS, texts);
    let statistics = Statistics::of(tasks).to_json().to_string();
    let fixed = [
        texts.changes,
        &changes,
        texts.plan,
        texts.statistics,
        &statistics,
        texts.ready,
        &ready,
    ];
    let taken: usize = fixed.iter().map(|part| part.chars().count() + 1).sum();
    let tree = tree_within(tasks, MAX_CHARS - taken, texts);
    let mut parts = vec![texts.changes, &changes, texts.plan];
    parts.extend((!tree.is_empty()).then_some(tree.as_str()));
    parts.extend([texts.statistics, &statistics, texts.ready]);
    parts.extend((!ready.is_empty()).then_some(ready.as_str()));
    parts.join("\n")
}

/// The whole tree as Markdown.
pub(super) fn tree(tasks: &[FlatTask<'_>], texts: &PlanTexts) -> String {
    let lines: Vec<String> = tasks.iter().flat_map(|task| lines(task, texts)).collect();
    lines.join("\n")
}

/// One line for each change.
fn changes(diff: &PlanDiff, texts: &PlanTexts) -> Vec<String> {
    if diff.created {
        return vec![texts.created.to_owned()];
    }
    let mut lines = Vec::new();
    let names = |names: &[String]| {
        let names: Vec<String> = names.iter().map(|task| short_name(task)).collect();
        names_within(&names, MAX_CHANGES_CHARS / 3, texts)
    };
    if !diff.added.is_empty() {
        lines.push(texts.added(&names(&diff.added)));
    }
    if !diff.deleted.is_empty() {
        lines.push(texts.deleted(&names(&diff.deleted)));
    }
    for change in &diff.status {
        lines.push(texts.status_changed(&short_name(&change.task), change.old, change.new));
    }
    let parent = |task: &Option<String>| match task {
        Some(task) => short_name(task),
        None => texts.root.to_owned(),
    };
    for change in &diff.moved {
        lines.push(texts.moved(
            &short_name(&change.task),
            &parent(&change.old),
            &parent(&change.new),
        ));
    }
    for change in &diff.edited {
        lines.push(texts.edited(&short_name(&change.task), &change.fields.join(", ")));
    }
    if lines.is_empty() {
        lines.push(texts.no_change.to_owned());
    }
    lines
}

fn lines(task: &FlatTask<'_>, texts: &PlanTexts) -> Vec<String> {
    let node = task.node;
    let indent = "  ".repeat(task.level);
    let mut first = texts.task(
        node.status.symbol(),
        &short_name(task.name()),
        &one_line(task.id(), MAX_NAME_CHARS),
    );
    if matches!(
        node.status,
        TaskStatus::Failed | TaskStatus::Retry | TaskStatus::Skipped
    ) {
        first.push_str(&texts.task_status(node.status));
    }
    let mut lines = vec![format!("{indent}{first}")];
    let text = |text: &Option<String>| {
        text.as_ref()
            .map(|text| one_line(text, MAX_TEXT_CHARS))
            .filter(|text| !text.is_empty())
    };
    if let Some(description) = text(&node.description) {
        lines.push(format!("{indent}{}", texts.description(&description)));
    }
    if let Some(output) = text(&node.output) {
        lines.push(format!("{indent}{}", texts.result(&output)));
    }
    lines
}

/// The tree in at most so many characters: whole, else without its texts, else only its beginning.
fn tree_within(tasks: &[FlatTask<'_>], max_chars: usize, texts: &PlanTexts) -> String {
    let whole: Vec<String> = tasks.iter().flat_map(|task| lines(task, texts)).collect();
    if char_count(&whole) <= max_chars {
        return whole.join("\n");
    }
    let short: Vec<String> = tasks
        .iter()
        .filter_map(|task| lines(task, texts).into_iter().next())
        .collect();
    within(short, max_chars, texts)
}

/// As many lines as fit, and the number of the others.
fn within(lines: Vec<String>, max_chars: usize, texts: &PlanTexts) -> String {
    if char_count(&lines) <= max_chars {
        return lines.join("\n");
    }
    let total = lines.len();
    let available = max_chars.saturating_sub(texts.more(total).chars().count() + 1);
    let mut taken = 0;
    let mut kept: Vec<String> = Vec::new();
    for line in lines {
        taken += line.chars().count() + 1;
        if taken > available {
            break;
        }
        kept.push(line);
    }
    kept.push(texts.more(total - kept.len()));
    kept.join("\n")
}

/// As many names as fit, and the number of the others: `a, b, … and 3 more`.
fn names_within(names: &[String], max_chars: usize, texts: &PlanTexts) -> String {
    let mut taken = 0;
    let fits = |name: &&String| {
        taken += name.chars().count() + 2;
        taken <= max_chars
    };
    let mut kept: Vec<String> = names.iter().take_while(fits).cloned().collect();
    if kept.len() < names.len() {
        kept.push(texts.more(names.len() - kept.len()));
    }
    kept.join(", ")
}

fn char_count(lines: &[String]) -> usize {
    lines.iter().map(|line| line.chars().count() + 1).sum()
}

fn short_name(text: &str) -> String {
    one_line(text, MAX_NAME_CHARS)
}

/// A text on one line, shortened.
fn one_line(text: &str, max_chars: usize) -> String {
    let joined: Vec<&str> = text.split_whitespace().collect();
    let text = joined.join(" ");
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// The names of the tasks that can be begun: pending or to be retried, with all dependencies completed.
fn ready_tasks<'a>(tasks: &[FlatTask<'a>]) -> Vec<&'a str> {
    let status: HashMap<&str, TaskStatus> = tasks
        .iter()
        .map(|task| (task.name(), task.node.status))
        .collect();
    let is_done = |name: &String| status.get(name.as_str()) == Some(&TaskStatus::Completed);
    tasks
        .iter()
        .filter(|task| matches!(task.node.status, TaskStatus::Pending | TaskStatus::Retry))
        .filter(|task| task.node.dependencies.iter().flatten().all(is_done))
        .map(FlatTask::name)
        .collect()
}

/// The fixed texts of one language.
pub(super) struct PlanTexts {
    changes: &'static str,
    pub(super) plan: &'static str,
    pub(super) statistics: &'static str,
    pub(super) ready: &'static str,
    pub(super) created: &'static str,
    pub(super) no_change: &'static str,
    pub(super) root: &'static str,
    statuses: [&'static str; 6],
    locale: Locale,
}

static ENGLISH: PlanTexts = PlanTexts {
    changes: "Changes:",
    plan: "Plan:",
    statistics: "Statistics:",
    ready: "Ready:",
    created: "✅ Plan created",
    no_change: "ℹ️ No change",
    root: "root",
    statuses: [
        "waiting",
        "running",
        "succeeded",
        "failed",
        "retry",
        "skipped",
    ],
    locale: Locale::En,
};

static CHINESE: PlanTexts = PlanTexts {
    changes: "变更总结：",
    plan: "Markdown清单：",
    statistics: "status_statistics:",
    ready: "可执行任务：",
    created: "✅ 首次创建计划树",
    no_change: "ℹ️ 计划树无明显变更",
    root: "根节点",
    statuses: [
        "待执行",
        "正在执行",
        "执行成功",
        "执行失败",
        "重试",
        "已跳过",
    ],
    locale: Locale::Zh,
};

impl PlanTexts {
    pub(super) fn of(locale: Locale) -> &'static PlanTexts {
        match locale {
            Locale::En => &ENGLISH,
            Locale::Zh => &CHINESE,
        }
    }

    pub(super) fn status(&self, status: TaskStatus) -> &'static str {
        let at = TaskStatus::ALL.iter().position(|other| *other == status);
        self.statuses[at.unwrap_or_default()]
    }

    fn choose(&self, english: String, chinese: String) -> String {
        match self.locale {
            Locale::En => english,
            Locale::Zh => chinese,
        }
    }

    pub(super) fn added(&self, names: &str) -> String {
        self.choose(
            format!("🆕 New tasks: {names}"),
            format!("🆕 新增任务：{names}"),
        )
    }

    pub(super) fn deleted(&self, names: &str) -> String {
        self.choose(
            format!("🗑️ Deleted tasks: {names}"),
            format!("🗑️ 删除任务：{names}"),
        )
    }

    pub(super) fn status_changed(&self, name: &str, old: TaskStatus, new: TaskStatus) -> String {
        let (old, new) = (self.status(old), self.status(new));
        self.choose(
            format!("🔄 Status: {name} ({old} → {new})"),
            format!("🔄 状态变更：{name}（{old} → {new}）"),
        )
    }

    pub(super) fn moved(&self, name: &str, old: &str, new: &str) -> String {
        self.choose(
            format!("📂 Moved: {name} (parent: {old} → {new})"),
            format!("📂 层级调整：{name}（父任务：{old} → {new}）"),
        )
    }

    pub(super) fn edited(&self, name: &str, fields: &str) -> String {
        self.choose(
            format!("✏️ Edited: {name} ({fields})"),
            format!("✏️ 内容变更：{name}（{fields}）"),
        )
    }

    pub(super) fn task(&self, symbol: &str, name: &str, id: &str) -> String {
        self.choose(
            format!("- [{symbol}] **{name}** (ID: {id})"),
            format!("- [{symbol}] **{name}**（ID：{id}）"),
        )
    }

    pub(super) fn task_status(&self, status: TaskStatus) -> String {
        let name = self.status(status);
        self.choose(format!(" | Status: {name}"), format!(" | 状态：{name}"))
    }

    pub(super) fn description(&self, text: &str) -> String {
        self.choose(
            format!("  > Description: {text}"),
            format!("  > 说明：{text}"),
        )
    }

    pub(super) fn result(&self, text: &str) -> String {
        self.choose(format!("  > Result: {text}"), format!("  > 结果：{text}"))
    }

    pub(super) fn more(&self, count: usize) -> String {
        self.choose(format!("… and {count} more"), format!("……还有 {count} 项"))
    }
}
