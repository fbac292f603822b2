//! Other MCP servers, whose tools are offered too.

use crate::config::Config;
use crate::terminal::{Console, Style};
use cellblock::mcp::{self, Connected};
use cellblock::tools::{DynamicTool, RegistryBuilder};
use std::sync::Arc;

/// The servers that were started or reached. They must be closed in the end.
#[derive(Debug)]
pub(crate) struct ToolServers(Connected);

impl ToolServers {
    /// Starts the servers of the configuration. One that does not start is named, and the rest works.
    pub(crate) async fn connect(config: &Config, console: &Console) -> anyhow::Result<ToolServers> {
        let servers = config.mcp.servers(|path| config.path(path))?;
        let servers = mcp::connect(servers).await;
        for problem in &servers.problems {
            let label = console.on_err(Style::Warning, "warning:");
            console.note(&label, &problem.to_string());
        }
        Ok(ToolServers(servers))
    }

    /// Their tools.
    pub(crate) fn tools(&self) -> impl Iterator<Item = Arc<dyn DynamicTool>> {
        self.0.tools.iter().cloned()
    }

    /// Ends the servers that were started.
    pub(crate) async fn close(&self) {
        self.0.close().await;
    }
}

/// Adds the tools that only clients over MCP need.
pub(crate) fn with_tools_for_clients(builder: RegistryBuilder) -> RegistryBuilder {
    mcp::with_tools_for_clients(builder)
}
