//! The warm Pythons of a host: one for each environment and each kind of walls, kept by use.

use crate::Error;
use cellblock_env::{Dirs, Environment, Environments, InUse};
use cellblock_protocol::Isolation;
use cellblock_session::{Preload, Python, Runtime};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// A Python that nobody asked for a session for so long is let go, unless it is the host's own. Its sessions live on.
const IDLE: Duration = Duration::from_secs(10 * 60);

#[derive(Debug)]
pub(crate) struct Runtimes {
    environments: Environments,
    dirs: Dirs,
    preload: Preload,
    pool: usize,
    /// The Python of the host's own environment, which stays.
    own: PathBuf,
    warm: Mutex<HashMap<Key, Warm>>,
    /// For as long as the host lives: sessions may outlive their runtime's place here.
    in_use: Mutex<HashMap<PathBuf, InUse>>,
}

type Key = (PathBuf, String);

#[derive(Debug)]
struct Warm {
    runtime: Runtime,
    used: Instant,
}

impl Runtimes {
    pub(crate) fn new(
        environments: Environments,
        dirs: Dirs,
        preload: Preload,
        pool: usize,
        own: PathBuf,
    ) -> Runtimes {
        Runtimes {
            environments,
            dirs,
            preload,
            pool,
            own,
            warm: Mutex::default(),
            in_use: Mutex::default(),
        }
    }

    /// The runtime for this environment and these walls, started if need be.
    pub(crate) async fn get(
        self: &Arc<Self>,
        environment: &Environment,
        isolation: &Isolation,
    ) -> Result<Runtime, Error> {
        let mut warm = self.warm.lock().await;
        let key = (environment.python.clone(), format!("{isolation:?}"));
        if let Some(known) = warm.get_mut(&key) {
            known.used = Instant::now();
            return Ok(known.runtime.clone());
        }
        if let Some(in_use) = self.environments.hold(environment) {
            let mut all = self.in_use.lock().await;
            all.insert(environment.prefix.clone(), in_use);
        }
        let runtime = Runtime::builder(
            self.python(environment)?,
            &self.dirs.state,
            &self.dirs.cache,
        )
        .isolation(isolation.clone())
        .preload(self.preload)
        .pool(self.pool)
        .start()
        .await?;
        if !warm.is_empty() {
            self.let_go_of_idle_ones_later();
        }
        let entry = Warm {
            runtime: runtime.clone(),
            used: Instant::now(),
        };
        warm.insert(key, entry);
        Ok(runtime)
    }

    fn python(&self, environment: &Environment) -> Result<Python, Error> {
        let mut prefixes = environment.directories();
        // Layers appear there later. A session sees only what it saw at its birth, so it is shown now.
        prefixes.push(self.environments.layers_directory()?.to_owned());
        Ok(Python {
            executable: environment.python.clone(),
            prefixes,
            packages: environment.site_packages.is_some(),
            font_cache: environment.matplotlib_config.clone(),
        })
    }

    /// Until one is left, or the host is gone.
    fn let_go_of_idle_ones_later(self: &Arc<Self>) {
        let here = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(IDLE / 4).await;
                let Some(runtimes) = here.upgrade() else {
                    return;
                };
                let mut warm = runtimes.warm.lock().await;
                warm.retain(|(python, _), known| {
                    *python == runtimes.own || known.used.elapsed() < IDLE
                });
                if warm.len() < 2 {
                    return;
                }
            }
        });
    }
}
