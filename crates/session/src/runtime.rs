//! A runtime: a zygote with imported packages behind walls, from which sessions are forked.

use crate::files::borrowed::{BorrowedDirectories, BorrowedDirectory};
use crate::files::watch::Watcher;
use crate::files::workspace::Workspace;
use crate::spawn::guest;
use crate::spawn::pool::{Pool, PoolState};
use crate::spawn::zygote::{Zygote, ZygotePlan};
use crate::state_directory::{
    OPEN_DIRECTORY, claim, next_number, remove_orphans, session_directory,
};
use crate::{Error, Refusal, Session};
use cellblock_network::Proxies;
use cellblock_protocol::{Isolation, Rung, SessionOptions, Shell, Wall, WorkspacePlace};
use cellblock_sandbox::{Cgroups, Probe, SessionIds, View, native_walls, reachable_rung};
use std::os::unix::fs::lchown;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::Mutex;

/// Session ids from 1 on; past the last they begin again, long after the first was used.
const MAX_USERS: u32 = 65_000;

/// A runtime. A handle: clones are the same, and its processes end with the last handle and the last session.
#[derive(Clone, Debug)]
pub struct Runtime {
    inner: Arc<RuntimeState>,
}

/// How to start a runtime.
#[derive(Clone, Debug)]
pub struct RuntimeBuilder {
    python: Python,
    isolation: Isolation,
    preload: Preload,
    shell: Shell,
    place: WorkspacePlace,
    pool: usize,
    hash_seed: Option<u32>,
    proxies: Arc<Proxies>,
    state: PathBuf,
    cache: PathBuf,
}

#[derive(Debug)]
pub(crate) struct RuntimeState {
    pub(crate) isolation: Isolation,
    pub(crate) rung: Rung,
    pub(crate) described: String,
    pub(crate) walls: u64,
    pub(crate) view: View,
    /// Where sessions with a view have their workspace.
    pub(crate) place: WorkspacePlace,
    pub(crate) state: PathBuf,
    pub(crate) cgroups: Option<Cgroups>,
    pub(crate) watcher: Arc<Watcher>,
    pub(crate) pool: Pool,
    pub(crate) proxies: Arc<Proxies>,
    borrowed_directories: Arc<BorrowedDirectories>,
    plan: ZygotePlan,
    zygote: Mutex<Option<Arc<Zygote>>>,
    users: AtomicU32,
}

impl Runtime {
    /// Starts with this Python; `state` keeps workspaces, `cache` what can be made again.
    pub fn builder(
        python: Python,
        state: impl Into<PathBuf>,
        cache: impl Into<PathBuf>,
    ) -> RuntimeBuilder {
        RuntimeBuilder {
            python,
            isolation: Isolation::default(),
            preload: Preload::default(),
            shell: Shell::default(),
            place: WorkspacePlace::default(),
            pool: 0,
            hash_seed: None,
            proxies: Arc::default(),
            state: state.into(),
            cache: cache.into(),
        }
    }

    /// Makes a session.
    pub async fn open(&self, options: SessionOptions) -> Result<Session, Error> {
        self.inner.open(options).await
    }

    /// How strongly its sessions are walled in.
    pub fn rung(&self) -> Rung {
        self.inner.rung
    }

    /// The sessions that wait to be taken.
    pub fn pool(&self) -> PoolState {
        self.inner.pool.state()
    }

    /// Ends the sessions that wait to be taken, and makes no more ahead of demand. Returns when nothing is left of them: a process that ends
    /// without it can leave their empty workspaces behind.
    pub async fn close_pool(&self) {
        self.inner.close_pool().await;
    }

    /// The Python that sessions are forked from. Starts it, if no session did before.
    pub async fn python(&self) -> Result<LoadedPython, Error> {
        let zygote = self.inner.zygote().await?;
        Ok(LoadedPython {
            version: zygote.ready.python.clone(),
            preloaded: zygote.ready.preloaded.clone(),
        })
    }
}

/// The Python of a runtime as it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedPython {
    /// The version, such as `3.12.4`.
    pub version: String,
    /// The modules of the preload that were imported.
    pub preloaded: Vec<String>,
}

impl RuntimeBuilder {
    /// The walls that are wanted.
    pub fn isolation(mut self, isolation: Isolation) -> RuntimeBuilder {
        self.isolation = isolation;
        self
    }

    /// Chooses the modules that are imported before the first session.
    pub fn preload(mut self, preload: Preload) -> RuntimeBuilder {
        self.preload = preload;
        self
    }

    /// Chooses the language of cells. Plain Python unless told.
    pub fn shell(mut self, shell: Shell) -> RuntimeBuilder {
        self.shell = shell;
        self
    }

    /// Chooses where sessions have their workspace. It is a property of the runtime: the zygote's root has a directory there.
    ///
    /// Only the rung `full` has a root of its own. On the others the start fails, unless the place is the default.
    pub fn workspace_at(mut self, place: WorkspacePlace) -> RuntimeBuilder {
        self.place = place;
        self
    }

