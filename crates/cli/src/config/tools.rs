//! `[tools]`: tools written in Python.

use cellblock::NetworkRule;
use serde::Deserialize;
use std::path::PathBuf;

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
