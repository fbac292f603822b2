//! `[model]`, `[agent]` and `[session]`: what flags say too.

use cellblock::NetworkRule;
use cellblock::model::CapabilityOverrides;
use serde::{Deserialize, Deserializer, de};
use std::fmt;
use std::path::PathBuf;

/// Which model.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ModelConfig {
    pub(crate) name: Option<SettingText>,
    pub(crate) base_url: Option<SettingText>,
    /// The variable that holds the key.
    pub(crate) key_variable: Option<SettingText>,
    /// A file that holds the key, relative to the configuration file.
    pub(crate) key_file: Option<PathBuf>,
    pub(crate) reply_tokens: Option<SettingText>,
    pub(crate) temperature: Option<SettingText>,
    /// What the model can do, where the table of known models has nothing or something wrong.
    pub(crate) capabilities: CapabilityOverrides,
}

/// How the agent works.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AgentConfig {
    pub(crate) format: Option<SettingText>,
    pub(crate) prompt: Option<SettingText>,
    pub(crate) locale: Option<SettingText>,
    /// Whether the tool `compute` is offered.
    pub(crate) compute: Option<SettingText>,
    pub(crate) best_of: Option<SettingText>,
    pub(crate) max_steps: Option<SettingText>,
    pub(crate) max_time: Option<SettingText>,
    pub(crate) max_tokens: Option<SettingText>,
    pub(crate) max_cost: Option<SettingText>,
}

/// Where traces go beside their file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TraceConfig {
    /// The address of an OTLP collector, without /v1/traces.
    pub(crate) otlp: Option<String>,
}

/// What sessions are like.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SessionConfig {
    pub(crate) python: Option<SettingText>,
    /// Whether sessions have the standard library alone.
    pub(crate) stdlib: Option<SettingText>,
    /// What is imported before the first session of `ask` and `chat`: none, standard or full.
    pub(crate) preload: Option<SettingText>,
    pub(crate) timeout: Option<SettingText>,
    pub(crate) imports: Option<Vec<SettingText>>,
    pub(crate) allow_net: Option<Vec<SettingText>>,
    pub(crate) memory: Option<SettingText>,
    pub(crate) processes: Option<SettingText>,
    pub(crate) cpus: Option<SettingText>,
    pub(crate) disk: Option<SettingText>,
    pub(crate) open_files: Option<SettingText>,
    pub(crate) isolation: Option<SettingText>,
    pub(crate) without: Option<Vec<SettingText>>,
}

/// The section.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ToolsConfig {
    /// Folders of `.py` files, relative to the configuration file.
    pub(crate) folders: Vec<PathBuf>,
    /// Variables of the environment that these tools may see.
    pub(crate) secrets: Vec<String>,
    /// What they may reach on the network.
    pub(crate) allow_net: Vec<NetworkRule>,
}

/// A text, a number, or `true` and `false`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SettingText(pub(crate) String);

struct SettingTextVisitor;

impl<'de> Deserialize<'de> for SettingText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SettingText, D::Error> {
        deserializer.deserialize_any(SettingTextVisitor)
    }
}

impl de::Visitor<'_> for SettingTextVisitor {
    type Value = SettingText;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a text or a number")
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<SettingText, E> {
        Ok(SettingText(value.to_owned()))
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<SettingText, E> {
        Ok(SettingText(value.to_string()))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<SettingText, E> {
        Ok(SettingText(value.to_string()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<SettingText, E> {
        Ok(SettingText(value.to_string()))
    }
}
