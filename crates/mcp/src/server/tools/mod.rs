//! Tools that only clients over MCP need: a program of our own has the session itself.

mod fork;
mod variables;
mod write_file;

use cellblock_tools::RegistryBuilder;

pub use fork::ForkTool;
pub use variables::VariablesTool;
pub use write_file::WriteFileTool;

/// Adds the tools for clients: `fork`, `variables` and `write_file`.
pub fn with_tools_for_clients(builder: RegistryBuilder) -> RegistryBuilder {
    builder
        .tool(ForkTool)
        .tool(VariablesTool)
        .tool(WriteFileTool)
}
