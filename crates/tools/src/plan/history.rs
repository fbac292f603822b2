//! The versions of a plan, the checks that a version must pass, and its statistics.

use super::diff::{PlanDiff, diff};
use super::render::{self, PlanTexts};
use super::{FlatTask, PlanTree, TaskStatus, flatten, for_each_mut};
use cellblock_protocol::Locale;
use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use uuid::Uuid;

/// The most tasks of one plan.
const MAX_TASKS: usize = 20_000;
/// How many names of a cycle a message shows.
const MAX_CYCLE_NAMES: usize = 8;
/// How much of a name a message shows.
const MAX_QUOTED_CHARS: usize = 80;

/// All versions of one plan, the newest last.
#[derive(Clone, Debug, Default)]
pub struct PlanHistory {
    versions: Vec<Arc<PlanTree>>,
}

/// The answer to a new version of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanUpdate {
    /// The number of the version, from 1.
    pub version: usize,
    /// The changes since the version before.
    pub diff: PlanDiff,
    /// The number of tasks by status.
    pub statistics: Statistics,
    /// The text that the model reads, at most 8 000 characters.
    pub text: String,
    /// The whole tree as Markdown, for people.
    pub markdown: String,
}

impl PlanHistory {
    /// Adds a version.
    ///
    /// # Errors
    ///
    /// A [`PlanError`] where the plan is contradictory. Then the history does not change.
    pub fn update(&mut self, mut tree: PlanTree, locale: Locale) -> Result<PlanUpdate, PlanError> {
        // Checked before ids are assigned, because they are assigned by name.
        check(&flatten(&tree))?;
        self.assign_ids(&mut tree);
        let tasks = flatten(&tree);
        check(&tasks)?;
        let diff = match self.current() {
            Some(before) => diff(&flatten(before), &tasks),
            None => PlanDiff {
                created: true,
                ..PlanDiff::default()
            },
        };
        let texts = PlanTexts::of(locale);
        let update = PlanUpdate {
            version: self.versions.len() + 1,
            statistics: Statistics::of(&tasks),
            text: render::for_model(&tasks, &diff, texts),
            markdown: render::tree(&tasks, texts),
            diff,
        };
        self.versions.push(Arc::new(tree));
        Ok(update)
    }

    /// The newest version.
    pub fn current(&self) -> Option<&Arc<PlanTree>> {
        self.versions.last()
    }

    /// The newest version as Markdown.
    pub fn markdown(&self, locale: Locale) -> Option<String> {
        let tasks = flatten(self.current()?);
        Some(render::tree(&tasks, PlanTexts::of(locale)))
    }

    /// All versions, the oldest first.
    pub fn versions(&self) -> &[Arc<PlanTree>] {
        &self.versions
    }

    /// Gives every task an id. A task without an id gets that of the earlier task of the same name, else a new
    /// one.
    fn assign_ids(&self, tree: &mut PlanTree) {
        let known: HashMap<String, String> = match self.current() {
            Some(before) => flatten(before)
                .iter()
                .map(|task| (task.name().to_owned(), task.id().to_owned()))
                .collect(),
            None => HashMap::new(),
        };
        let mut taken: HashSet<String> = flatten(tree)
            .iter()
            .filter_map(|task| task.node.task_id.clone())
            .collect();
        for_each_mut(tree, |node| {
            if node.task_id.is_none()
                && let Some(id) = known.get(&node.task_name)
                && taken.insert(id.clone())
            {
                node.task_id = Some(id.clone());
            }
        });
        // A new task must not get the id of a deleted one.
        taken.extend(known.into_values());
        for_each_mut(tree, |node| {
            if node.task_id.is_none() {
                let id = new_id(&node.task_name, &taken);
                taken.insert(id.clone());
                node.task_id = Some(id);
            }
        });
    }
}

/// A new id, made from the name: the same run has the same ids on every machine, so that recordings match.
fn new_id(name: &str, taken: &HashSet<String>) -> String {
    let mut salt = 0;
    loop {
        let id = format!(
            "TASK-{}",
            Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("{salt}/{name}").as_bytes())
        );
        if !taken.contains(&id) {
            return id;
        }
        salt += 1;
    }
}

