//! `[mcp.servers.NAME]`: other MCP servers, whose tools are offered too.

#[cfg(feature = "mcp")]
mod remote;

use crate::failure::Usage;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The section.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct McpConfig {
    servers: BTreeMap<String, ServerConfig>,
}

/// One server: a program, or an address.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ServerConfig {
    /// A program that speaks on its standard input and output.
    command: Option<String>,
    /// Its arguments.
    args: Vec<String>,
    /// Variables of its environment.
    env: BTreeMap<String, String>,
    /// Variables of the environment of this process that the server gets too.
    pass_env: Vec<String>,
    /// Its working directory, relative to the configuration file.
    directory: Option<PathBuf>,
    /// An address for streamable HTTP.
    url: Option<String>,
    /// Headers of every request.
    headers: BTreeMap<String, String>,
    /// A bearer token.
    token: Option<String>,
    /// The environment variable that holds the token.
    token_env: Option<String>,
    /// Only these tools.
    tools: Vec<String>,
    /// Which of its tools run without approval.
    trust: TrustConfig,
    /// Seconds that it may take to start.
    start_timeout: Option<f64>,
    /// Seconds that one call may take.
    timeout: Option<f64>,
    /// Leave it out for now.
    disabled: bool,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum TrustConfig {
    #[default]
    Hints,
    Nothing,
    Everything,
}

impl McpConfig {
    /// The names of the servers.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.servers.keys().map(String::as_str).collect()
    }

    /// What can be wrong although every key is known.
    pub(super) fn check(&self, file: &Path) -> anyhow::Result<()> {
        for (name, server) in &self.servers {
            server.check(name).map_err(|problem| {
                Usage::plain(format!(
                    "{}: [mcp.servers.{name}]: {problem}",
                    file.display()
                ))
            })?;
        }
        Ok(())
    }
}

impl ServerConfig {
    fn check(&self, name: &str) -> Result<(), String> {
        let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if name.is_empty() || name.len() > 32 || !name.chars().all(good) {
            return Err("its name must have 1 to 32 letters, digits, `_` or `-`".to_owned());
        }
        match (&self.command, &self.url) {
            (None, None) => return Err("it needs `command` or `url`".to_owned()),
            (Some(_), Some(_)) => {
                return Err("it has both `command` and `url`: leave one out".to_owned());
            }
            _ => {}
        }
        let foreign = if self.url.is_some() {
            [
                ("args", !self.args.is_empty()),
                ("env", !self.env.is_empty()),
                ("pass_env", !self.pass_env.is_empty()),
                ("directory", self.directory.is_some()),
            ]
        } else {
            [
                ("headers", !self.headers.is_empty()),
                ("token", self.token.is_some()),
                ("token_env", self.token_env.is_some()),
                ("", false),
            ]
        };
        let kind = if self.url.is_some() { "command" } else { "url" };
        if let Some((key, _)) = foreign.iter().find(|(_, is_there)| *is_there) {
            return Err(format!("`{key}` belongs to `{kind}`, which is not there"));
        }
        if self.token.is_some() && self.token_env.is_some() {
            return Err("it has both `token` and `token_env`: leave one out".to_owned());
        }
        if let Some(url) = &self.url
            && !["http://", "https://"]
                .iter()
                .any(|scheme| url.starts_with(scheme))
        {
            return Err("`url` must begin with http:// or https://".to_owned());
        }
        for (key, value) in [
            ("start_timeout", self.start_timeout),
            ("timeout", self.timeout),
        ] {
            if value.is_some_and(|seconds| seconds_of(seconds).is_none()) {
                return Err(format!("`{key}` must be a positive number of seconds"));
            }
        }
        Ok(())
    }
}

fn seconds_of(seconds: f64) -> Option<Duration> {
    let duration = Duration::try_from_secs_f64(seconds).ok()?;
    (!duration.is_zero()).then_some(duration)
}

/// Without anything that may be a credential.
impl std::fmt::Debug for ServerConfig {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("ServerConfig")
            .field("command", &self.command)
            .finish_non_exhaustive()
    }
}
