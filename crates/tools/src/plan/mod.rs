//! The plan tree: what a model means to do, every version of it, and what changed from one to the next.

mod book;
mod check;
mod diff;
mod flat;
mod render;
mod statistics;
mod tree;
mod words;

pub use book::{PlanBook, PlanUpdate};
pub use check::PlanError;
pub use diff::{Edit, Move, PlanDiff, StatusChange};
pub use statistics::Statistics;
pub use tree::{PlanNode, PlanTree, TaskStatus};
