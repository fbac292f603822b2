//! The flags that several commands share.

#[cfg(feature = "server")]
#[cfg_attr(not(feature = "cluster"), path = "cluster_absent.rs")]
mod cluster;
mod python;
mod session;
#[cfg_attr(not(feature = "mcp"), path = "tool_servers_absent.rs")]
mod tool_servers;
mod tools;

use cellblock::Locale;
use clap::Args;

#[cfg(feature = "server")]
pub(crate) use cluster::ClusterArgs;
#[cfg(feature = "cluster")]
pub(crate) use cluster::EngineArgs;
pub(crate) use python::{EnvironmentArgs, PythonArgs, SETUP_HINT};
pub(crate) use session::{SessionArgs, duration, seconds, with_default};
pub(crate) use tool_servers::ToolServers;
pub(crate) use tools::{ApprovalArgs, Audience, ToolboxArgs, install_packages, tool_runner};

/// In which form.
#[derive(Clone, Debug, Args)]
pub(crate) struct ResultArgs {
    /// Print the whole result as one JSON object, and nothing else
    #[arg(long, conflicts_with = "for_model")]
    pub(crate) json: bool,
    /// Print the text that a model would read, and nothing else
    #[arg(long)]
    pub(crate) for_model: bool,
    /// The language of --for-model: en or zh
    #[arg(
        long,
        value_name = "LANGUAGE",
        default_value = "en",
        requires = "for_model"
    )]
    pub(crate) locale: Locale,
}
