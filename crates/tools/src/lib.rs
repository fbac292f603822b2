//! Tools for language models: called by the model, by Python code in a session, and over MCP.
//!
//! A [`Tool`] is a Rust type with parameters and a `call`. A [`Registry`] holds tools. A [`ToolRunner`] runs
//! the calls of one run: it has the session, the approval, the limits, and the values that tools keep from
//! call to call. Every failure of a call becomes its [`Answer`].
#![forbid(unsafe_code)]

mod approval;
mod bridge;
mod builtin;
mod call;
pub mod names;
pub mod plan;
mod python_tools;
mod registry;
mod runner;
mod schema;

pub use approval::{
    Approval, ApprovalMode, ApprovalPolicy, ApprovalRequest, ApprovalRule, Approver, CodeArgument,
    Decision, DecisionFuture, Permission,
};
pub use bridge::CellOutcome;
pub use builtin::{
    BackgroundProcessTool, CheckpointsTool, ComputeTool, EditFileTool, ExecutePythonCodeTool,
    FetchPageTool, FileReaderTool, FinalAnswerTool, InstallFuture, InstallPackagesTool,
    ListFilesTool, PackageInstaller, RecursivePlanTreeTodoTool, RunShellTool, SearchFilesTool,
    UndoTool, shell_tools,
};
pub use call::{
    Answer, Arguments, Call, CallLimits, Caller, Context, EarlierCalls, Failure, HappenedCell,
    IntoOutput, Json, NO_TIME_LIMIT, OnToolEvent, Output, Part, RecordedCall, Recording, ToolError,
    ToolEvent,
};
pub use cellblock_session::Session;
pub use names::PURPOSE_FIELD;
pub use python_tools::{PythonTools, PythonToolsError};
pub use registry::{
    DynamicTool, Effects, Registry, RegistryBuilder, RegistryError, Tool, ToolDefinition,
    ToolFuture, Uses,
};
pub use runner::{CallOutcome, ForkTools, SessionFuture, ToolRunner, ToolRunnerBuilder};
pub use schema::{SchemaForm, function_schema};
