//! Where the code and the tools of a run are executed. The agent knows sessions only through the traits of this file.

mod local;
mod noop;

use cellblock_protocol::{
    CellResult, CheckpointState, FileEntry, Locale, Seed, Undone, UnlistedHosts, Variable,
};
use cellblock_tools::{
    Answer, Approval, Call, CallOutcome, EarlierCalls, ForkTools, OnToolEvent, Part, Recording,
    Registry, ToolError,
};
use std::path::PathBuf;
use std::sync::Arc;

pub(crate) use cellblock_protocol::Cell;
pub use futures_util::future::BoxFuture;
pub use local::{LocalExecutor, SessionRequest};
pub use noop::NoopExecutor;

/// The characters of the text that the model reads about one action.
pub(crate) const MAX_OBSERVATION_CHARS: usize = 20_000;

/// Executes the code and the tools of runs. Each run opens one [`OpenExecutor`].
pub trait Executor: Send + Sync + 'static {
    /// The packages that code can import, as the prompt lists them.
    fn available_dependencies(&self) -> Vec<String>;

    /// The working directory of the code, as the code sees it.
    fn workspace_path(&self) -> String;

    /// What code finds when it starts, as the prompt lists it.
    fn surroundings(&self) -> CodeEnvironment {
        CodeEnvironment::default()
    }

    /// Opens the executor for one run. No interpreter starts before the first cell.
    fn open(&self, options: ExecutorOptions) -> Arc<dyn OpenExecutor>;
}

/// What code finds when it starts, beside the standard library and the packages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeEnvironment {
    /// The files in the working directory.
    pub files: Vec<String>,
    /// The names of variables that have values.
    pub variables: Vec<String>,
    /// What is imported, as it would stand behind `import`.
    pub imports: Vec<String>,
    /// The rules for the network, such as `GET api.example.org`. Without any, there is no network.
    pub network: Vec<String>,
    /// Whether the user is asked about hosts that no rule names.
    pub unlisted_hosts: UnlistedHosts,
    /// Whether a wall stands between the code and the network.
    pub network_wall: NetworkWall,
}

/// Whether a wall stands between the code and the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NetworkWall {
    /// The code reaches what the rules say.
    #[default]
    Stands,
    /// The user left it out: the code reaches whatever the machine does.
    LeftOut,
}

/// The options of an executor for one run.
#[derive(Clone, Debug)]
pub struct ExecutorOptions {
    /// The tools. Code runs only if [`EXECUTE_PYTHON_CODE`](cellblock_tools::names::EXECUTE_PYTHON_CODE) is among them.
    pub registry: Registry,
    /// The variables that the first cell sees: the scope in which the run was defined.
    pub seed: Seed,
    /// When a person is asked for approval, and how.
    pub approval: Approval,
    /// The language of the texts for the model.
    pub locale: Locale,
    /// Which directory the code works in.
    pub workspace: WorkspaceChoice,
    /// Recorded results that are given instead of calling tools.
    pub replay: Option<Recording>,
    /// The tool calls before the run was cut off, where a run is resumed.
    pub earlier: Option<EarlierCalls>,
}

/// Which directory the code of a run works in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkspaceChoice {
    /// The directory that the executor was set up with.
    #[default]
    Usual,
    /// A fresh directory with the files that the usual one had at the beginning. A verification uses it, so that it changes nothing of
    /// the user's.
    Fresh,
}

