//! A sealed, stateful, real Python for language models.
//!
//! ```
//! use cellblock::SessionBuilder;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), cellblock::Error> {
//! let session = SessionBuilder::new().start().await?;
//! session.run("x = 20").await?;
//! let result = session.run("x + 1").await?;
//! assert_eq!(result.repr(), Some("21"));
//! # Ok(())
//! # }
//! ```
//!
//! Where to begin:
//!
//! - [`SessionBuilder`] starts one session, [`Session`] runs cells in it, and a [`CellResult`] says
//!   what came of a cell. A cell that fails is a result, not an error.
//! - [`Host`] starts many sessions from one warm Python. Share one host in a program.
//! - [`agent`] answers questions with a model that writes cells.
//! - [`tools`] lets cells call functions of the program.
//!
//! This crate is a facade. It holds nothing but the executor of the agent, and names what a program
//! needs from the crates below.
#![forbid(unsafe_code)]

pub mod agent;

pub use cellblock_host::{
    Error, Host, HostBuilder, Packages, PythonChoice, SessionBuilder, journal, operations,
};
pub use cellblock_protocol::{
    Arming, Backend, Cell, CellError, CellResult, CellValue, CheckpointEntry, CheckpointList,
    CheckpointState, CheckpointStatus, ClientToolSpec, CommKind, CommMessage, Completeness,
    CompletenessStatus, Completion, Completions, Computed, ContainerOptions, CredentialRule,
    Cursor, CursorHelp, Cut, Detail, Display, Event, FileChange, FileChanges, FileContents,
    FileEntry, FileKind, FileStat, ForModel, Frame, HostPattern, Inspection, Invalid, Isolation,
    Journaling, Limits, Locale, Locals, MAX_CODE_BYTES, MAX_NETWORK_RULES, MimeBundle, MimeContent,
    NetworkRule, Obstacle, ProcessEnd, ProcessInfo, ProcessStatus, ProcessStream, Replay, Rung,
    Script, SecretPlace, Seed, SessionEvent, SessionOpened, SessionOptions, Shell, Spawn,
    StateAfterCell, StateOutcome, Status, Strategy, Stream, TerminalSize, ToolArguments, ToolCall,
    ToolOutcome, ToolSpec, Truncated, Undone, UnlistedHosts, Usage, Variable, VariableChange,
    VariableChanges, Wall, WatchedChange, WatchedChangeKind, WorkspacePlace, bytes_seed, codec,
    duration_json, guest, import_statement, memory_when_parsed, mime_of, parse_age, parse_duration,
    parse_size, pipe, signal_name, strip_terminal_escapes, validate_seed, validate_session_id,
    visible_json, visible_name, visible_text,
};
pub use cellblock_session::{
    AttachedProcess, Below, Cgroups, ContainerError, Error as SessionError, EventGap, EventReader,
    Existing, FinishedProcess, ForkRefusal, IsolationError, KeptWorkspace, KeptWorkspaces,
    Mechanism, NotFound, OutputDirectory, PathWatch, Paths, PoolState, Preload, Probe, Process,
    ProcessEvent, ProcessEvents, ProcessProblem, ProcessRefusal, PythonProblem, Refusal,
    ReplacedFile, Running, Session, Snapshot, UntrustedDirectories, Verdict, WorkspaceProblem,
    WorkspaceRetention,
};

/// Tools: what models, code in sessions and MCP clients can call.
pub mod tools {
    pub use cellblock_tools::*;
}

/// The Model Context Protocol: us as a server, and the tools of other servers. Without the feature `mcp`, which is on by default, it is left out.
#[cfg(feature = "mcp")]
pub mod mcp {
    pub use cellblock_mcp::*;
}

/// Python interpreters and environments.
pub mod env {
    pub use cellblock_env::*;
}

/// Tasks with checks: how well a model does.
pub mod eval {
    pub use cellblock_eval::*;
}

/// Language models.
pub mod model {
    pub use cellblock_model::*;
}

/// What the guard of a session's network saw.
pub mod network {
    pub use cellblock_session::network::*;
}

/// The code of the page about sessions, as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/sessions.md")]
struct SessionsPage;

/// The code of the page about environments, as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/environments.md")]
struct EnvironmentsPage;
