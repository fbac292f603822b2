//! The journal of a session: what happened in it, in an append-only file, so that the session can be rebuilt after its host died.

pub mod bounds;
mod compare;
mod copying;
mod directory;
mod notes;
mod reader;
mod record;
mod recorder;
#[cfg(test)]
pub(crate) mod samples;
mod summary;
mod writer;

pub use compare::{Difference, RecordedAnswers, ReplayedAnswer, compare};
pub use copying::{MAX_COPIED_BYTES, MAX_COPIED_ENTRIES, copy_directory};
pub use directory::{
    JournalError, JournalFile, Journals, MAX_JOURNALS, MAX_JOURNALS_BYTES, Summary,
};
pub use reader::{Journal, SessionFate};
pub use record::{
    CallOutcome, EndedRecord, InputAnswer, JournalLine, JournalRecord, OpenedRecord, PythonUsed,
    RecordedCall, RecordedInput, VERSION,
};
pub(crate) use recorder::{CellRecord, Recorder, SessionJournal, begin};
pub use recorder::{JournalSink, JournalStatus};
pub use summary::{CellFate, CellSummary, JournalStep, JournalSummary};
pub(crate) use writer::weight_of;
