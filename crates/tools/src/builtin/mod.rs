//! The built-in tools.

mod chinese;
mod edit_file;
mod execute_python_code;
mod fetch_page;
mod files;
mod final_answer;
mod observation;
mod page_text;
mod session;
mod shell;

use crate::plan::{PlanHistory, PlanTree};
use crate::registry::TypedTool;
use crate::{
    Context, DynamicTool, Output, Part, RegistryBuilder, Tool, ToolError, ToolEvent, Uses,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::sync::{Arc, PoisonError};

pub(crate) use chinese::describe_in_chinese;
pub use edit_file::{EditFileTool, SearchFilesTool};
pub use execute_python_code::ExecutePythonCodeTool;
pub(crate) use execute_python_code::execute;
pub use fetch_page::FetchPageTool;
pub use files::{FileReaderTool, ListFilesTool};
pub use final_answer::FinalAnswerTool;
pub use session::{
    CheckpointsTool, ComputeTool, InstallFuture, InstallPackagesTool, PackageInstaller, UndoTool,
};
pub use shell::{BackgroundProcessTool, RunShellTool};

/// The tools for an agent that works with a shell and on files.
pub fn shell_tools() -> Vec<Arc<dyn DynamicTool>> {
    vec![
        Arc::new(TypedTool(RunShellTool)),
        Arc::new(TypedTool(BackgroundProcessTool)),
        Arc::new(TypedTool(EditFileTool)),
        Arc::new(TypedTool(SearchFilesTool)),
        Arc::new(TypedTool(FetchPageTool)),
    ]
}

impl RegistryBuilder {
    /// Adds every built-in tool except [`InstallPackagesTool`], which needs an installer, and [`FinalAnswerTool`], which needs an agent.
    pub fn built_in(self) -> RegistryBuilder {
        self.tool(ExecutePythonCodeTool)
            .tool(ComputeTool)
            .tool(RecursivePlanTreeTodoTool)
            .tool(FileReaderTool)
            .tool(ListFilesTool)
            .tool(UndoTool)
            .tool(CheckpointsTool)
    }
}

/// Keeps the plan of a run.
#[derive(Debug)]
pub struct RecursivePlanTreeTodoTool;

/// Keeps your plan as a tree of tasks. Call it first to lay the plan out, and again whenever something changes: send the whole tree each
/// time, with the task_id of every task that you have already been told. You get back what changed, the tree, how far it is, and which
/// tasks are ready to begin. A task is ready when everything it depends on is completed.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RecursivePlanTreeTodo {
    /// The whole plan as it is now.
    recursive_plan_tree: PlanTree,
}

impl Tool for RecursivePlanTreeTodoTool {
    type Parameters = RecursivePlanTreeTodo;
    type Output = Output;

    fn uses(&self) -> Uses {
        Uses::State
    }

    async fn call(
        &self,
        todo: RecursivePlanTreeTodo,
        context: &Context,
    ) -> Result<Output, ToolError> {
        let history = context.state::<PlanHistory>();
        let locale = context.runner().locale();
        let update = history
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .update(todo.recursive_plan_tree, locale)?;
        context.send(ToolEvent::PlanChanged {
            version: update.version,
            markdown: update.markdown,
        });
        Ok(Output {
            structured: Some(json!({
                "version": update.version,
                "statistics": update.statistics.to_json(),
            })),
            parts: vec![Part::Text(update.text)],
        })
    }
}
