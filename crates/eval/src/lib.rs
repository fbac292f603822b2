//! Evaluations: how well a model does a suite of tasks with checks.
//!
//! A [`Suite`] is a file of tasks. An [`Evaluation`] runs them, by an agent that its caller sets up, by the model alone
//! ([`AskMode`]) or elsewhere ([`RemoteRunner`]), and returns an [`EvalReport`]. Two reports can be [compared](EvalReport::compare_with), and many make a
//! [table](score_table).
#![forbid(unsafe_code)]

mod check;
mod evaluation;
mod remote;
mod report;
mod run_facts;
mod suite;
mod task_run;
mod test_tools;

pub use check::Check;
pub use evaluation::{AskMode, Evaluation, Progress};
pub use remote::{RemoteQuestion, RemoteRun, RemoteRunner};
pub use report::{
    EvalReport, NoTableMarks, ReportComparison, ReportError, TaskChange, TaskReport, TestToolCall,
    Totals, replace_score_table, score_table,
};
pub use run_facts::RunEnding;
pub use suite::{InvalidSuite, Suite, SuiteError, Task, TaskFile};
pub use task_run::{PlainOptions, plain_question};
pub use test_tools::{TaskTools, TestTool};
