//! The vocabulary of Cellblock: what a cell is, what comes back, and how both travel.
//!
//! Data only. Nothing here opens a file, a socket or a process; every other crate may depend on this
//! one and this one depends on none of them. The Rust names are the JSON names.
#![forbid(unsafe_code)]

mod answer;
mod cell;
mod cell_error;
mod changes;
pub mod codec;
mod container;
mod credential;
mod display;
pub mod duration_json;
mod event;
mod fields;
mod files;
mod for_model;
pub mod guest;
mod imports;
mod invalid;
mod invisible;
mod isolation;
mod journaling;
mod json_memory;
mod json_text;
mod limits;
mod mime;
mod network_rule;
mod options;
pub mod pipe;
mod process;
mod quantity;
mod questions;
mod replay;
mod result;
mod seed;
mod state;
mod text;
mod tool;
mod variable;
mod workspace_place;

pub use answer::{CheckpointEntry, CheckpointList, Computed, FileContents, SessionOpened, Undone};
pub use cell::{Cell, MAX_CODE_BYTES, Script};
pub use cell_error::{CellError, Frame, Locals, Obstacle};
pub use changes::{FileChange, FileChanges, VariableChange, VariableChanges};
pub use container::ContainerOptions;
pub use credential::{CredentialRule, SecretPlace};
pub use display::{CommKind, CommMessage, Display};
pub use event::{Event, SessionEvent};
pub use files::{FileEntry, FileKind, FileStat, WatchedChange, WatchedChangeKind, mime_of};
pub use for_model::{ForModel, Locale, signal_name};
pub use imports::import_statement;
pub use invalid::Invalid;
pub use isolation::{Isolation, Rung, Wall};
pub use journaling::Journaling;
pub use json_memory::{JsonError, JsonMemory, memory_when_parsed, parse_json_within};
pub use json_text::ToolArguments;
pub use limits::Limits;
pub use mime::{MimeBundle, MimeContent};
pub use network_rule::{HostPattern, MAX_NETWORK_RULES, NetworkRule};
pub use options::{Arming, SessionOptions, Shell, Strategy, UnlistedHosts, validate_session_id};
pub use process::{
    MAX_SPAWN_BYTES, MAX_SPAWN_STRINGS, ProcessEnd, ProcessInfo, ProcessStatus, ProcessStream,
    Spawn, TerminalSize,
};
pub use quantity::{duration_of_seconds, parse_age, parse_duration, parse_size};
pub use questions::{
    Completeness, CompletenessStatus, Completion, Completions, Cursor, CursorHelp, Detail,
    MAX_QUESTION_BYTES, validate_question,
};
pub use replay::Replay;
pub use result::{
    Backend, CellResult, CellValue, Cut, Status, Stream, ToolCall, ToolOutcome, Truncated, Usage,
};
pub use seed::{Seed, bytes_seed, validate_seed};
pub use state::{CheckpointState, CheckpointStatus, StateAfterCell, StateOutcome};
pub use text::{strip_terminal_escapes, visible_json, visible_name, visible_text};
pub use tool::{ClientToolSpec, ToolSpec};
pub use variable::{Inspection, Variable};
pub use workspace_place::WorkspacePlace;
