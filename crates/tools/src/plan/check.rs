//! What a plan must not be.

use super::flat::Placed;
use std::collections::{HashMap, HashSet};

/// The most tasks of one plan.
const MOST_TASKS: usize = 20_000;

/// Why a plan is refused. The plan before it stays in force.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Two tasks of one name.
    #[error("two tasks are called {0}; give each its own `task_name`")]
    DuplicateName(String),
    /// Two tasks of one id.
    #[error("two tasks have the `task_id` {id}: {one} and {other}")]
    DuplicateId {
        /// The id.
        id: String,
        /// A task.
        one: String,
        /// The other.
        other: String,
    },
    /// A task without a name.
    #[error("a task has an empty `task_name`")]
    NoName,
    /// A dependency on nothing.
    #[error("the task {task} depends on {dependency}, and there is no task of that name")]
    UnknownDependency {
        /// The task.
        task: String,
        /// What it depends on.
        dependency: String,
    },
    /// Tasks that wait for each other.
    #[error("the dependencies form a circle: {0}")]
    Cycle(String),
    /// More tasks than can be handled.
    #[error("a plan of {0} tasks is too large; at most {MOST_TASKS} are allowed")]
    TooLarge(usize),
}

/// Refuses what P5 names.
pub(super) fn check(tasks: &[Placed<'_>]) -> Result<(), PlanError> {
    if tasks.len() > MOST_TASKS {
        return Err(PlanError::TooLarge(tasks.len()));
    }
    let mut by_name: HashMap<&str, usize> = HashMap::new();
    let mut by_id: HashMap<&str, &str> = HashMap::new();
    for (index, task) in tasks.iter().enumerate() {
        if task.name().trim().is_empty() {
            return Err(PlanError::NoName);
        }
        if by_name.insert(task.name(), index).is_some() {
            return Err(PlanError::DuplicateName(quoted(task.name())));
        }
        if let Some(id) = &task.node.task_id
            && let Some(other) = by_id.insert(id, task.name())
        {
            return Err(PlanError::DuplicateId {
                id: quoted(id),
                one: quoted(other),
                other: quoted(task.name()),
            });
        }
    }
    let mut edges: Vec<Vec<usize>> = Vec::with_capacity(tasks.len());
    for task in tasks {
        let mut targets = Vec::new();
        for dependency in task.node.dependencies.iter().flatten() {
            let target = by_name.get(dependency.as_str());
            targets.push(*target.ok_or_else(|| PlanError::UnknownDependency {
                task: quoted(task.name()),
                dependency: quoted(dependency),
            })?);
        }
        edges.push(targets);
    }
    match circle(&edges) {
        Some(circle) => Err(PlanError::Cycle(described(&circle, tasks))),
        None => Ok(()),
    }
}

/// Tasks that depend on each other in a circle, if there are any.
fn circle(edges: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut done = HashSet::new();
    for start in 0..edges.len() {
        // The way from the start to where we are, with the next dependency to look at.
        let mut way: Vec<(usize, usize)> = vec![(start, 0)];
        let mut on_way: HashMap<usize, usize> = HashMap::from([(start, 0)]);
        if done.contains(&start) {
            continue;
        }
        while let Some((task, next)) = way.last_mut() {
            let (task, at) = (*task, *next);
            *next += 1;
            match edges[task].get(at) {
                Some(target) if on_way.contains_key(target) => {
                    let from = on_way.get(target).copied().unwrap_or_default();
                    return Some(way.iter().skip(from).map(|(task, _)| *task).collect());
                }
                Some(target) if done.contains(target) => {}
                Some(target) => {
                    on_way.insert(*target, way.len());
                    way.push((*target, 0));
                }
                None => {
                    done.insert(task);
                    on_way.remove(&task);
                    way.pop();
                }
            }
        }
    }
    None
}

fn described(circle: &[usize], tasks: &[Placed<'_>]) -> String {
    const SHOWN: usize = 8;
    let mut names: Vec<String> = circle
        .iter()
        .take(SHOWN)
        .filter_map(|index| tasks.get(*index))
        .map(|task| quoted(task.name()))
        .collect();
    if circle.len() > SHOWN {
        names.push("…".to_owned());
    }
    names.extend(names.first().cloned());
    names.join(" → ")
}

/// A name in a message: in quotes, never long.
fn quoted(name: &str) -> String {
    match name.char_indices().nth(80) {
        Some((end, _)) => format!("{:?}…", &name[..end]),
        None => format!("{name:?}"),
    }
}
