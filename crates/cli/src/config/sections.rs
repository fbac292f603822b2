//! `[model]`, `[agent]` and `[session]`: what flags say too.

use super::text::Text;
use cellblock::model::CapabilityOverrides;
use serde::Deserialize;
use std::path::PathBuf;

/// Which model.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ModelConfig {
    pub(crate) name: Option<Text>,
    pub(crate) base_url: Option<Text>,
    /// The variable that holds the key.
    pub(crate) key_variable: Option<Text>,
    /// A file that holds the key, relative to the configuration file.
    pub(crate) key_file: Option<PathBuf>,
    pub(crate) reply_tokens: Option<Text>,
    pub(crate) temperature: Option<Text>,
    /// What it can do, where we do not know it or know it wrongly.
    pub(crate) capabilities: CapabilityOverrides,
}

/// How it goes about it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AgentConfig {
    pub(crate) format: Option<Text>,
    pub(crate) prompt: Option<Text>,
    pub(crate) locale: Option<Text>,
    /// Whether the tool `compute` is offered.
    pub(crate) compute: Option<Text>,
    pub(crate) best_of: Option<Text>,
    pub(crate) max_steps: Option<Text>,
    pub(crate) max_time: Option<Text>,
    pub(crate) max_tokens: Option<Text>,
    pub(crate) max_cost: Option<Text>,
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
    pub(crate) python: Option<Text>,
    /// Whether sessions have the standard library alone.
    pub(crate) stdlib: Option<Text>,
    /// What is imported before the first session of `ask` and `chat`: none, standard or full.
    pub(crate) preload: Option<Text>,
    pub(crate) timeout: Option<Text>,
    pub(crate) imports: Option<Vec<Text>>,
    pub(crate) allow_net: Option<Vec<Text>>,
    pub(crate) memory: Option<Text>,
    pub(crate) processes: Option<Text>,
    pub(crate) disk: Option<Text>,
    pub(crate) open_files: Option<Text>,
    pub(crate) isolation: Option<Text>,
    pub(crate) without: Option<Vec<Text>>,
}
