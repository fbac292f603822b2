//! The host of sessions: one Python, and a runtime for each kind of walls that was asked for.

use crate::packages::{self, Packages};
use crate::runtimes::{KEEP_WARM, Runtimes};
use crate::{Error, SessionBuilder};
use cellblock_env::{
    Cancel, Dirs, Environment, EnvironmentStatus, Environments, InstallProgress, Interpreter,
    Requirements, Search, StoredEnvironment,
};
use cellblock_protocol::{Isolation, Journaling, SessionOptions, Shell, WorkspacePlace};
use cellblock_session::journal::Journals;
use cellblock_session::{Containers, Engine, Preload, Runtime, Session};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Starts sessions. A handle: clones are the same host.
///
/// The first session of a kind starts a Python, which takes about a second; the next ones are forked from it in milliseconds. So a
/// program has one host, and shares it. Sessions end with their own handles, and outlive those of the host.
///
/// ```
/// use cellblock_host::Host;
/// use cellblock_protocol::SessionOptions;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), cellblock_host::Error> {
/// let host = Host::builder().pool(2).build()?;
/// let first = host.open(SessionOptions::named("first")).await?;
/// let second = host.session().name("second").variable("x", 2).start().await?;
/// first.run("x = 1").await?;
/// // Sessions share nothing.
/// assert_eq!(first.run("x").await?.repr(), Some("1"));
/// assert_eq!(second.run("x").await?.repr(), Some("2"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Host {
    state: Arc<HostState>,
}

#[derive(Debug)]
struct HostState {
    environment: Environment,
    choice: PythonChoice,
    packages: Packages,
    report: Option<Reporter>,
    journal: Journaling,
    dirs: Dirs,
    runtimes: Arc<Runtimes>,
    containers: OnceLock<Containers>,
    container_packages: Option<Requirements>,
}

/// The name of the host's own environment in [`SessionOptions::env`].
const OWN_ENVIRONMENT: &str = "default";

/// Which packages sessions find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PythonChoice {
    /// The default environment when it is ready, the standard library alone while it is not.
    #[default]
    BestReady,
    /// The standard library alone.
    StandardLibrary,
}

/// How to set a host up.
#[derive(Clone, Debug, Default)]
pub struct HostBuilder {
    environments: Option<Environments>,
    report: Option<Reporter>,
    keep_warm: Option<Duration>,
    interpreter: Option<PathBuf>,
    environment: Option<Environment>,
    container_packages: Option<Requirements>,
    choice: PythonChoice,
    preload: Preload,
    pool: usize,
    hash_seed: Option<u32>,
    journal: Journaling,
    dirs: Option<Dirs>,
}

impl Host {
    /// A host with an interpreter that is found, and the default environment when it is ready.
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    /// A session of this host, to be described and started.
    pub fn session(&self) -> SessionBuilder {
        SessionBuilder::new().host(self)
    }

    /// Starts a session with these options.
    pub async fn open(&self, mut options: SessionOptions) -> Result<Session, Error> {
        self.journaled(&mut options)?;
        if options.container.is_some() {
            // Boxed: the future of every session would hold that of an install.
            return Box::pin(self.open_in_container(options)).await;
        }
        let runtime = match options.env.as_deref() {
            None => self.runtime_for(&self.state.environment, &options).await?,
            Some(env) if env == OWN_ENVIRONMENT => {
                self.runtime_for(&self.state.environment, &options).await?
            }
            Some(env) => {
                let environment = self.environment_of(env).await?;
                self.runtime_for(&environment, &options).await?
            }
        };
        Ok(runtime.open(options).await?)
    }

    /// A session in a container. Packages that were asked for by name are installed for the Python of its image: the environments
    /// of this machine are for another Python.
    async fn open_in_container(&self, options: SessionOptions) -> Result<Session, Error> {
        let wanted = match options.env.as_deref() {
            Some(env) if env != OWN_ENVIRONMENT => Some(self.requirements_of(env)?),
            _ => self.state.container_packages.clone(),
        };
        let session = self.containers()?.open(options).await?;
        if let Some(wanted) = wanted {
            self.state.packages.install(&session, wanted).await?;
        }
        Ok(session)
    }

    /// Makes a session in an environment of its own, whatever the options say about one.
    pub async fn open_in(
        &self,
        environment: &Environment,
        mut options: SessionOptions,
    ) -> Result<Session, Error> {
        options.env = None;
        self.journaled(&mut options)?;
        let runtime = self.runtime_for(environment, &options).await?;
        Ok(runtime.open(options).await?)
    }

