//! The configuration file.
//!
//! One TOML file with a section for each part. A section is a struct in a file of its own; to add one, add a field to [`Config`].

mod args;
mod mcp;
mod problem;
mod resolver;
mod sections;
mod text;
mod tools;

use crate::failure::Usage;
use cellblock::tools::ApprovalPolicy;
use problem::Problem;
use serde::Deserialize;
use std::io;
use std::path::{Path, PathBuf};

pub(crate) use args::ConfigArgs;
pub(crate) use mcp::McpConfig;
pub(crate) use resolver::{Entry, SettingResolver, SettingSpec};
pub(crate) use sections::{AgentConfig, ModelConfig, SessionConfig, TraceConfig};
pub(crate) use text::Text;
pub(crate) use tools::ToolsConfig;

/// Everything that can be configured. What is left out has its default.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// Which model.
    pub(crate) model: ModelConfig,
    /// How it goes about it.
    pub(crate) agent: AgentConfig,
    /// What sessions are like.
    pub(crate) session: SessionConfig,
    /// Where traces go.
    pub(crate) trace: TraceConfig,
    /// When a person is asked.
    pub(crate) approval: ApprovalPolicy,
    /// Other MCP servers.
    pub(crate) mcp: McpConfig,
    /// Tools written in Python.
    pub(crate) tools: ToolsConfig,
    /// The file it came from, where there is one.
    #[serde(skip)]
    pub(crate) file: Option<PathBuf>,
    /// What stands in it.
    #[serde(skip)]
    text: String,
}

impl Config {
    /// The configuration in this file, which must be there.
    fn in_file(path: &Path) -> anyhow::Result<Config> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Usage::plain(format!("{} cannot be read: {error}", path.display())))?;
        Config::parse(path, &text)
    }

    /// The same, where a file that is not there is an empty one.
    fn in_file_if_there(path: &Path) -> anyhow::Result<Config> {
        match std::fs::read_to_string(path) {
            Ok(text) => Config::parse(path, &text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Config::default()),
            Err(error) => Err(Usage::plain(format!(
                "{} cannot be read: {error}",
                path.display()
            ))),
        }
    }

    fn parse(path: &Path, text: &str) -> anyhow::Result<Config> {
        let parsed: Result<Config, _> = toml::from_str(text);
        let mut config = parsed.map_err(|error| Problem::of(&error, text).in_file(path))?;
        config.file = Some(path.to_owned());
        config.text = text.to_owned();
        config.mcp.check(path)?;
        Ok(config)
    }

    /// Whether the file says something about a key.
    pub(crate) fn says(&self, key: &str) -> bool {
        resolver::line_of(&self.text, key).is_some()
    }

    /// A path as the file means it: relative to the directory where the file is.
    pub(crate) fn path(&self, path: &Path) -> PathBuf {
        let directory = self.file.as_deref().and_then(Path::parent);
        directory.map_or_else(|| path.to_owned(), |directory| directory.join(path))
    }
}
