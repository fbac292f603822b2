//! The warm Pythons of a host: one for each environment and each kind of walls, kept by use.

use crate::Error;
use cellblock_env::{Dirs, Environment, Environments, InUseLock};
use cellblock_protocol::{Isolation, Shell, WorkspacePlace};
use cellblock_session::{Preload, Python, Runtime};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// A runtime that started no session for this time is dropped, unless it is the host's own. Its sessions live on.
pub(crate) const KEEP_WARM: Duration = Duration::from_secs(10 * 60);

/// The shortest time between two checks for idle runtimes.
const MIN_CHECK_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Runtimes {
    environments: Environments,
    dirs: Dirs,
    preload: Preload,
    pool: usize,
    hash_seed: Option<u32>,
    keep_warm: Duration,
    /// The Python of the host's own environment, which stays.
    own: PathBuf,
    /// Whether a task checks for idle runtimes.
    has_idle_check: AtomicBool,
    warm: Mutex<HashMap<Key, WarmRuntime>>,
    /// For as long as the host lives: sessions may outlive their runtime's place here.
    in_use: Mutex<HashMap<PathBuf, InUseLock>>,
}

/// The most runtimes with another place of the workspace that are kept warm. Each is an interpreter of its own.
const MAX_WARM_PLACES: usize = 8;

/// What sessions of one runtime have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    python: PathBuf,
    isolation: String,
    place: WorkspacePlace,
    shell: Shell,
}

#[derive(Debug)]
struct WarmRuntime {
    runtime: Runtime,
    used: Instant,
}

impl Runtimes {
    pub(crate) fn new(
        environments: Environments,
        dirs: Dirs,
        preload: Preload,
        pool: usize,
        hash_seed: Option<u32>,
        keep_warm: Duration,
        own: PathBuf,
    ) -> Runtimes {
        Runtimes {
            environments,
            dirs,
            preload,
            pool,
            hash_seed,
            keep_warm,
            own,
            has_idle_check: AtomicBool::new(false),
            warm: Mutex::default(),
            in_use: Mutex::default(),
        }
    }

    /// The runtime for this environment and these walls, started if need be.
    pub(crate) async fn get(
        self: &Arc<Self>,
        environment: &Environment,
        isolation: &Isolation,
        place: &WorkspacePlace,
        shell: Shell,
    ) -> Result<Runtime, Error> {
        let mut warm = self.warm.lock().await;
        let key = Key {
            python: environment.python.clone(),
            isolation: format!("{isolation:?}"),
            place: place.clone(),
            shell,
        };
        if let Some(known) = warm.get_mut(&key) {
            known.used = Instant::now();
            return Ok(known.runtime.clone());
        }
        if let Some(in_use) = self.environments.mark_in_use(environment) {
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
        .shell(shell)
        .workspace_at(place.clone())
        .pool(self.pool)
        .hash_seed(self.hash_seed)
        .start()
        .await?;
        if !self.is_own(&key) {
            self.drop_idle_runtimes_later();
        }
        if !place.is_default() {
            make_room_for_place(&mut warm);
        }
        let entry = WarmRuntime {
            runtime: runtime.clone(),
            used: Instant::now(),
        };
        warm.insert(key, entry);
        Ok(runtime)
    }

    pub(crate) async fn close_pools(&self) {
        let runtimes: Vec<Runtime> = {
            let warm = self.warm.lock().await;
            warm.values().map(|known| known.runtime.clone()).collect()
        };
        for runtime in runtimes {
            runtime.close_pool().await;
        }
    }

    /// Whether a runtime is one of the host's own, which stay.
    fn is_own(&self, key: &Key) -> bool {
        key.python == self.own && key.place.is_default()
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

    /// Starts a task that drops idle runtimes, until only the host's own are left or the host is gone.
    fn drop_idle_runtimes_later(self: &Arc<Self>) {
        if self.has_idle_check.swap(true, Ordering::Relaxed) {
            return;
        }
        let (here, period) = (Arc::downgrade(self), self.keep_warm / 4);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(period.max(MIN_CHECK_INTERVAL)).await;
                let Some(runtimes) = here.upgrade() else {
                    return;
                };
                let mut warm = runtimes.warm.lock().await;
                warm.retain(|key, known| {
                    runtimes.is_own(key) || known.used.elapsed() < runtimes.keep_warm
                });
                if warm.keys().all(|key| runtimes.is_own(key)) {
                    runtimes.has_idle_check.store(false, Ordering::Relaxed);
                    return;
                }
            }
        });
    }

    /// The Pythons that are warm now.
    pub(crate) async fn warm(&self) -> Vec<PathBuf> {
        let warm = self.warm.lock().await;
        let mut pythons: Vec<PathBuf> = warm.keys().map(|key| key.python.clone()).collect();
        pythons.sort();
        pythons.dedup();
        pythons
    }
}

/// Drops the runtime with a place of its own that was used longest ago, if there is no room for another. Its sessions live on.
fn make_room_for_place(warm: &mut HashMap<Key, WarmRuntime>) {
    let others = warm.iter().filter(|(key, _)| !key.place.is_default());
    let oldest = others.clone().min_by_key(|(_, known)| known.used);
    if others.count() >= MAX_WARM_PLACES
        && let Some(key) = oldest.map(|(key, _)| key.clone())
    {
        warm.remove(&key);
    }
}
