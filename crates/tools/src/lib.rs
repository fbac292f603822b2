//! Tools for language models: one trait, called by the model, by Python code in a session, and over MCP.
//!
//! A [`Tool`] is a type with parameters and a `call`. A [`Registry`] holds tools; a [`Workbench`] is where one run calls them: it
//! has the session, the approval and what tools remember from call to call. Whatever goes wrong in a call becomes its answer.
#![forbid(unsafe_code)]

mod answer;
mod any_tool;
mod approval;
mod bridge;
mod builtin;
mod call;
mod check;
mod context;
mod failure;
mod happening;
mod limits;
pub mod names;
mod openai;
mod output;
pub mod plan;
mod python_tools;
mod recording;
mod registry;
mod schema;
mod strict;
mod tool;
mod workbench;

pub use answer::Answer;
pub use any_tool::{AnyTool, Definition, Invocation};
pub use approval::{
    Approval, ApprovalMode, ApprovalPolicy, ApprovalRule, Asker, Asking, Decision, Permission,
    Question,
};
pub use bridge::RanCell;
pub use builtin::{
    CheckpointsTool, ComputeTool, ExecutePythonCodeTool, FileReaderTool, InstallPackagesTool,
    Installing, Installs, ListFilesTool, RecursivePlanTreeTodoTool, UndoTool,
};
pub use call::{Arguments, Call, Caller};
pub use cellblock_session::Session;
pub use context::Context;
pub use failure::{Failure, ToolError};
pub use happening::{Happening, Watcher};
pub use limits::{CallLimits, UNLIMITED};
pub use openai::{SchemaForm, function_schema};
pub use output::{IntoOutput, Json, Output, Part};
pub use python_tools::{PythonTools, PythonToolsError};
pub use recording::{Earlier, RecordedCall, Recording};
pub use registry::{Registry, RegistryBuilder, RegistryError};
pub use tool::{Effects, Tool, Uses};
pub use workbench::{CodeAnswer, Opening, Workbench, WorkbenchBuilder};

/// The field of every call in which a model says why it calls.
pub const PURPOSE: &str = "tool_call_purpose";
