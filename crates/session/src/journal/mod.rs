//! The journal of a session: what happened in it, in an append-only file, so that it can be made again after its host died.

mod answers;
mod beginning;
mod book;
pub mod bounds;
mod compare;
mod copying;
mod directory;
mod error;
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
pub use copying::{MOST_COPIED_BYTES, MOST_COPIED_FILES, copy_directory};
pub use directory::{JournalFile, Journals, MOST_BYTES, MOST_JOURNALS};
pub use error::JournalError;
pub use reader::{Journal, Life};
pub use record::{
    CallOutcome, Ended, InputAnswer, Line, Opened, PythonUsed, Record, RecordedCall, RecordedInput,
    VERSION,
};
pub(crate) use recorder::{CellRecord, Recorder, SessionJournal};
pub use story::{CellStory, Fate, Step, Story};
pub use summary::Summary;
pub(crate) use writer::weight_of;