    /// The environment that a name of `cellblock env` stands for, or a file: a list of requirements, a `pyproject.toml`, a script
    /// with a header. Made if need be.
    pub async fn environment_of(&self, env: &str) -> Result<Environment, Error> {
        self.environment_with(self.requirements_of(env)?).await
    }

    /// The environments and layers on disk, the last used first, as `cellblock env list` shows them. Reads the disk, so it blocks.
    pub fn stored_environments(&self) -> Vec<StoredEnvironment> {
        self.state.packages.environments().list()
    }

    /// What a name or a file asks for.
    pub fn requirements_of(&self, env: &str) -> Result<Requirements, Error> {
        let environments = self.state.packages.environments();
        // A name has neither.
        let is_file = env.contains(['/', '.']);
        Ok(if is_file {
            Requirements::from_file(Path::new(env))?
        } else {
            environments.requirements_named(env)?
        })
    }

    /// An environment with these packages and no others, made if need be.
    pub async fn environment_with(&self, wanted: Requirements) -> Result<Environment, Error> {
        let interpreter = self.state.environment.interpreter.clone();
        let environments = self.state.packages.environments();
        // The usual case, without a thread.
        if let EnvironmentStatus::Ready(environment) = environments.status(&interpreter, &wanted) {
            return Ok(*environment);
        }
        let (environments, report) = (environments.clone(), self.state.report.clone());
        let cancel = Cancel::new();
        let _guard = cancel.on_drop();
        let made = tokio::task::spawn_blocking(move || {
            environments.make(&interpreter, &wanted, &cancel, &mut |progress| {
                if let Some(Reporter(report)) = &report {
                    report(progress);
                }
            })
        });
        Ok(made.await??)
    }

    /// Brings packages to sessions of this host while they live.
    pub fn packages(&self) -> &Packages {
        &self.state.packages
    }

    /// The runtime for these walls, started if need be.
    pub async fn runtime(&self, isolation: &Isolation) -> Result<Runtime, Error> {
        self.runtime_in(&self.state.environment, isolation).await
    }

    /// The same in another environment. It is kept warm while it is used, and dropped after ten minutes without a new session.
    pub async fn runtime_in(
        &self,
        environment: &Environment,
        isolation: &Isolation,
    ) -> Result<Runtime, Error> {
        let place = WorkspacePlace::default();
        let runtimes = &self.state.runtimes;
        runtimes
            .get(environment, isolation, &place, Shell::Plain)
            .await
    }

    /// The runtime that a session with these options is opened in.
    async fn runtime_for(
        &self,
        environment: &Environment,
        options: &SessionOptions,
    ) -> Result<Runtime, Error> {
        let runtimes = &self.state.runtimes;
        let (isolation, place) = (&options.isolation, &options.workspace_at);
        runtimes
            .get(environment, isolation, place, options.shell)
            .await
    }

    /// The Pythons that are warm now: a session of theirs needs no start of an interpreter.
    pub async fn warm(&self) -> Vec<PathBuf> {
        self.state.runtimes.warm().await
    }

    /// Ends the sessions that were made ahead of demand, and makes no more. Sessions that are open go on. A program that ends without it can
    /// leave empty workspaces behind.
    pub async fn close_pools(&self) {
        self.state.runtimes.close_pools().await;
    }

    fn journaled(&self, options: &mut SessionOptions) -> Result<(), Error> {
        options.validate()?;
        if options.journal == Journaling::HostsChoice {
            options.journal = self.state.journal.clone();
        }
        if options.journal == Journaling::On {
            options.journal = Journaling::In(self.journals().directory().to_owned());
        }
        Ok(())
    }

    /// Opens sessions in containers, with the engine that `DOCKER_HOST` names or the usual one.
    fn containers(&self) -> Result<Containers, Error> {
        if let Some(containers) = self.state.containers.get() {
            return Ok(containers.clone());
        }
        let engine = Engine::from_environment().map_err(cellblock_session::Error::from)?;
        let Dirs { state, cache, .. } = &self.state.dirs;
        let layers = self.state.packages.environments().layers_directory()?;
        let made = || Containers::new(engine, state, cache).packages(layers);
        Ok(self.state.containers.get_or_init(made).clone())
    }

    /// The journals that its sessions keep, unless they are told to keep them elsewhere.
    pub fn journals(&self) -> Journals {
        match &self.state.journal {
            Journaling::In(directory) => Journals::new(directory),
            _ => Journals::new(self.state.dirs.state.join("journals")),
        }
    }

    /// Where it keeps what should outlive a run.
    pub fn state_directory(&self) -> &Path {
        &self.state.dirs.state
    }

    /// The environment that its sessions run in.
    pub fn environment(&self) -> &Environment {
        &self.state.environment
    }

