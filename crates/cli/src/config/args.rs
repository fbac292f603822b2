//! Which file.

use super::Config;
use clap::Args;
use serde::{Deserialize, Serialize};
use std::env;
use std::path::PathBuf;

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
            None => match usual_place() {
                Some(path) => Config::in_file_if_there(&path),
                None => Ok(Config::default()),
            },
        }
    }
}

/// `$XDG_CONFIG_HOME/cellblock/config.toml`, where the user has a home.
fn usual_place() -> Option<PathBuf> {
    let base = env::var_os("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| Some(env::home_dir()?.join(".config")))?;
    Some(base.join("cellblock").join("config.toml"))
}
