//! The flags that describe a session.

use crate::config::{Config, SessionConfig, SettingResolver, SettingSpec};
use crate::failure::Usage;
use crate::terminal::WorkspaceKind;
use cellblock::env::Dirs;
use cellblock::{
    Arming, ContainerOptions, CredentialRule, Isolation, Limits, NetworkRule, Replay, Rung, Seed,
    SessionOptions, Strategy, UntrustedDirectories, Wall, WorkspacePlace, parse_duration,
    parse_size,
};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

/// The flags that describe a session.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "Session")]
pub(crate) struct SessionArgs {
    /// Stop a cell after this time, such as 5, 500ms or 2min.
    #[arg(short, long, value_name = "SECS", value_parser = parse_duration, allow_negative_numbers = true, help = with_default("Stop a cell after this time, such as 5, 500ms or 2min", seconds(&Limits::DEFAULT.wall)))]
    pub(crate) timeout: Option<Duration>,
    /// Work in this directory [default: a fresh one]
    #[arg(short, long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Show the workspace to code at this path, such as /home/user or /mnt/data [default: /workspace]
    #[arg(long, value_name = "PATH")]
    workspace_at: Option<WorkspacePlace>,
    /// Where it runs: local, behind the walls of this machine, or docker, in a container
    #[arg(
        long,
        value_name = "NAME",
        default_value = "local",
        hide_possible_values = true
    )]
    backend: Backend,
    /// The image of the container [default: python:3.12]
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Import before the first cell: math, "numpy as np", or short np, pd, plt
    #[arg(short, long = "import", value_name = "MODULE")]
    imports: Vec<String>,
    /// Bind a variable before the first cell: --var 'n=3' --var 'name="Ada"'
    #[arg(long = "var", value_name = "NAME=JSON")]
    variables: Vec<String>,
    /// Let it reach a host, such as example.org, '*.example.org:8080' or tcp://db.example.org:5432 [default: no network]
    #[arg(long, value_name = "RULE")]
    allow_net: Vec<NetworkRule>,
    /// Put a secret on its requests outside: 'api.example.org Authorization: Bearer env:TOKEN', or file:PATH
    #[arg(long, value_name = "RULE")]
    credential: Vec<CredentialRule>,
    /// Lose the cells since an older checkpoint after a crash, instead of running them again
    #[arg(long)]
    no_replay: bool,
    /// How cells run: process, thread (answers questions meanwhile) or direct (no checkpoints) [default: process, for exec direct]
    #[arg(long, value_name = "NAME", hide_possible_values = true)]
    strategy: Option<StrategyName>,
    /// Take back everything that a cell did if it fails
    #[arg(long)]
    atomic: bool,
    /// Whether a cell waits for its checkpoint: strict, or lazy (it starts at once) [default: strict]
    #[arg(long, value_name = "WHEN", hide_possible_values = true)]
    arming: Option<ArmingName>,
    /// The most memory, such as 512MB.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Limits", help = with_default("The most memory, such as 512MB", size(&Limits::DEFAULT.memory)))]
    memory: Option<u64>,
    /// The most processes and threads.
    #[arg(long, value_name = "N", help_heading = "Limits", help = with_default("The most processes and threads", Limits::DEFAULT.processes))]
    processes: Option<u64>,
    /// The most processors at a time, such as 0.5 or 2 [default: all]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    cpus: Option<f64>,
    /// The most new data on disk.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Limits", help = with_default("The most new data on disk", size(&Limits::DEFAULT.disk)))]
    disk: Option<u64>,
    /// The most open files.
    #[arg(long, value_name = "N", help_heading = "Limits", help = with_default("The most open files", Limits::DEFAULT.open_files))]
    open_files: Option<u64>,
    /// How strongly to wall in: full, landlock or none [default: the best, never none]
    #[arg(long, value_name = "RUNG", help_heading = "Walls")]
    isolation: Option<Rung>,
    /// Leave a wall out, by its name in `cellblock doctor`
    #[arg(long, value_name = "WALL", help_heading = "Walls")]
    without: Vec<Wall>,
}

/// Where a session runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
enum Backend {
    #[default]
    Local,
    Docker,
}

/// How cells run, as the flag says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
enum StrategyName {
    Process,
    Thread,
    Direct,
}

impl From<StrategyName> for Strategy {
    fn from(name: StrategyName) -> Strategy {
        match name {
            StrategyName::Process => Strategy::Process,
            StrategyName::Thread => Strategy::Thread,
            StrategyName::Direct => Strategy::Direct,
        }
    }
}

/// Whether a cell waits for its checkpoint, as the flag says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
enum ArmingName {
    Strict,
    Lazy,
}

impl From<ArmingName> for Arming {
    fn from(name: ArmingName) -> Arming {
        match name {
            ArmingName::Strict => Arming::Strict,
            ArmingName::Lazy => Arming::Lazy,
        }
    }
}

impl SessionArgs {
    /// The strategy for a session with a single cell: without checkpoints, for there is no second cell that one could be for. An atomic cell
    /// needs the checkpoint before it.
    pub(crate) fn strategy_for_one_cell(&self) -> Strategy {
        match self.strategy {
            Some(name) => name.into(),
            None if self.atomic => Strategy::Process,
            None => Strategy::Direct,
        }
    }

    /// Resolves settings without a flag from environment variables and the configuration.
    pub(crate) fn resolve(&self, config: &Config) -> anyhow::Result<SessionArgs> {
        self.resolve_in(&mut SettingResolver::new(config), &config.session)
    }