    /// How many sessions are kept ready ahead of demand. None unless told.
    pub fn pool(mut self, size: usize) -> RuntimeBuilder {
        self.pool = size;
        self
    }

    /// Fixes the seed of Python's hashes, so that sets of texts have the same order in every session of every machine with this seed.
    pub fn hash_seed(mut self, seed: Option<u32>) -> RuntimeBuilder {
        self.hash_seed = seed;
        self
    }

    /// Proxies that stand between this machine and what its sessions may reach. Forks go without.
    pub fn proxies(mut self, proxies: Proxies) -> RuntimeBuilder {
        self.proxies = Arc::new(proxies);
        self
    }

    /// Starts Python behind the outer walls.
    ///
    /// The best rung is tried at once. Only when that fails is the machine probed, to say what is missing or to take the next
    /// rung: a probe takes as long as everything else.
    pub async fn start(self) -> Result<Runtime, Error> {
        let first_rung = self.isolation.rung.unwrap_or(Rung::Full);
        let error = match self.clone().start_on(first_rung).await {
            Err(error @ Error::Sandbox(_)) if first_rung != Rung::None => error,
            outcome => return outcome,
        };
        let probe = blocking("probing the machine", || Probe::run().map_err(Error::from)).await?;
        match reachable_rung(&self.isolation, &probe)? {
            rung if rung == first_rung => Err(error),
            rung => self.start_on(rung).await,
        }
    }

    async fn start_on(self, rung: Rung) -> Result<Runtime, Error> {
        let inner = Arc::new(blocking("preparing the runtime", move || self.prepare(rung)).await?);
        inner.zygote().await?;
        inner.fill_pool();
        Ok(Runtime { inner })
    }

    fn prepare(self, rung: Rung) -> Result<RuntimeState, Error> {
        let RuntimeBuilder {
            python,
            isolation,
            preload,
            shell,
            place,
            pool,
            hash_seed,
            proxies,
            state,
            cache,
        } = self;
        let walls = native_walls(rung, &isolation);
        // Sessions of root's run as another user, who cannot enter root's directories; with a view, mounts lead there.
        let has_view = rung == Rung::Full && !isolation.without.contains(&Wall::Files);
        if !has_view && !place.is_default() {
            return Err(Error::Refused(Refusal::WorkspacePlace {
                place,
                isolation,
                rung,
            }));
        }
        let needs_open_directory = match SessionIds::of(walls) {
            SessionIds::Each { .. } => !has_view,
            SessionIds::Shared { .. } => true,
            SessionIds::Host => false,
        };
        let (state, cache) = if needs_open_directory {
            // Only root can write there: in a directory of everybody's, others could put code or links in our way.
            let open = Path::new(OPEN_DIRECTORY);
            (open.join("state"), open.join("cache"))
        } else {
            (state, cache)
        };
        claim(&state, &cache)?;
        remove_orphans(&state.join("sessions"));
        let guest = guest::lay_out(&cache, &python)?;
        let cgroups = (rung != Rung::None).then(Cgroups::detect).flatten();
        let mut view = View::new(&python.prefixes, &guest, &place)?;
        if isolation.without.contains(&Wall::Network) {
            view = view.with_names_of_host();
        }
        if cgroups.is_none() {
            view = view.with_zeros_that_cannot_be_mapped();
        }
        let plan = ZygotePlan {
            python,
            walls,
            view: view.clone(),
            place: place.clone(),
            guest,
            preload,
            shell,
            hash_seed,
        };
        let described = Isolation {
            rung: Some(rung),
            without: isolation.without.clone(),
        }
        .to_string();
        Ok(RuntimeState {
            isolation,
            rung,
            described,
            walls,
            view,
            place,
            state,
            cgroups,
            watcher: Watcher::new(),
            pool: Pool::new(pool),
            proxies,
            borrowed_directories: Arc::default(),
            plan,
            zygote: Mutex::new(None),
            users: AtomicU32::new(0),
        })
    }
}

fn ownership_error(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    |source| Error::Storage {
        what: "giving to the session",
        path,
        source,
    }
}

async fn blocking<T: Send + 'static>(
    what: &'static str,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| {
        Err(Error::System {
            what,
            source: std::io::Error::other(error),
        })
    })
}

impl RuntimeState {
    /// The zygote, started anew if it died.
    pub(crate) async fn zygote(&self) -> Result<Arc<Zygote>, Error> {
        let mut slot = self.zygote.lock().await;
        if let Some(zygote) = slot.as_ref().filter(|zygote| zygote.is_alive()) {
            return Ok(Arc::clone(zygote));
        }
        let zygote = Arc::new(Zygote::start(&self.plan).await?);
        *slot = Some(Arc::clone(&zygote));
        Ok(zygote)
    }

