//! A run: the model is asked, its actions are executed, it reads the results, until there is an answer.
//!
//! [`state`] is the state machine of a run: it decides what comes next and does no input or output. [`conversation`] does what the state
//! machine says: it asks the model ([`model_call`], [`best_of`]) and executes actions ([`actions`]).

mod actions;
mod best_of;
mod conversation;
mod event;
mod history;
mod model_call;
mod outcome;
mod pictures;
mod replies;
mod state;
mod stuck;
mod summary;
mod texts;
mod unfinished;

pub use best_of::Scorer;
pub use conversation::{Conversation, ConversationMemory};
pub use event::{Candidate, Observer, RunEvent, Trial};
pub(crate) use history::cut_middle;
pub use outcome::{ActionResult, Outcome, RunBudget, RunLimits, RunStatus, Step};
pub(crate) use replies::AnswerSchema;
pub use unfinished::{CompletedCell, UnfinishedRun};
