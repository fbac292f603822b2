//! The flags that say what Python and what session are wanted: the same for every command.

use crate::failure::Usage;
use cellblock::{
    Host, HostBuilder, Isolation, Limits, NetworkRule, Preload, PythonChoice, Rung, Seed,
    SessionOptions, Wall, parse_duration, parse_size,
};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Which Python.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Python")]
pub(crate) struct PythonArgs {
    /// Use this interpreter [default: the first good one on PATH]
    #[arg(long, value_name = "PATH")]
    pub(crate) python: Option<PathBuf>,
    /// Use the standard library alone, although packages are installed
    #[arg(long)]
    pub(crate) stdlib: bool,
}

impl PythonArgs {
    /// Finds the Python. Nothing is started yet.
    pub(crate) fn host(&self, preload: Preload) -> Result<Host, cellblock::Error> {
        self.host_builder(preload).build()
    }

    /// The same, with more to be said about it.
    pub(crate) fn host_builder(&self, preload: Preload) -> HostBuilder {
        let choice = if self.stdlib {
            PythonChoice::StandardLibrary
        } else {
            PythonChoice::BestReady
        };
        let builder = Host::builder().python(choice).preload(preload);
        match &self.python {
            Some(path) => builder.interpreter(path),
            None => builder,
        }
    }

    /// Whether a session has fewer packages than the user may expect, because `setup` was not run.
    pub(crate) fn lacks_packages(&self, host: &Host) -> bool {
        !self.stdlib && !host.has_packages()
    }
}

/// What to tell who has no packages yet.
pub(crate) const SETUP_HINT: &str = "only the standard library is available so far; `cellblock setup` installs numpy, pandas, matplotlib and more";

/// What session.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Session")]
pub(crate) struct SessionArgs {
    /// Stop a cell after this time, such as 5, 500ms or 2min [default: 30s]
    #[arg(short, long, value_name = "SECS", value_parser = parse_duration, allow_negative_numbers = true)]
    pub(crate) timeout: Option<Duration>,
    /// Work in this directory [default: a fresh one]
    #[arg(short, long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Import before the first cell: math, "numpy as np", or short np, pd, plt
    #[arg(short, long = "import", value_name = "MODULE")]
    imports: Vec<String>,
    /// Bind a variable before the first cell: --var 'n=3' --var 'name="Ada"'
    #[arg(long = "var", value_name = "NAME=JSON")]
    variables: Vec<String>,
    /// Let it reach a host, such as pypi.org, '*.example.org:8080' or tcp://db.example.org:5432 [default: no network]
    #[arg(long, value_name = "RULE")]
    allow_net: Vec<NetworkRule>,
    /// The most memory, such as 512MB [default: 2GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Limits")]
    memory: Option<u64>,
    /// The most processes and threads [default: 64]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    processes: Option<u64>,
    /// The most new data on disk [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Limits")]
    disk: Option<u64>,
    /// The most open files [default: 1024]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    open_files: Option<u64>,
    /// How strongly to wall in: full, landlock or none [default: the best, never none]
    #[arg(long, value_name = "RUNG", help_heading = "Walls")]
    isolation: Option<Rung>,
    /// Leave a wall out, by its name in `cellblock doctor`
    #[arg(long, value_name = "WALL", help_heading = "Walls")]
    without: Vec<Wall>,
}

impl SessionArgs {
    /// The session that the flags describe, checked.
    pub(crate) fn options(&self) -> anyhow::Result<SessionOptions> {
        let default = Limits::default();
        let options = SessionOptions {
            workspace: self.workspace.clone(),
            isolation: Isolation {
                rung: self.isolation,
                without: self.without.iter().copied().collect(),
            },
            network: self.allow_net.clone(),
            limits: Limits {
                memory: self.memory.unwrap_or(default.memory),
                wall: self.timeout.unwrap_or(default.wall),
                processes: self.processes.unwrap_or(default.processes),
                open_files: self.open_files.unwrap_or(default.open_files),
                disk: self.disk.unwrap_or(default.disk),
                ..default
            },
            imports: self.imports.clone(),
            seed: self.seed()?,
            ..SessionOptions::default()
        };
        options.validate()?;
        Ok(options)
    }

    fn seed(&self) -> anyhow::Result<Seed> {
        self.variables.iter().map(|entry| variable(entry)).collect()
    }
}

fn variable(entry: &str) -> anyhow::Result<(String, serde_json::Value)> {
    let (name, json) = entry.split_once('=').ok_or_else(|| {
        Usage::hinted(
            format!("--var {entry}: a name and a value are needed"),
            "write --var 'name=value'",
        )
    })?;
    let value = serde_json::from_str(json).map_err(|error| {
        let quoted = serde_json::Value::from(json);
        Usage::hinted(
            format!("--var {name}: the value is not JSON: {error}"),
            format!("a text needs quotes: --var '{name}={quoted}'"),
        )
    })?;
    Ok((name.to_owned(), value))
}
