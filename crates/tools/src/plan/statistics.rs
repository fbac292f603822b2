//! How far a plan is.

use super::TaskStatus;
use super::flat::Placed;
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// Counts by status, and rates.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Statistics {
    counts: [usize; 6],
}

impl Statistics {
    pub(super) fn of(tasks: &[Placed<'_>]) -> Statistics {
        let mut counts = [0; 6];
        for task in tasks {
            let at = TaskStatus::ALL
                .iter()
                .position(|status| *status == task.node.status);
            counts[at.unwrap_or_default()] += 1;
        }
        Statistics { counts }
    }

    /// How many tasks stand like this.
    pub fn count(&self, status: TaskStatus) -> usize {
        let at = TaskStatus::ALL.iter().position(|other| *other == status);
        self.counts[at.unwrap_or_default()]
    }

    /// How many there are.
    pub fn total(&self) -> usize {
        self.counts.iter().sum()
    }

    /// The share of tasks that stand like this, to two decimals.
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

/// The tasks that can be begun: pending or to be retried, with all that they depend on completed.
pub(super) fn ready<'a>(tasks: &[Placed<'a>]) -> Vec<&'a str> {
    let status: HashMap<&str, TaskStatus> = tasks
        .iter()
        .map(|task| (task.name(), task.node.status))
        .collect();
    let is_done = |name: &String| status.get(name.as_str()) == Some(&TaskStatus::Completed);
    tasks
        .iter()
        .filter(|task| matches!(task.node.status, TaskStatus::Pending | TaskStatus::Retry))
        .filter(|task| task.node.dependencies.iter().flatten().all(is_done))
        .map(Placed::name)
        .collect()
}
