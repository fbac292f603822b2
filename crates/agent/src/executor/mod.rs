//! Where a run's code and tools are carried out. The loop knows only what is in this file.

mod local;
mod nothing;

use cellblock_protocol::{Cell, CellResult, FileEntry, Locale, Seed, Undone, Variable};
use cellblock_tools::{
    Answer, Approval, Call, Earlier, Part, Recording, Registry, ToolError, Watcher,
};
use std::pin::Pin;
use std::sync::Arc;

pub use local::{LocalExecutor, Wanted};
pub use nothing::NothingExecutor;

/// The tool that runs code, whatever the format in which a model asks for it.
pub const RUN_CODE: &str = "execute_python_code";

/// Something that is being done.
pub type Doing<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Makes places to work in.
pub trait Executor: Send + Sync + 'static {
    /// The packages that code can import, as the model is told them.
    fn available_dependencies(&self) -> Vec<String>;

    /// The working directory of the code, as the code sees it.
    fn workspace_path(&self) -> String;

    /// A place for one run. Nothing starts before the first cell.
    fn open(&self, setting: Setting) -> Arc<dyn Room>;
}

/// What a place for one run is to have.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The tools. Where [`RUN_CODE`] is not among them, no code runs.
    pub registry: Registry,
    /// Variables that the first cell sees: the scope in which the run was defined.
    pub seed: Seed,
    /// When a person is asked, and who that is.
    pub approval: Approval,
    /// The language for the model.
    pub locale: Locale,
    /// Whether it must not work in the user's own directory: a check works beside it, with the same files to begin with.
    pub fresh_workspace: bool,
    /// Results to give again instead of calling tools.
    pub replay: Option<Recording>,
    /// What was called before, where a run goes on that was cut off.
    pub earlier: Option<Earlier>,
}

/// The place of one run: an interpreter that is made when it is first needed, and the tools.
pub trait Room: Send + Sync {
    /// Runs a cell, after a person agreed where that is wanted. To drop it interrupts the cell.
    fn run<'a>(&'a self, cell: Cell, watcher: Option<Watcher>) -> Doing<'a, Ran>;

    /// Calls a tool. Calls into the interpreter run in the order in which they were made.
    fn call<'a>(&'a self, call: Call, watcher: Option<Watcher>) -> Doing<'a, Answer>;

    /// Stops the cell that runs now, if one does. The run goes on.
    fn interrupt(&self) -> Doing<'_, ()>;

    /// The id of the session, if one was made.
    fn session(&self) -> Doing<'_, Option<String>>;

    /// The id of the session's journal, where it keeps one.
    fn journal(&self) -> Doing<'_, Option<String>> {
        Box::pin(async { None })
    }

    /// The variables that live now; none where no session was made.
    fn variables(&self) -> Doing<'_, Vec<Variable>>;

    /// The files in the workspace; none where no session was made.
    fn files(&self) -> Doing<'_, Vec<FileEntry>>;

    /// The plan as Markdown, if the model made one.
    fn plan(&self) -> Option<String>;

    /// What the tools gave so far.
    fn recording(&self) -> Recording;

    /// The same place once more, with variables and files of its own.
    fn fork(&self, kind: ForkKind) -> Doing<'_, Result<Arc<dyn Room>, ToolError>>;

    /// Takes back the last cells.
    fn undo(&self, cells: usize) -> Doing<'_, Result<Undone, ToolError>>;

    /// Puts a file into the workspace.
    fn put_file<'a>(&'a self, path: &'a str, contents: Vec<u8>)
    -> Doing<'a, Result<(), ToolError>>;

    /// A file of the workspace, if it is small enough to be held in memory.
    fn get_file<'a>(&'a self, path: &'a str) -> Doing<'a, Result<Vec<u8>, ToolError>>;

    /// A file of the workspace of any size, to be read.
    fn open_file<'a>(&'a self, path: &'a str) -> Doing<'a, Result<std::fs::File, ToolError>>;

    /// Ends the session, if there is one.
    fn close(&self) -> Doing<'_, ()>;
}

/// What a fork is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForkKind {
    /// Something that may turn out to be in vain: tools that change something outside are refused.
    Trial,
    /// To go on in.
    Lasting,
}

/// A cell that ran, or was refused.
#[derive(Clone, Debug)]
pub struct Ran {
    /// What the model reads.
    pub text: String,
    /// All about it; absent where it did not run.
    pub result: Option<CellResult>,
    /// Pictures and documents that it showed.
    pub attachments: Vec<Part>,
}

/// The characters of one observation.
pub(crate) const OBSERVATION: usize = 20_000;

/// What an answer holds of a cell, where it is the answer of [`RUN_CODE`].
pub(crate) fn ran(answer: &Answer, locale: Locale) -> Ran {
    let structured = answer.outcome.as_ref().ok();
    let result = structured.and_then(|output| output.structured.clone());
    Ran {
        text: answer.for_model(locale, OBSERVATION),
        result: result.and_then(|value| serde_json::from_value(value).ok()),
        attachments: answer.attachments().cloned().collect(),
    }
}
