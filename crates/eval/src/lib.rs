//! How well a model does: tasks with checks, run against it, and what came of them.
//!
//! A [`Suite`] is a file of tasks. An [`Evaluation`] runs them, some at a time, with an agent that its caller sets up or with the
//! model alone ([`Way`]), and gives a [`Report`]. Two reports can be [compared](Report::changes_since), many make a
//! [table](score_table).
#![forbid(unsafe_code)]

mod changes;
mod check;
mod evaluation;
mod plain;
mod report;
mod suite;
mod table;
mod task_run;
mod test_tools;

pub use changes::{Change, Changes};
pub use check::Check;
pub use evaluation::{Evaluation, Progress, Way};
pub use plain::{PlainAsking, plain_question};
pub use report::{Called, Report, ReportError, TaskReport, Totals};
pub use suite::{Suite, SuiteError, Task, TaskFile};
pub use table::{ScoresError, score_table, with_scores};
pub use test_tools::TestTool;
