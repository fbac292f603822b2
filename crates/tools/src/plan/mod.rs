//! The plan tree: what a model means to do, every version of it, and the changes from one version to the next.

mod diff;
mod history;
mod render;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

pub use diff::{Edit, Move, PlanDiff, StatusChange};
pub use history::{PlanError, PlanHistory, PlanUpdate, Statistics};

/// A goal, and the tasks that lead to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanTree {
    /// What is to be reached in the end.
    pub core_goal: String,
    /// The tasks of the first level, each with its own subtasks in `children`.
    #[serde(default)]
    pub tree_nodes: Vec<PlanNode>,
    /// What will be done next, in free form.
    #[serde(default)]
    pub next_action: Map<String, Value>,
    /// Sources that matter for the whole plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub references: Option<Vec<String>>,
}

/// One task. Unknown fields are tolerated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanNode {
    /// Leave it out for a new task; send it back unchanged later. A task without an id is the one of the same name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// A short name, unique in the whole tree. Dependencies refer to it.
    pub task_name: String,
    /// What is to be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How it stands.
    #[serde(default)]
    pub status: TaskStatus,
    /// What came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The names of the tasks that must be completed first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependencies: Option<Vec<String>>,
    /// Directions worth looking into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub research_directions: Option<Vec<String>>,
    /// Subtasks.
    #[serde(
        default,
        deserialize_with = "none_if_empty",
        skip_serializing_if = "Option::is_none"
    )]
    pub children: Option<Vec<PlanNode>>,
    /// Sources that matter for this task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub references: Option<Vec<String>>,
}

/// The status of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
#[allow(
    missing_docs,
    reason = "the words say it, and schemas repeat every comment"
)]
pub enum TaskStatus {
    #[default]
    Pending,
    Processing,
    Completed,
    Failed,
    Retry,
    Skipped,
}

impl TaskStatus {
    /// Every status, in the order of the statistics.
    pub const ALL: [TaskStatus; 6] = [
        TaskStatus::Pending,
        TaskStatus::Processing,
        TaskStatus::Completed,
        TaskStatus::Failed,
        TaskStatus::Retry,
        TaskStatus::Skipped,
    ];

    /// The status as it is in JSON.
    pub fn key(self) -> &'static str {
        match self {
            TaskStatus::Pending => "pending",
            TaskStatus::Processing => "processing",
            TaskStatus::Completed => "completed",
            TaskStatus::Failed => "failed",
            TaskStatus::Retry => "retry",
            TaskStatus::Skipped => "skipped",
        }
    }

    /// The symbol of the status in the Markdown tree.
    pub fn symbol(self) -> &'static str {
        match self {
            TaskStatus::Pending => "⏳",
            TaskStatus::Processing => "➡️",
            TaskStatus::Completed => "✅",
            TaskStatus::Failed => "❌",
            TaskStatus::Retry => "♻️",
            TaskStatus::Skipped => "⏭️",
        }
    }
}

fn none_if_empty<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<PlanNode>>, D::Error> {
    let children: Option<Vec<PlanNode>> = Option::deserialize(from)?;
    Ok(children.filter(|children| !children.is_empty()))
}

/// A task with its position in the tree.
#[derive(Clone, Copy, Debug)]
struct FlatTask<'a> {
    node: &'a PlanNode,
    /// The number of ancestors.
    level: usize,
    /// The parent, as an index into the same list.
    parent: Option<usize>,
}

impl<'a> FlatTask<'a> {
    /// The id. Every task of a saved plan has one.
    fn id(&self) -> &'a str {
        self.node.task_id.as_deref().unwrap_or_default()
    }

    fn name(&self) -> &'a str {
        &self.node.task_name
    }
}

/// Every task, each before its subtasks, in the order of the tree. Made without recursion: a deep tree does
/// not use up the stack.
fn flatten(tree: &PlanTree) -> Vec<FlatTask<'_>> {
    let mut tasks = Vec::new();
    let mut pending: Vec<(&PlanNode, usize, Option<usize>)> = tree
        .tree_nodes
        .iter()
        .rev()
        .map(|node| (node, 0, None))
        .collect();
    while let Some((node, level, parent)) = pending.pop() {
        let index = tasks.len();
        tasks.push(FlatTask {
            node,
            level,
            parent,
        });
        let children = node.children.iter().flatten().rev();
        pending.extend(children.map(|child| (child, level + 1, Some(index))));
    }
    tasks
}

/// Calls `change` with each task, each before its subtasks.
fn for_each_mut(tree: &mut PlanTree, mut change: impl FnMut(&mut PlanNode)) {
    let mut pending: Vec<&mut PlanNode> = tree.tree_nodes.iter_mut().rev().collect();
    while let Some(node) = pending.pop() {
        change(node);
        pending.extend(node.children.iter_mut().flatten().rev());
    }
}
