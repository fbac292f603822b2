//! A plan as text.

use super::TaskStatus;
use super::diff::PlanDiff;
use super::flat::Placed;
use super::statistics::{Statistics, ready};
use super::words::Words;

/// The most characters of the whole text (P4), and of its parts when it is long.
const MOST: usize = 8_000;
const MOST_CHANGES: usize = 2_000;
const MOST_READY: usize = 800;
const LONGEST_NAME: usize = 120;
const LONGEST_TEXT: usize = 400;

/// The text for the model: changes, tree, statistics, ready tasks.
pub(super) fn text(tasks: &[Placed<'_>], diff: &PlanDiff, words: &Words) -> String {
    let changes = within(changes(diff, words), MOST_CHANGES, words);
    let names: Vec<String> = ready(tasks).into_iter().map(name).collect();
    let ready = names_within(&names, MOST_READY, words);
    let statistics = Statistics::of(tasks).to_json().to_string();
    let fixed = [
        words.changes,
        &changes,
        words.plan,
        words.statistics,
        &statistics,
        words.ready,
        &ready,
    ];
    let taken: usize = fixed.iter().map(|part| part.chars().count() + 1).sum();
    let tree = tree_within(tasks, MOST - taken, words);
    let mut parts = vec![words.changes, &changes, words.plan];
    parts.extend((!tree.is_empty()).then_some(tree.as_str()));
    parts.extend([words.statistics, &statistics, words.ready]);
    parts.extend((!ready.is_empty()).then_some(ready.as_str()));
    parts.join("\n")
}

/// The tree as Markdown, whole.
pub(super) fn tree(tasks: &[Placed<'_>], words: &Words) -> String {
    let lines: Vec<String> = tasks.iter().flat_map(|task| lines(task, words)).collect();
    lines.join("\n")
}

/// One line for each change.
pub(super) fn changes(diff: &PlanDiff, words: &Words) -> Vec<String> {
    if diff.created {
        return vec![words.created.to_owned()];
    }
    let mut lines = Vec::new();
    let names = |names: &[String]| {
        let names: Vec<String> = names.iter().map(|task| name(task)).collect();
        names_within(&names, MOST_CHANGES / 3, words)
    };
    if !diff.added.is_empty() {
        lines.push(words.added(&names(&diff.added)));
    }
    if !diff.deleted.is_empty() {
        lines.push(words.deleted(&names(&diff.deleted)));
    }
    for change in &diff.status {
        lines.push(words.status_changed(&name(&change.task), change.old, change.new));
    }
    let parent = |task: &Option<String>| match task {
        Some(task) => name(task),
        None => words.root.to_owned(),
    };
    for change in &diff.moved {
        lines.push(words.moved(
            &name(&change.task),
            &parent(&change.old),
            &parent(&change.new),
        ));
    }
    for change in &diff.edited {
        lines.push(words.edited(&name(&change.task), &change.fields.join(", ")));
    }
    if lines.is_empty() {
        lines.push(words.no_change.to_owned());
    }
    lines
}

fn lines(task: &Placed<'_>, words: &Words) -> Vec<String> {
    let node = task.node;
    let indent = "  ".repeat(task.level);
    let mut first = words.task(
        node.status.symbol(),
        &name(task.name()),
        &one_line(task.id(), LONGEST_NAME),
    );
    if matches!(
        node.status,
        TaskStatus::Failed | TaskStatus::Retry | TaskStatus::Skipped
    ) {
        first.push_str(&words.task_status(node.status));
    }
    let mut lines = vec![format!("{indent}{first}")];
    let text = |text: &Option<String>| {
        text.as_ref()
            .map(|text| one_line(text, LONGEST_TEXT))
            .filter(|text| !text.is_empty())
    };
    if let Some(description) = text(&node.description) {
        lines.push(format!("{indent}{}", words.description(&description)));
    }
    if let Some(output) = text(&node.output) {
        lines.push(format!("{indent}{}", words.result(&output)));
    }
    lines
}

/// The tree in so many characters: whole, or without its texts, or only its beginning.
fn tree_within(tasks: &[Placed<'_>], most: usize, words: &Words) -> String {
    let whole: Vec<String> = tasks.iter().flat_map(|task| lines(task, words)).collect();
    if length(&whole) <= most {
        return whole.join("\n");
    }
    let short: Vec<String> = tasks
        .iter()
        .filter_map(|task| lines(task, words).into_iter().next())
        .collect();
    within(short, most, words)
}

/// As many lines as fit, and how many more there are.
fn within(lines: Vec<String>, most: usize, words: &Words) -> String {
    if length(&lines) <= most {
        return lines.join("\n");
    }
    let total = lines.len();
    let room = most.saturating_sub(words.more(total).chars().count() + 1);
    let mut taken = 0;
    let mut kept: Vec<String> = Vec::new();
    for line in lines {
        taken += line.chars().count() + 1;
        if taken > room {
            break;
        }
        kept.push(line);
    }
    kept.push(words.more(total - kept.len()));
    kept.join("\n")
}

/// `a, b`, and how many more there are.
fn names_within(names: &[String], most: usize, words: &Words) -> String {
    let mut taken = 0;
    let fits = |name: &&String| {
        taken += name.chars().count() + 2;
        taken <= most
    };
    let mut kept: Vec<String> = names.iter().take_while(fits).cloned().collect();
    if kept.len() < names.len() {
        kept.push(words.more(names.len() - kept.len()));
    }
    kept.join(", ")
}

fn length(lines: &[String]) -> usize {
    lines.iter().map(|line| line.chars().count() + 1).sum()
}

fn name(text: &str) -> String {
    one_line(text, LONGEST_NAME)
}

/// A text on one line, cut where it is long.
fn one_line(text: &str, most: usize) -> String {
    let joined: Vec<&str> = text.split_whitespace().collect();
    let text = joined.join(" ");
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
