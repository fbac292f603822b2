//! The plan as a model sends it.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

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

/// How a task stands.
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
    /// Every status.
    pub const ALL: [TaskStatus; 6] = [
        TaskStatus::Pending,
        TaskStatus::Processing,
        TaskStatus::Completed,
        TaskStatus::Failed,
        TaskStatus::Retry,
        TaskStatus::Skipped,
    ];

    /// The word that stands in JSON.
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

    /// The sign that stands for it.
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
