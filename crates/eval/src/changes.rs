//! What became of each task since an earlier evaluation.

use crate::report::Report;

/// What is different from an earlier report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// The score then.
    pub score_before: f64,
    /// The score now.
    pub score_now: f64,
    /// Tasks that passed then and fail now.
    pub regressions: Vec<Change>,
    /// Tasks that failed then and pass now.
    pub improvements: Vec<Change>,
    /// Tasks of which the earlier report knows nothing.
    pub new: Vec<String>,
    /// Tasks that only the earlier report has.
    pub gone: Vec<String>,
}

/// A task that changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The task.
    pub task: String,
    /// What is wrong now, or was then.
    pub problems: Vec<String>,
}

impl Report {
    /// What is different from an earlier report.
    pub fn changes_since(&self, earlier: &Report) -> Changes {
        let mut changes = Changes {
            score_before: earlier.totals.score,
            score_now: self.totals.score,
            ..Changes::default()
        };
        for task in &self.tasks {
            let before = earlier.tasks.iter().find(|old| old.name == task.name);
            let change = |problems: &[String]| Change {
                task: task.name.clone(),
                problems: problems.to_vec(),
            };
            match before {
                None => changes.new.push(task.name.clone()),
                Some(old) if old.passed && !task.passed => {
                    changes.regressions.push(change(&task.problems));
                }
                Some(old) if !old.passed && task.passed => {
                    changes.improvements.push(change(&old.problems));
                }
                Some(_) => {}
            }
        }
        let is_gone = |name: &String| !self.tasks.iter().any(|task| &task.name == name);
        let names = earlier.tasks.iter().map(|task| task.name.clone());
        changes.gone = names.filter(is_gone).collect();
        changes
    }
}