    /// Resolves the settings with this resolver, which notes the source of each value.
    pub(crate) fn resolve_in(
        &self,
        resolver: &mut SettingResolver<'_>,
        file: &SessionConfig,
    ) -> anyhow::Result<SessionArgs> {
        let mut args = self.clone();
        let spec = SettingSpec::new;
        let default = Limits::DEFAULT;
        let timeout = spec("session.timeout", "--timeout", "").with_default(seconds(&default.wall));
        resolver.resolve(
            timeout,
            &mut args.timeout,
            file.timeout.as_ref(),
            duration,
            seconds,
        )?;
        let imports = spec("session.imports", "--import", "");
        resolver.list(imports, &mut args.imports, file.imports.as_ref())?;
        let network = spec("session.allow_net", "--allow-net", "none");
        resolver.list(network, &mut args.allow_net, file.allow_net.as_ref())?;
        let memory = spec("session.memory", "--memory", "").with_default(size(&default.memory));
        resolver.resolve(memory, &mut args.memory, file.memory.as_ref(), bytes, size)?;
        let processes = spec("session.processes", "--processes", "")
            .with_default(default.processes.to_string());
        resolver.plain(processes, &mut args.processes, file.processes.as_ref())?;
        let cpus = spec("session.cpus", "--cpus", "all");
        resolver.plain(cpus, &mut args.cpus, file.cpus.as_ref())?;
        let disk = spec("session.disk", "--disk", "").with_default(size(&default.disk));
        resolver.resolve(disk, &mut args.disk, file.disk.as_ref(), bytes, size)?;
        let files = spec("session.open_files", "--open-files", "")
            .with_default(default.open_files.to_string());
        resolver.plain(files, &mut args.open_files, file.open_files.as_ref())?;
        let rung = spec("session.isolation", "--isolation", "the best, never none");
        resolver.plain(rung, &mut args.isolation, file.isolation.as_ref())?;
        let walls = spec("session.without", "--without", "");
        resolver.list(walls, &mut args.without, file.without.as_ref())?;
        Ok(args)
    }

    /// The directories in which code of sessions can have made names: this workspace, and the workspaces in the state directory.
    pub(crate) fn untrusted_directories(&self) -> UntrustedDirectories {
        let own = Dirs::from_process().map(|dirs| dirs.state.join("workspaces"));
        UntrustedDirectories::new(self.workspace.clone().into_iter().chain(own))
    }

    /// Whether cells without a checkpoint run again after a crash.
    pub(crate) fn replay(&self) -> Replay {
        (!self.no_replay).into()
    }

    /// Whose directory the workspace is.
    pub(crate) fn workspace_kind(&self) -> WorkspaceKind {
        WorkspaceKind::of(self.workspace.as_deref())
    }

    /// The options of the session that the flags describe, checked.
    pub(crate) fn options(&self) -> anyhow::Result<SessionOptions> {
        let default = Limits::DEFAULT;
        let options = SessionOptions {
            workspace: self.workspace.clone(),
            workspace_at: self.workspace_at.clone().unwrap_or_default(),
            container: self.container()?,
            isolation: Isolation {
                rung: self.isolation,
                without: self.without.iter().copied().collect(),
            },
            network: self.allow_net.clone(),
            credentials: self.credential.clone(),
            limits: Limits {
                memory: self.memory.unwrap_or(default.memory),
                wall: self.timeout.unwrap_or(default.wall),
                processes: self.processes.unwrap_or(default.processes),
                cpus: self.cpus,
                open_files: self.open_files.unwrap_or(default.open_files),
                disk: self.disk.unwrap_or(default.disk),
                ..default
            },
            imports: self.imports.clone(),
            seed: self.seed()?,
            replay: self.replay(),
            strategy: self.strategy.map_or_else(Strategy::default, Strategy::from),
            atomic: self.atomic,
            arming: self.arming.map_or_else(Arming::default, Arming::from),
            ..SessionOptions::default()
        };
        if options.atomic && options.strategy == Strategy::Direct {
            return Err(Usage::hinted(
                "--atomic needs checkpoints, and the strategy direct makes none".to_owned(),
                "leave --strategy out, or choose process or thread",
            ));
        }
        options.validate()?;
        Ok(options)
    }

    fn container(&self) -> anyhow::Result<Option<ContainerOptions>> {
        match (self.backend, &self.image) {
            (Backend::Docker, Some(image)) => Ok(Some(ContainerOptions::image(image))),
            (Backend::Docker, None) => Ok(Some(ContainerOptions::default())),
            (Backend::Local, None) => Ok(None),
            (Backend::Local, Some(_)) => Err(Usage::hinted(
                "--image is for containers, and this session is not in one".to_owned(),
                "add --backend docker",
            )),
        }
    }

    fn seed(&self) -> anyhow::Result<Seed> {
        self.variables.iter().map(|entry| variable(entry)).collect()
    }
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|problem| problem.to_string())
}

pub(crate) fn seconds(time: &Duration) -> String {
    format!("{}s", time.as_secs_f64())
}

/// The help of a flag, with the default that the code has.
pub(crate) fn with_default(help: &str, default: impl Display) -> String {
    format!("{help} [default: {default}]")
}

fn bytes(text: &str) -> Result<u64, String> {
    parse_size(text).map_err(|problem| problem.to_string())
}

fn size(bytes: &u64) -> String {
    let units = [
        (1 << 30, "GiB"),
        (1_000_000_000, "GB"),
        (1 << 20, "MiB"),
        (1_000_000, "MB"),
        (1 << 10, "KiB"),
    ];
    let fitting = units.iter().find(|(unit, _)| bytes.is_multiple_of(*unit));
    fitting.map_or(format!("{bytes}B"), |(unit, name)| {
        format!("{}{name}", bytes / unit)
    })
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
