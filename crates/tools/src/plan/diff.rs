//! The changes from one version of a plan to the next.

use super::{FlatTask, TaskStatus};
use std::collections::{BTreeSet, HashMap};

/// The changes of a plan, each list in the order of the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanDiff {
    /// Whether this is the first version.
    pub created: bool,
    /// The names of new tasks.
    pub added: Vec<String>,
    /// The names of deleted tasks.
    pub deleted: Vec<String>,
    /// Tasks with another status.
    pub status: Vec<StatusChange>,
    /// Tasks with another parent.
    pub moved: Vec<Move>,
    /// Tasks whose fields changed.
    pub edited: Vec<Edit>,
}

/// A task with another status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusChange {
    /// The name of the task.
    pub task: String,
    /// The status before.
    pub old: TaskStatus,
    /// The status now.
    pub new: TaskStatus,
}

/// A task with another parent. `None` is the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The name of the task.
    pub task: String,
    /// The parent before.
    pub old: Option<String>,
    /// The parent now.
    pub new: Option<String>,
}

/// A task whose fields changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The name of the task.
    pub task: String,
    /// The changed fields: `task_name`, `description`, `output`, `dependencies`.
    pub fields: Vec<&'static str>,
}

impl PlanDiff {
    /// Whether the plan did not change.
    pub fn is_empty(&self) -> bool {
        *self == PlanDiff::default()
    }
}

/// Compares two versions. Tasks are matched by their ids.
pub(super) fn diff(old: &[FlatTask<'_>], new: &[FlatTask<'_>]) -> PlanDiff {
    let before: HashMap<&str, usize> = index_by_id(old);
    let after: HashMap<&str, usize> = index_by_id(new);
    let mut diff = PlanDiff::default();
    for task in new {
        let Some(was) = before.get(task.id()).and_then(|index| old.get(*index)) else {
            diff.added.push(task.name().to_owned());
            continue;
        };
        if was.node.status != task.node.status {
            diff.status.push(StatusChange {
                task: task.name().to_owned(),
                old: was.node.status,
                new: task.node.status,
            });
        }
        let (old_parent, new_parent) = (parent_of(was, old), parent_of(task, new));
        if old_parent.map(FlatTask::id) != new_parent.map(FlatTask::id) {
            diff.moved.push(Move {
                task: task.name().to_owned(),
                old: old_parent.map(|parent| parent.name().to_owned()),
                new: new_parent.map(|parent| parent.name().to_owned()),
            });
        }
        let fields = edited_fields(was, task);
        if !fields.is_empty() {
            diff.edited.push(Edit {
                task: task.name().to_owned(),
                fields,
            });
        }
    }
    let gone = old.iter().filter(|task| !after.contains_key(task.id()));
    diff.deleted = gone.map(|task| task.name().to_owned()).collect();
    diff
}

fn index_by_id<'a>(tasks: &[FlatTask<'a>]) -> HashMap<&'a str, usize> {
    tasks
        .iter()
        .enumerate()
        .map(|(index, task)| (task.id(), index))
        .collect()
}

fn parent_of<'t, 'a>(task: &FlatTask<'a>, tasks: &'t [FlatTask<'a>]) -> Option<&'t FlatTask<'a>> {
    tasks.get(task.parent?)
}

fn edited_fields(old: &FlatTask<'_>, new: &FlatTask<'_>) -> Vec<&'static str> {
    let (old, new) = (old.node, new.node);
    let names = |list: &Option<Vec<String>>| -> BTreeSet<String> {
        list.iter().flatten().cloned().collect()
    };
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let differs = [
        ("task_name", old.task_name != new.task_name),
        (
            "description",
            text(&old.description) != text(&new.description),
        ),
        ("output", text(&old.output) != text(&new.output)),
        (
            "dependencies",
            names(&old.dependencies) != names(&new.dependencies),
        ),
    ];
    differs
        .into_iter()
        .filter_map(|(field, differs)| differs.then_some(field))
        .collect()
}
