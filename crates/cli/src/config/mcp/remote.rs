//! The servers of the section, as they are started or reached.

use super::{McpConfig, ServerConfig, TrustConfig, seconds_of};
use crate::failure::Usage;
use cellblock::mcp::{RemoteServer, ServerTransport, Trust};
use std::path::{Path, PathBuf};

impl McpConfig {
    /// The servers to connect to. Their secrets are read from the environment now.
    pub(crate) fn servers(
        &self,
        place: impl Fn(&Path) -> PathBuf,
    ) -> anyhow::Result<Vec<RemoteServer>> {
        let wanted = self.servers.iter().filter(|(_, server)| !server.disabled);
        wanted
            .map(|(name, server)| {
                server
                    .remote(name, &place)
                    .map_err(|problem| Usage::plain(format!("the MCP server `{name}`: {problem}")))
            })
            .collect()
    }
}

impl ServerConfig {
    fn remote(&self, name: &str, place: impl Fn(&Path) -> PathBuf) -> Result<RemoteServer, String> {
        let variable = |name: &String| {
            std::env::var(name)
                .map_err(|_| format!("there is no variable {name} in the environment"))
        };
        let at = match (&self.command, &self.url) {
            (Some(command), _) => {
                let mut environment = self.env.clone();
                for name in &self.pass_env {
                    environment.insert(name.clone(), variable(name)?);
                }
                ServerTransport::Program {
                    command: command.clone(),
                    arguments: self.args.clone(),
                    environment,
                    directory: self.directory.as_deref().map(place),
                }
            }
            (None, url) => ServerTransport::Address {
                url: url.clone().unwrap_or_default(),
                token: match (&self.token, &self.token_env) {
                    (None, Some(name)) => Some(variable(name)?),
                    (token, _) => token.clone(),
                },
                headers: self.headers.clone(),
            },
        };
        let mut server = RemoteServer::new(name, at);
        server.only = self.tools.clone();
        server.trust = match self.trust {
            TrustConfig::Hints => Trust::Hints,
            TrustConfig::Nothing => Trust::Nothing,
            TrustConfig::Everything => Trust::Everything,
        };
        if let Some(limit) = self.start_timeout.and_then(seconds_of) {
            server.start_limit = limit;
        }
        if let Some(limit) = self.timeout.and_then(seconds_of) {
            server.call_limit = limit;
        }
        Ok(server)
    }
}
