//! A run: the model is asked, what it wants is done, it reads what came of it, until there is an answer.

mod acting;
pub(crate) mod answer;
mod asking;
mod best_of;
mod conversation;
mod course;
mod event;
mod history;
mod limits;
mod outcome;
mod past;
mod stuck;
mod summary;
mod words;

pub use best_of::Scorer;
pub use conversation::Conversation;
pub use event::{Observer, RunEvent};
pub use limits::RunLimits;
pub use outcome::{Done, Outcome, RunStatus, Step};
pub use past::{Past, PastCell};
