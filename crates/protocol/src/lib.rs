//! The vocabulary of Cellblock: what a cell is, what comes back, and how both travel.
//!
//! Data only. Nothing here opens a file, a socket or a process; every other crate may depend on this
//! one and this one depends on none of them. The Rust names are the JSON names.
#![forbid(unsafe_code)]

mod answers;
mod cell;
mod event;
mod files;
mod for_model;
pub mod guest;
mod json;
mod options;
pub mod pipe;
mod process;
mod result;
mod text;
mod tool;

pub use answers::questions::{
    Completeness, CompletenessStatus, Completion, Completions, Cursor, CursorHelp, Detail,
    MAX_QUESTION_BYTES, validate_question,
};
pub use answers::variable::{Inspection, Variable};
pub use answers::{CheckpointEntry, CheckpointList, Computed, FileContents, SessionOpened, Undone};
pub use cell::{Cell, MAX_CODE_BYTES, Script};
pub use event::{Event, SessionEvent};
pub use files::{FileEntry, FileKind, FileStat, WatchedChange, WatchedChangeKind, mime_of};
pub use for_model::{ForModel, Locale, signal_name};
pub use guest::codec;
pub use json::duration as duration_json;
pub use json::invalid::Invalid;
pub use json::memory::{JsonError, JsonMemory, memory_when_parsed, parse_json_within};
pub use json::quantity::{duration_of_seconds, parse_age, parse_duration, parse_size};
pub use json::text::ToolArguments;
pub use options::container::ContainerOptions;
pub use options::credential::{CredentialRule, SecretPlace};
pub use options::imports::import_statement;
pub use options::isolation::{Isolation, Rung, Wall};
pub use options::journaling::Journaling;
pub use options::limits::Limits;
pub use options::network_rule::{HostPattern, MAX_NETWORK_RULES, NetworkRule};
pub use options::replay::Replay;
pub use options::seed::{Seed, bytes_seed, validate_seed};
pub use options::workspace_place::WorkspacePlace;
pub use options::{Arming, SessionOptions, Shell, Strategy, UnlistedHosts, validate_session_id};
pub use process::{
    MAX_SPAWN_BYTES, MAX_SPAWN_STRINGS, ProcessEnd, ProcessInfo, ProcessStatus, ProcessStream,
    Spawn, TerminalSize,
};
pub use result::cell_error::{CellError, Frame, Locals, Obstacle};
pub use result::changes::{FileChange, FileChanges, VariableChange, VariableChanges};
pub use result::display::{CommKind, CommMessage, Display};
pub use result::mime::{MimeBundle, MimeContent};
pub use result::state::{CheckpointState, CheckpointStatus, StateAfterCell, StateOutcome};
pub use result::{
    Backend, CellResult, CellValue, Cut, Status, Stream, ToolCall, ToolOutcome, Truncated, Usage,
};
pub use text::{strip_terminal_escapes, visible_json, visible_name, visible_text};
pub use tool::{ClientToolSpec, ToolSpec};
