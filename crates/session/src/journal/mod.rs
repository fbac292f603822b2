//! The journal of a session: what happened in it, in an append-only file, so that the session can be rebuilt after its host died.

mod answers;
mod beginning;
pub mod bounds;
mod compare;
mod copying;
mod directory;
mod error;
mod file_writer;
mod notes;
mod reader;
mod record;
mod recorder;
#[cfg(test)]
pub(crate) mod samples;
mod story;
mod summary;
mod writer;

pub use answers::{Answer, Answers};
pub(crate) use beginning::begin;
pub use compare::{Difference, compare};
pub use copying::{MAX_COPIED_BYTES, MAX_COPIED_ENTRIES, copy_directory};
pub use directory::{JournalFile, Journals, MAX_JOURNALS, MAX_JOURNALS_BYTES};
pub use error::JournalError;
pub use reader::{Journal, Life};
pub use record::{
    CallOutcome, Ended, InputAnswer, Line, Opened, PythonUsed, Record, RecordedCall, RecordedInput,
    VERSION,
};
pub use recorder::JournalStatus;
pub(crate) use recorder::{CellRecord, Recorder, SessionJournal};
pub use story::{CellStory, Fate, Step, Story};
pub use summary::Summary;
pub(crate) use writer::weight_of;