    /// Whether sessions have packages or only the standard library.
    pub fn has_packages(&self) -> bool {
        self.state.choice == PythonChoice::BestReady && !self.state.environment.packages.is_empty()
    }
}

impl HostBuilder {
    /// Uses this interpreter and no other.
    pub fn interpreter(mut self, path: impl Into<PathBuf>) -> HostBuilder {
        self.interpreter = Some(path.into());
        self
    }

    /// Installs these packages for sessions in containers, each for the Python of its image.
    pub fn container_packages(mut self, wanted: Requirements) -> HostBuilder {
        self.container_packages = Some(wanted);
        self
    }

    /// Uses this environment.
    pub fn environment(mut self, environment: Environment) -> HostBuilder {
        self.environment = Some(environment);
        self
    }

    /// Which packages sessions find.
    pub fn python(mut self, choice: PythonChoice) -> HostBuilder {
        self.choice = choice;
        self
    }

    /// What is imported before the first session.
    pub fn preload(mut self, preload: Preload) -> HostBuilder {
        self.preload = preload;
        self
    }

    /// How many sessions are kept ready ahead of demand. None unless told.
    pub fn pool(mut self, size: usize) -> HostBuilder {
        self.pool = size;
        self
    }

    /// The seed of Python's hashes in all sessions: with the same one, a session that is made again on another machine finds sets in the
    /// same order. Random for each host unless told. Sessions in containers have their own.
    pub fn hash_seed(mut self, seed: u32) -> HostBuilder {
        self.hash_seed = Some(seed);
        self
    }

    /// Whether sessions keep a journal, unless they say so themselves: `true`, `false` or a directory. Not unless told.
    pub fn journal(mut self, journal: impl Into<Journaling>) -> HostBuilder {
        self.journal = journal.into();
        self
    }

    /// Where workspaces and caches are kept.
    pub fn dirs(mut self, dirs: Dirs) -> HostBuilder {
        self.dirs = Some(dirs);
        self
    }

    /// Where environments come from and go to, instead of the user's own.
    pub fn environments(mut self, environments: Environments) -> HostBuilder {
        self.environments = Some(environments);
        self
    }

    /// How long the Python of another environment stays warm without a new session: ten minutes unless told.
    pub fn keep_warm(mut self, time: Duration) -> HostBuilder {
        self.keep_warm = Some(time);
        self
    }

    /// Hears how far the making of an environment has come.
    pub fn progress(
        mut self,
        report: impl Fn(InstallProgress) + Send + Sync + 'static,
    ) -> HostBuilder {
        self.report = Some(Reporter(Arc::new(report)));
        self
    }

    /// Finds the Python. Sessions and their processes come later, with the first [`Host::open`].
    pub fn build(self) -> Result<Host, Error> {
        let dirs = match self.dirs {
            Some(dirs) => dirs,
            None => Dirs::from_process()?,
        };
        let environments = self
            .environments
            .unwrap_or_else(|| packages::environments(&dirs));
        let environment = match self.environment {
            Some(environment) => environment,
            None => choose(&environments, &find(self.interpreter)?, self.choice),
        };
        let mut packages = Packages::new(environments);
        if let Some(Reporter(report)) = self.report.clone() {
            packages = packages.reporting(move |progress| report(progress));
        }
        let runtimes = Runtimes::new(
            packages.environments().clone(),
            dirs.clone(),
            self.preload,
            self.pool,
            self.hash_seed,
            self.keep_warm.unwrap_or(KEEP_WARM),
            environment.python.clone(),
        );
        let state = HostState {
            environment,
            choice: self.choice,
            packages,
            report: self.report,
            journal: self.journal,
            dirs,
            runtimes: Arc::new(runtimes),
            containers: OnceLock::new(),
            container_packages: self.container_packages,
        };
        Ok(Host {
            state: Arc::new(state),
        })
    }
}

/// Hears how far something has come.
#[derive(Clone)]
struct Reporter(packages::InstallProgressListener);

impl std::fmt::Debug for Reporter {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Reporter")
    }
}

fn find(wanted: Option<PathBuf>) -> Result<Interpreter, Error> {
    let search = Search::from_process()?;
    Ok(match wanted {
        Some(path) => search.explicit(path).find()?,
        None => search.find()?,
    })
}

fn choose(
    environments: &Environments,
    interpreter: &Interpreter,
    choice: PythonChoice,
) -> Environment {
    let status = match choice {
        PythonChoice::StandardLibrary => EnvironmentStatus::Missing,
        PythonChoice::BestReady => environments.status(interpreter, &Requirements::default_set()),
    };
    match status {
        EnvironmentStatus::Ready(environment) => *environment,
        _ => Environment::standard_library(interpreter),
    }
}