    /// The Python that its sessions run on.
    pub(crate) fn python(&self) -> &Python {
        &self.plan.python
    }

    /// The user id of the next session, counted from the zygote's; 0 where sessions have none of their own.
    pub(crate) fn next_user(&self) -> u32 {
        match SessionIds::of(self.walls) {
            SessionIds::Each { .. } => 1 + self.users.fetch_add(1, Ordering::Relaxed) % MAX_USERS,
            SessionIds::Shared { .. } | SessionIds::Host => 0,
        }
    }

    /// A name that no session of this process has unless it was told to.
    pub(crate) fn fresh_id(&self) -> String {
        static SESSIONS: AtomicU32 = AtomicU32::new(0);
        format!("s{}", 1 + SESSIONS.fetch_add(1, Ordering::Relaxed))
    }

    /// A directory for what a session spills; it goes with the session.
    pub(crate) fn session_directory(&self, id: &str) -> Result<PathBuf, Error> {
        session_directory(&self.state, id, next_number())
    }

    /// Whether sessions see a root directory of their own.
    pub(crate) fn has_view(&self) -> bool {
        self.rung == Rung::Full && !self.isolation.without.contains(&Wall::Files)
    }

    /// Where sessions share a user id there is no mapping of owners: what a session of root's shall write must be its user's.
    pub(crate) fn give_to_session(&self, path: &Path) -> Result<(), Error> {
        let Some(user) = self.shared_user() else {
            return Ok(());
        };
        lchown(path, Some(user), Some(user)).map_err(ownership_error(path))
    }

    /// Gives a workspace to the one user of all sessions, where there is one.
    pub(crate) fn lend_to_shared_user(
        &self,
        workspace: &Workspace,
        session: &Path,
    ) -> Result<Option<BorrowedDirectory>, Error> {
        match self.shared_user() {
            Some(user) => self.lend_to(user, workspace, session),
            None => Ok(None),
        }
    }

    /// Gives a workspace to a user; a directory of the caller's only for as long as the session lives.
    pub(crate) fn lend_to(
        &self,
        user: u32,
        workspace: &Workspace,
        session: &Path,
    ) -> Result<Option<BorrowedDirectory>, Error> {
        let path = workspace.path();
        let lent = if workspace.is_user_directory() {
            let borrowed =
                self.borrowed_directories
                    .lend(path, workspace.directory(), user, session);
            borrowed.map(Some)
        } else {
            workspace.directory().give_to(user, user).map(|()| None)
        };
        lent.map_err(ownership_error(path))
    }

    /// The id on the host of a session's user, where each session has an id of its own.
    pub(crate) fn id_on_host(&self, user: u32) -> Option<u32> {
        match SessionIds::of(self.walls) {
            SessionIds::Each { first } => Some(first + user),
            SessionIds::Shared { .. } | SessionIds::Host => None,
        }
    }

    /// The one user of all sessions, where it is not this process's own user and sessions have none of their own.
    fn shared_user(&self) -> Option<u32> {
        match SessionIds::of(self.walls) {
            SessionIds::Shared { id } => Some(id),
            SessionIds::Each { .. } | SessionIds::Host => None,
        }
    }

    /// The paths that Landlock lets a session read where there is no view.
    pub(crate) fn readable_paths(&self) -> Vec<PathBuf> {
        const SYSTEM: [&str; 11] = [
            "/usr",
            "/bin",
            "/sbin",
            "/lib",
            "/lib32",
            "/lib64",
            "/etc/ld.so.cache",
            "/etc/localtime",
            "/etc/fonts",
            "/etc/ssl/certs",
            "/etc/mime.types",
        ];
        let system = SYSTEM.iter().map(PathBuf::from);
        system
            .chain(self.plan.python.prefixes.iter().cloned())
            .chain([self.plan.guest.clone()])
            .filter(|path: &PathBuf| Path::exists(path))
            .collect()
    }
}

/// An interpreter, with the directories it needs to see.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Python {
    /// The program: an interpreter, or the `bin/python` of a virtual environment.
    pub executable: PathBuf,
    /// Shown read-only in every session: the interpreter's own directory, the environment's, and where links from there lead.
    pub prefixes: Vec<PathBuf>,
    /// Whether installed packages are found at all; without, it is the standard library alone.
    pub packages: bool,
    /// A directory with matplotlib's list of fonts, which takes seconds to make.
    pub font_cache: Option<PathBuf>,
}

/// The modules that the zygote imports before the first session, so that they are free in every one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Preload {
    /// Nothing: the quickest start, for a single snippet.
    None,
    /// The standard library's common modules.
    #[default]
    Standard,
    /// The modules of `Standard`, and numpy, pandas and matplotlib where they are installed.
    Full,
}

impl Preload {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Preload::None => "none",
            Preload::Standard => "standard",
            Preload::Full => "full",
        }
    }
}
