//! Other MCP servers in a program that was built without MCP: they are named, and left out.

use crate::config::Config;
use crate::terminal::{Console, Style};
use cellblock::tools::{DynamicTool, RegistryBuilder};
use std::sync::Arc;

/// No server.
#[derive(Debug)]
pub(crate) struct ToolServers;

impl ToolServers {
    /// Names the servers of the configuration, which are left out.
    pub(crate) async fn connect(config: &Config, console: &Console) -> anyhow::Result<ToolServers> {
        for name in config.mcp.names() {
            let label = console.on_err(Style::Warning, "warning:");
            let message = "this program was built without MCP, so its tools are left out";
            console.note(&label, &format!("the MCP server `{name}`: {message}"));
        }
        Ok(ToolServers)
    }

    /// No tools.
    pub(crate) fn tools(&self) -> impl Iterator<Item = Arc<dyn DynamicTool>> {
        std::iter::empty()
    }

    /// Does nothing.
    pub(crate) async fn close(&self) {}
}

/// Adds nothing: there are no clients over MCP.
pub(crate) fn with_tools_for_clients(builder: RegistryBuilder) -> RegistryBuilder {
    builder
}
