//! The host of sessions: one Python, and a runtime for each kind of walls that was asked for.

use crate::Error;
use cellblock_env::{Dirs, Environment, Interpreter, Search, Status, default_environment_status};
use cellblock_protocol::{Isolation, Journaling, SessionOptions};
use cellblock_session::journal::Journals;
use cellblock_session::{Containers, Engine, Preload, Python, Runtime, Session};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use tokio::sync::Mutex;

/// Starts sessions. A handle: clones are the same host.
#[derive(Clone, Debug)]
pub struct Host {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    environment: Environment,
    choice: PythonChoice,
    python: Python,
    preload: Preload,
    pool: usize,
    journal: Journaling,
    dirs: Dirs,
    runtimes: Mutex<HashMap<String, Runtime>>,
    containers: OnceLock<Containers>,
}

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
    interpreter: Option<PathBuf>,
    environment: Option<Environment>,
    choice: PythonChoice,
    preload: Preload,
    pool: usize,
    journal: Journaling,
    dirs: Option<Dirs>,
}

impl Host {
    /// A host with an interpreter that is found, and the default environment when it is ready.
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    /// Makes a session.
    pub async fn open(&self, mut options: SessionOptions) -> Result<Session, Error> {
        options.validate()?;
        if options.journal == Journaling::HostsChoice {
            options.journal = self.inner.journal.clone();
        }
        if options.journal == Journaling::On {
            options.journal = Journaling::In(self.journals().directory().to_owned());
        }
        if options.container.is_some() {
            return Ok(self.containers()?.open(options).await?);
        }
        let runtime = self.runtime(&options.isolation).await?;
        Ok(runtime.open(options).await?)
    }

    /// Whoever opens sessions in containers, with the engine that `DOCKER_HOST` names or the usual one.
    fn containers(&self) -> Result<Containers, Error> {
        if let Some(containers) = self.inner.containers.get() {
            return Ok(containers.clone());
        }
        let engine = Engine::from_environment().map_err(cellblock_session::Error::from)?;
        let Dirs { state, cache, .. } = &self.inner.dirs;
        let made = || Containers::new(engine, state, cache);
        Ok(self.inner.containers.get_or_init(made).clone())
    }

    /// The runtime for these walls, started if need be.
    pub async fn runtime(&self, isolation: &Isolation) -> Result<Runtime, Error> {
        let mut runtimes = self.inner.runtimes.lock().await;
        let key = format!("{isolation:?}");
        if let Some(runtime) = runtimes.get(&key) {
            return Ok(runtime.clone());
        }
        let Dirs { state, cache, .. } = &self.inner.dirs;
        let builder = Runtime::builder(self.inner.python.clone(), state, cache)
            .isolation(isolation.clone())
            .preload(self.inner.preload)
            .pool(self.inner.pool);
        let runtime = builder.start().await?;
        runtimes.insert(key, runtime.clone());
        Ok(runtime)
    }

    /// The journals that its sessions keep, unless they are told to keep them elsewhere.
    pub fn journals(&self) -> Journals {
        match &self.inner.journal {
            Journaling::In(directory) => Journals::new(directory),
            _ => Journals::new(self.inner.dirs.state.join("journals")),
        }
    }

    /// Where it keeps what should outlive a run.
    pub(crate) fn state(&self) -> &Path {
        &self.inner.dirs.state
    }

    /// The environment that its sessions run in.
    pub fn environment(&self) -> &Environment {
        &self.inner.environment
    }

    /// Whether sessions have packages or only the standard library.
    pub fn has_packages(&self) -> bool {
        self.inner.choice == PythonChoice::BestReady && !self.inner.environment.packages.is_empty()
    }
}

impl HostBuilder {
    /// Uses this interpreter and no other.
    pub fn interpreter(mut self, path: impl Into<PathBuf>) -> HostBuilder {
        self.interpreter = Some(path.into());
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

    /// Finds the Python. Sessions and their processes come later, with the first [`Host::open`].
    pub fn build(self) -> Result<Host, Error> {
        let dirs = match self.dirs {
            Some(dirs) => dirs,
            None => Dirs::from_process()?,
        };
        let environment = match self.environment {
            Some(environment) => environment,
            None => choose(&find(self.interpreter)?, self.choice)?,
        };
        let python = Python {
            executable: environment.python.clone(),
            prefixes: environment.directories(),
            packages: environment.site_packages.is_some(),
            font_cache: environment.matplotlib_config.clone(),
        };
        let inner = Inner {
            environment,
            choice: self.choice,
            python,
            preload: self.preload,
            pool: self.pool,
            journal: self.journal,
            dirs,
            runtimes: Mutex::default(),
            containers: OnceLock::new(),
        };
        Ok(Host {
            inner: Arc::new(inner),
        })
    }
}

fn find(wanted: Option<PathBuf>) -> Result<Interpreter, Error> {
    let search = Search::from_process()?;
    Ok(match wanted {
        Some(path) => search.explicit(path).find()?,
        None => search.find()?,
    })
}

fn choose(interpreter: &Interpreter, choice: PythonChoice) -> Result<Environment, Error> {
    Ok(match choice {
        PythonChoice::StandardLibrary => Environment::standard_library(interpreter),
        PythonChoice::BestReady => match default_environment_status(interpreter)? {
            Status::Ready(environment) => *environment,
            _ => Environment::standard_library(interpreter),
        },
    })
}
