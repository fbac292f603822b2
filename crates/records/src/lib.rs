//! Append-only files of JSON lines, which survive the end of the program that writes them.
//!
//! Runs of the agent, journals of sessions, traces and recordings of models are all kept this way. There is no server and no
//! database: a file can be read, copied, searched and removed with any tool.
//!
//! - [`RecordDirectory`] lists the files of a directory, finds one by its id and removes the oldest.
//! - [`LineWriter`] appends whole lines and holds a lock on its file.
//! - [`LineReader`] reads lines back and says where a file is torn.
//! - [`RotatingFile`] is a log that several programs append to and that moves aside when it is long enough.
//!
//! ```
//! use cellblock_records::{LineReader, LineWriter, NextLine, RecordDirectory, new_id};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let place = tempfile::tempdir()?;
//! let directory = RecordDirectory::new(place.path());
//! let mut writer = LineWriter::create(&directory.file_path(&new_id()))?;
//! writer.append(&"first")?;
//!
//! let found = directory.find("last")?;
//! assert!(found.is_locked(), "as long as the writer exists");
//! let mut reader = LineReader::open(&found.path, 1 << 20)?;
//! assert!(matches!(reader.next_line::<String>()?, NextLine::Whole { value, .. } if value == "first"));
//! assert!(matches!(reader.next_line::<String>()?, NextLine::End));
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod directory;
mod lines;
mod rotating;

pub use directory::{
    RecordDirectory, RecordError, RecordFile, Retention, id_of, is_locked, new_id,
};
pub use lines::{LinePosition, LineReader, LineWriter, NextLine, RecordLine, seconds_since_1970};
pub use rotating::{RotatingFile, Rotation, rotated_files};
