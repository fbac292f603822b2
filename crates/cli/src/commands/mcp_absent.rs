//! `cellblock mcp` in a program that was built without MCP.

use crate::failure::built_without;
use crate::terminal::Console;
use std::process::ExitCode;

pub(crate) use super::absent::AbsentArgs as McpArgs;

/// Says how to get a program with MCP.
pub(crate) fn run(_args: McpArgs, _console: &Console) -> anyhow::Result<ExitCode> {
    Err(built_without("MCP"))
}