/// Why a plan is refused. The version before stays the current one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Two tasks have the same name.
    #[error("two tasks are called {0}; give each its own `task_name`")]
    DuplicateName(String),
    /// Two tasks have the same id.
    #[error("two tasks have the `task_id` {id}: {one} and {other}")]
    DuplicateId {
        /// The id.
        id: String,
        /// One task.
        one: String,
        /// The other task.
        other: String,
    },
    /// A task has no name.
    #[error("a task has an empty `task_name`")]
    NoName,
    /// A dependency names no task.
    #[error("the task {task} depends on {dependency}, and there is no task of that name")]
    UnknownDependency {
        /// The task.
        task: String,
        /// The name that it depends on.
        dependency: String,
    },
    /// Tasks depend on each other in a circle.
    #[error("the dependencies form a circle: {0}")]
    Cycle(String),
    /// The plan has too many tasks.
    #[error("a plan of {0} tasks is too large; at most {MAX_TASKS} are allowed")]
    TooLarge(usize),
}

/// Refuses a plan with duplicate names or ids, unknown dependencies or a circle (P5).
fn check(tasks: &[FlatTask<'_>]) -> Result<(), PlanError> {
    if tasks.len() > MAX_TASKS {
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
    match find_cycle(&edges) {
        Some(cycle) => Err(PlanError::Cycle(describe_cycle(&cycle, tasks))),
        None => Ok(()),
    }
}

/// The tasks of a cycle, if there is one.
fn find_cycle(edges: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut done = HashSet::new();
    for start in 0..edges.len() {
        // The path from the start to the current task, each with its next dependency to follow.
        let mut path: Vec<(usize, usize)> = vec![(start, 0)];
        let mut on_path: HashMap<usize, usize> = HashMap::from([(start, 0)]);
        if done.contains(&start) {
            continue;
        }
        while let Some((task, next)) = path.last_mut() {
            let (task, at) = (*task, *next);
            *next += 1;
            match edges[task].get(at) {
                Some(target) if on_path.contains_key(target) => {
                    let from = on_path.get(target).copied().unwrap_or_default();
                    return Some(path.iter().skip(from).map(|(task, _)| *task).collect());
                }
                Some(target) if done.contains(target) => {}
                Some(target) => {
                    on_path.insert(*target, path.len());
                    path.push((*target, 0));
                }
                None => {
                    done.insert(task);
                    on_path.remove(&task);
                    path.pop();
                }
            }
        }
    }
    None
}

fn describe_cycle(cycle: &[usize], tasks: &[FlatTask<'_>]) -> String {
    let mut names: Vec<String> = cycle
        .iter()
        .take(MAX_CYCLE_NAMES)
        .filter_map(|index| tasks.get(*index))
        .map(|task| quoted(task.name()))
        .collect();
    if cycle.len() > MAX_CYCLE_NAMES {
        names.push("…".to_owned());
    }
    names.extend(names.first().cloned());
    names.join(" → ")
}

/// A name for a message: in quotes, and shortened.
fn quoted(name: &str) -> String {
    match name.char_indices().nth(MAX_QUOTED_CHARS) {
        Some((end, _)) => format!("{:?}…", &name[..end]),
        None => format!("{name:?}"),
    }
}

/// The number of tasks by status.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Statistics {
    counts: [usize; 6],
}

impl Statistics {
    pub(super) fn of(tasks: &[FlatTask<'_>]) -> Statistics {
        let mut counts = [0; 6];
        for task in tasks {
            let at = TaskStatus::ALL
                .iter()
                .position(|status| *status == task.node.status);
            counts[at.unwrap_or_default()] += 1;
        }
        Statistics { counts }
    }

    /// The number of tasks with this status.
    pub fn count(&self, status: TaskStatus) -> usize {
        let at = TaskStatus::ALL.iter().position(|other| *other == status);
        self.counts[at.unwrap_or_default()]
    }

    /// The number of all tasks.
    pub fn total(&self) -> usize {
        self.counts.iter().sum()
    }

    /// The share of tasks with this status, rounded to two decimals; 0 for an empty plan.
    pub fn rate(&self, status: TaskStatus) -> f64 {
        if self.total() == 0 {
            return 0.0;
        }
        (self.count(status) as f64 / self.total() as f64 * 100.0).round() / 100.0
    }

    /// `{"pending": 1, …, "__total": 1, "__completion_rate": 0.0, "__pending_rate": 1.0}`.
    pub fn to_json(&self) -> Value {
        let mut map = Map::new();
        for status in TaskStatus::ALL {
            map.insert(status.key().to_owned(), json!(self.count(status)));
        }
        map.insert("__total".to_owned(), json!(self.total()));
        map.insert(
            "__completion_rate".to_owned(),
            json!(self.rate(TaskStatus::Completed)),
        );
        map.insert(
            "__pending_rate".to_owned(),
            json!(self.rate(TaskStatus::Pending)),
        );
        Value::Object(map)
    }
}
