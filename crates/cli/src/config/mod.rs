//! The configuration file.
//!
//! One TOML file with a section for each part. To add a section, add a field to [`Config`].

mod key_places;
mod mcp;
mod resolver;
mod sections;

use crate::failure::Usage;
use cellblock::tools::ApprovalPolicy;
use clap::Args;
use key_places::KeyPlaces;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::{env, io};

pub(crate) use mcp::McpConfig;
pub(crate) use resolver::{ResolvedSetting, SettingResolver, SettingSpec};
pub(crate) use sections::{
    AgentConfig, ModelConfig, SessionConfig, SettingText, ToolsConfig, TraceConfig,
};

/// Everything that can be configured. What is left out has its default.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// Which model.
    pub(crate) model: ModelConfig,
    /// How the agent works.
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
    /// Where its keys stand.
    #[serde(skip)]
    places: KeyPlaces,
}

impl Config {
    /// The configuration in this file, which must be there.
    fn in_file(path: &Path) -> anyhow::Result<Config> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Usage::plain(format!("{} cannot be read: {error}", path.display())))?;
        Config::parse(path, &text)
    }

    /// The configuration in this file, or the default one if there is no file.
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
        let mut config = parsed.map_err(|error| ConfigProblem::of(&error, text).in_file(path))?;
        config.file = Some(path.to_owned());
        config.places = KeyPlaces::of(text);
        config.mcp.check(path)?;
        Ok(config)
    }

    /// Whether the file says something about a key.
    pub(crate) fn says(&self, key: &str) -> bool {
        self.places.line_of(key).is_some()
    }

    /// A path as the file means it: relative to the directory where the file is.
    pub(crate) fn path(&self, path: &Path) -> PathBuf {
        let directory = self.file.as_deref().and_then(Path::parent);
        directory.map_or_else(|| path.to_owned(), |directory| directory.join(path))
    }
}

/// Where the configuration is.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Configuration")]
pub(crate) struct ConfigArgs {
    /// Read this file [default: $CELLBLOCK_CONFIG, else ~/.config/cellblock/config.toml if it is there]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ConfigArgs {
    /// The configuration. A file that was named must be there.
    pub(crate) fn load(&self) -> anyhow::Result<Config> {
        let named = env::var_os("CELLBLOCK_CONFIG")
            .filter(|value| !value.is_empty())
            .map(PathBuf::from);
        match self.config.clone().or(named) {
            Some(path) => Config::in_file(&path),
            None => match default_config_path() {
                Some(path) => Config::in_file_if_there(&path),
                None => Ok(Config::default()),
            },
        }
    }
}

/// `$XDG_CONFIG_HOME/cellblock/config.toml`, where the user has a home.
fn default_config_path() -> Option<PathBuf> {
    let base = env::var_os("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| Some(env::home_dir()?.join(".config")))?;
    Some(base.join("cellblock").join("config.toml"))
}

/// A mistake in the file.
#[derive(Debug, PartialEq, Eq)]
struct ConfigProblem {
    line: Option<usize>,
    section: Option<String>,
    message: String,
    hint: Option<String>,
}

impl ConfigProblem {
    fn of(error: &toml::de::Error, text: &str) -> ConfigProblem {
        let at = error.span().map(|span| span.start.min(text.len()));
        let before = at.and_then(|at| text.get(..at)).unwrap_or_default();
        let message = error.message().trim().replace('\n', ", ");
        let unknown = message.strip_prefix("unknown field ").map(quoted);
        let (message, hint) = match unknown.as_deref() {
            Some([unknown, known @ ..]) => (
                format!("there is no key `{unknown}` here"),
                Some(match closest(unknown, known) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => format!("the keys are {}", known.join(", ")),
                }),
            ),
            _ => (message, None),
        };
        ConfigProblem {
            line: at.map(|_| before.matches('\n').count() + 1),
            section: KeyPlaces::of(text).section_at(before.len()),
            message,
            hint,
        }
    }

    fn in_file(self, path: &Path) -> anyhow::Error {
        let mut place = path.display().to_string();
        if let Some(line) = self.line {
            place.push_str(&format!(":{line}"));
        }
        if let Some(section) = &self.section {
            place.push_str(&format!(": {section}"));
        }
        let message = format!("{place}: {}", self.message);
        match self.hint {
            Some(hint) => Usage::hinted(message, hint),
            None => Usage::plain(message),
        }
    }
}

/// The words between backticks.
fn quoted(text: &str) -> Vec<String> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// The known word that differs least, when it differs little.
fn closest(word: &str, known: &[String]) -> Option<String> {
    let scored = known.iter().map(|other| (distance(word, other), other));
    let (distance, best) = scored.min_by_key(|(distance, _)| *distance)?;
    let limit = (word.chars().count() / 3).max(1);
    (distance <= limit + 1).then(|| best.clone())
}

/// How many letters must be added, removed or changed.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, compared) in other.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *compared);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}
