//! What changed from one version of a plan to the next.

use super::TaskStatus;
use super::flat::Placed;
use std::collections::{BTreeSet, HashMap};

/// The changes, each in the order of the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanDiff {
    /// There was no plan before.
    pub created: bool,
    /// Names of tasks that are new.
    pub added: Vec<String>,
    /// Names of tasks that are gone.
    pub deleted: Vec<String>,
    /// Tasks that stand differently.
    pub status: Vec<StatusChange>,
    /// Tasks below another task than before.
    pub moved: Vec<Move>,
    /// Tasks whose contents changed.
    pub edited: Vec<Edit>,
}

/// A task that stands differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusChange {
    /// Its name.
    pub task: String,
    /// How it stood.
    pub old: TaskStatus,
    /// How it stands.
    pub new: TaskStatus,
}

/// A task below another task than before; none is the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// Its name.
    pub task: String,
    /// Above it before.
    pub old: Option<String>,
    /// Above it now.
    pub new: Option<String>,
}

/// A task whose contents changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Its name.
    pub task: String,
    /// Which fields: `task_name`, `description`, `output`, `dependencies`.
    pub fields: Vec<&'static str>,
}

impl PlanDiff {
    /// Whether nothing changed that counts.
    pub fn is_empty(&self) -> bool {
        *self == PlanDiff::default()
    }
}

/// Tasks are the same when their ids are.
pub(super) fn diff(old: &[Placed<'_>], new: &[Placed<'_>]) -> PlanDiff {
    let before: HashMap<&str, usize> = ids(old);
    let after: HashMap<&str, usize> = ids(new);
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
        let (old_parent, new_parent) = (parent(was, old), parent(task, new));
        if old_parent.map(Placed::id) != new_parent.map(Placed::id) {
            diff.moved.push(Move {
                task: task.name().to_owned(),
                old: old_parent.map(|parent| parent.name().to_owned()),
                new: new_parent.map(|parent| parent.name().to_owned()),
            });
        }
        let fields = edited(was, task);
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

fn ids<'a>(tasks: &[Placed<'a>]) -> HashMap<&'a str, usize> {
    tasks
        .iter()
        .enumerate()
        .map(|(index, task)| (task.id(), index))
        .collect()
}

fn parent<'t, 'a>(task: &Placed<'a>, tasks: &'t [Placed<'a>]) -> Option<&'t Placed<'a>> {
    tasks.get(task.parent?)
}

fn edited(old: &Placed<'_>, new: &Placed<'_>) -> Vec<&'static str> {
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
