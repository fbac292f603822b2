//! The tools that every run has.

mod checkpoints;
mod compute;
mod decode;
mod execute_python_code;
mod file_reader;
mod install_packages;
mod list_files;
mod plan_todo;
mod undo;
mod workspace_path;

use crate::RegistryBuilder;

pub use checkpoints::CheckpointsTool;
pub use compute::ComputeTool;
pub use execute_python_code::ExecutePythonCodeTool;
pub use file_reader::FileReaderTool;
pub use install_packages::{InstallPackagesTool, Installing, Installs};
pub use list_files::ListFilesTool;
pub use plan_todo::RecursivePlanTreeTodoTool;
pub use undo::UndoTool;

pub(crate) use execute_python_code::execute;
pub(crate) use workspace_path::workspace_path;

impl RegistryBuilder {
    /// Adds every tool that is built in.
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
