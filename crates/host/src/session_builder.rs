//! The short way to one session.

use crate::shared_host::shared_host;
use crate::{Error, Host, Session};
use cellblock_env::Requirements;
use cellblock_protocol::{
    ContainerOptions, CredentialRule, Isolation, Journaling, Limits, NetworkRule, Replay,
    SessionOptions, Strategy, WorkspacePlace,
};
use serde_json::Value;
use std::path::PathBuf;

/// The options of a session, and the host that starts it.
///
/// Without a host, [`SessionBuilder::start`] uses one host for all sessions of the same tokio runtime.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> Result<(), cellblock_host::Error> {
/// let session = cellblock_host::SessionBuilder::new()
///     .variable("x", 20)
///     .start()
///     .await?;
/// let result = session.run("x + 1").await?;
/// assert_eq!(result.repr(), Some("21"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct SessionBuilder {
    host: Option<Host>,
    options: SessionOptions,
    packages: Vec<String>,
}

impl SessionBuilder {
    /// A session with the defaults: a fresh workspace, every wall, and the limits [`Limits::DEFAULT`](cellblock_protocol::Limits::DEFAULT).
    pub fn new() -> SessionBuilder {
        SessionBuilder::default()
    }

    /// Uses this host instead of the one that all sessions of the tokio runtime share.
    pub fn host(mut self, host: &Host) -> SessionBuilder {
        self.host = Some(host.clone());
        self
    }

    /// The id of the session. It must be new on the host.
    pub fn name(mut self, id: impl Into<String>) -> SessionBuilder {
        self.options.session = Some(id.into());
        self
    }

    /// A directory of the user's instead of a fresh one.
    pub fn workspace(mut self, path: impl Into<PathBuf>) -> SessionBuilder {
        self.options.workspace = Some(path.into());
        self
    }

    /// Where code finds the workspace, such as `/home/user` or `/mnt/data`. `/workspace`, unless told.
    ///
    /// Sessions with another place are forked from an interpreter of their own, which the first of them starts.
    pub fn workspace_at(mut self, place: WorkspacePlace) -> SessionBuilder {
        self.options.workspace_at = place;
        self
    }

    /// In a container of its own, with the engine that `DOCKER_HOST` names or the usual one.
    pub fn container(mut self, container: ContainerOptions) -> SessionBuilder {
        self.options.container = Some(container);
        self
    }

    /// The walls.
    pub fn isolation(mut self, isolation: Isolation) -> SessionBuilder {
        self.options.isolation = isolation;
        self
    }

    /// The environment to run in: a name of `cellblock env`, or a file with requirements. See [`Host::environment_of`].
    pub fn environment(mut self, env: impl Into<String>) -> SessionBuilder {
        self.options.env = Some(env.into());
        self
    }

    /// A package that it must have, such as `httpx` or `polars>=1.0`. All of these together are its environment, made on first use.
    pub fn package(mut self, requirement: impl Into<String>) -> SessionBuilder {
        self.packages.push(requirement.into());
        self
    }

    /// Something on the network that it may reach, see [`NetworkRule`]; nothing, unless it is named.
    pub fn allow_net(mut self, rule: NetworkRule) -> SessionBuilder {
        self.options.network.push(rule);
        self
    }

    /// A header that its requests to a host get outside, see [`CredentialRule`].
    pub fn credential(mut self, rule: CredentialRule) -> SessionBuilder {
        self.options.credentials.push(rule);
        self
    }

    /// The limits.
    pub fn limits(mut self, limits: Limits) -> SessionBuilder {
        self.options.limits = limits;
        self
    }

    /// How cells are run.
    pub fn strategy(mut self, strategy: Strategy) -> SessionBuilder {
        self.options.strategy = strategy;
        self
    }

    /// A failed cell leaves no trace, as a crashed one does.
    pub fn atomic(mut self, atomic: bool) -> SessionBuilder {
        self.options.atomic = atomic;
        self
    }

    /// A name bound before the first cell: `numpy as np`, `math`, or short `np`, `pd`, `plt`.
    pub fn import(mut self, import: impl Into<String>) -> SessionBuilder {
        self.options.imports.push(import.into());
        self
    }

    /// A variable bound before the first cell.
    pub fn variable(mut self, name: impl Into<String>, value: impl Into<Value>) -> SessionBuilder {
        self.options.seed.insert(name.into(), value.into());
        self
    }

    /// Code that runs before the first cell, as cell 0.
    pub fn setup(mut self, code: impl Into<String>) -> SessionBuilder {
        self.options.setup = Some(code.into());
        self
    }

    /// Whether it keeps a journal: `true`, `false`, or a directory to keep it in. As the host does it, unless told; that is
    /// no, unless the host was told.
    pub fn journal(mut self, journal: impl Into<Journaling>) -> SessionBuilder {
        self.options.journal = journal.into();
        self
    }

    /// Whether kept cells are run again after a crash that found only an older checkpoint: `false`, or the time that this may take. 30 seconds,
    /// unless told.
    pub fn replay(mut self, replay: impl Into<Replay>) -> SessionBuilder {
        self.options.replay = replay.into();
        self
    }

    /// Starts the session. The first session of a host also starts a Python, which takes about a
    /// second with the default environment. Each later session takes milliseconds.
    ///
    /// The session ends when its last handle is dropped.
    pub async fn start(self) -> Result<Session, Error> {
        let host = match self.host {
            Some(host) => host,
            None => shared_host()?,
        };
        if self.packages.is_empty() {
            return host.open(self.options).await;
        }
        let mut wanted = Requirements::parse(self.packages)?;
        if let Some(env) = &self.options.env {
            wanted = wanted.merge(host.requirements_of(env)?);
        }
        let environment = host.environment_with(wanted).await?;
        host.open_in(&environment, self.options).await
    }
}
