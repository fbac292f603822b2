//! Runs of the agent, kept in files: what was asked, every event, and how it ended.
//!
//! One run is one file of JSON lines, appended to while the run goes on. No server and no database: a file can be read, copied, searched
//! and removed with anything. [`Runs`] is the directory, [`RunWriter`] writes one, [`Run`] is one that was read. What an event is, only the agent knows:
//! here it is any JSON.
#![forbid(unsafe_code)]

mod directory;
mod error;
mod line;
mod run;
mod sync;
mod writer;

pub use directory::{RunFile, Runs};
pub use error::RunError;
pub use line::{Beginning, Ending};
pub use run::{Kept, Life, Run};
pub use writer::RunWriter;