/// An executor that was opened for one run: an interpreter, which is started when it is first needed, and the tools.
pub trait OpenExecutor: Send + Sync {
    /// Runs a cell, after a person has approved it where that is required. Dropping the future interrupts the cell.
    fn run<'a>(&'a self, cell: Cell, on_event: Option<OnToolEvent>) -> BoxFuture<'a, CellOutcome>;

    /// Calls a tool. Calls that use the interpreter run in the order in which they were made.
    fn call<'a>(&'a self, call: Call, on_event: Option<OnToolEvent>) -> BoxFuture<'a, CallOutcome>;

    /// Interrupts the cell that runs now, if one does. The run goes on.
    fn interrupt(&self) -> BoxFuture<'_, ()>;

    /// The id of the session, if one was started.
    fn session(&self) -> BoxFuture<'_, Option<String>>;

    /// The id of the session's journal, if it keeps one.
    fn journal(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async { None })
    }

    /// What a crash in the next cell would cost, if a session was started.
    fn checkpoint(&self) -> BoxFuture<'_, Option<CheckpointState>> {
        Box::pin(async { None })
    }

    /// The variables of the session. Empty if no session was started.
    fn variables(&self) -> BoxFuture<'_, Vec<Variable>>;

    /// The files in the workspace. Empty if no session was started.
    fn files(&self) -> BoxFuture<'_, Vec<FileEntry>>;

    /// The plan as Markdown, if the model made one.
    fn plan(&self) -> Option<String>;

    /// The results of tools so far.
    fn recording(&self) -> Recording;

    /// Opens a copy of this executor over a fork of its session, with its own variables and files.
    fn fork(&self, kind: ForkKind) -> BoxFuture<'_, Result<Arc<dyn OpenExecutor>, ToolError>>;

    /// Takes back the last cells.
    fn undo(&self, cells: usize) -> BoxFuture<'_, Result<Undone, ToolError>>;

    /// Writes a file into the workspace.
    fn put_file<'a>(
        &'a self,
        path: &'a str,
        contents: Vec<u8>,
    ) -> BoxFuture<'a, Result<(), ToolError>>;

    /// Writes a file that can be made again from a result, such as a picture that was shown. No journal keeps it.
    fn save_file<'a>(
        &'a self,
        path: &'a str,
        contents: Vec<u8>,
    ) -> BoxFuture<'a, Result<(), ToolError>> {
        self.put_file(path, contents)
    }

    /// The directory of the host that the code works in, if a session was started.
    fn workspace_directory(&self) -> BoxFuture<'_, Option<PathBuf>> {
        Box::pin(async { None })
    }

    /// Reads a file of the workspace, if it is small enough to be held in memory.
    fn get_file<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Vec<u8>, ToolError>>;

    /// Opens a file of the workspace for reading, whatever its size.
    fn open_file<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<std::fs::File, ToolError>>;

    /// Ends the session, if there is one.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// What a fork is for.
#[derive(Clone, Debug)]
pub enum ForkKind {
    /// To try something that may be dropped: tools that change something outside the session are refused.
    Trial,
    /// To go on in, with the same tools.
    Lasting,
    /// To go on in, with tools and an approval of its own. They are needed where a call must show which of the two made it.
    WithTools(Box<ForkTools>),
}

/// The outcome of a cell that ran or was refused.
#[derive(Clone, Debug, Default)]
pub struct CellOutcome {
    /// The text that the model reads.
    pub text: String,
    /// The result of the cell. `None` where it did not run.
    pub result: Option<CellResult>,
    /// The pictures and documents that the cell showed.
    pub attachments: Vec<Part>,
}

impl CellOutcome {
    /// The outcome of a call of the tool that runs code.
    pub(crate) fn new(call: CallOutcome, locale: Locale) -> CellOutcome {
        let mut text = call.answer.for_model(locale, MAX_OBSERVATION_CHARS);
        if let Some(place) = call.cell.as_ref().and_then(|cell| cell.stopped_at.as_ref()) {
            text += &match locale {
                Locale::En => format!("\n### Stopped in {place}"),
                Locale::Zh => format!("\n### 停止位置：{place}"),
            };
        }
        CellOutcome {
            text,
            attachments: attachments(&call.answer),
            result: call.cell,
        }
    }
}

/// The pictures and documents of an answer.
pub(crate) fn attachments(answer: &Answer) -> Vec<Part> {
    answer.attachments().cloned().collect()
}
