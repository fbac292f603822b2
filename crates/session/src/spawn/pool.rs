//! Sessions that are made ahead of demand: forked, hardened and armed, waiting to be taken.

use crate::runtime::RuntimeState;
use crate::spawn::prepared::PreparedSession;
use cellblock_protocol::{Limits, SessionOptions, Strategy};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// A pool from which no session was taken for this long drops its sessions, all but one.
const MAX_IDLE_TIME: Duration = Duration::from_secs(300);
/// A session that was drawn is used at once. Making the next one must not take the processor from it.
const REFILL_DELAY: Duration = Duration::from_millis(10);
/// A session is made in milliseconds. A pool that closes waits no longer than this for the one that is in the making.
const MAX_CLOSE_TIME: Duration = Duration::from_secs(5);
/// No session is made ahead of demand when less than this share of the machine's memory is free.
const MIN_FREE_SHARE: f64 = 0.1;

/// The sessions that wait.
#[derive(Default)]
pub(crate) struct Pool {
    pooled: Mutex<PooledSessions>,
}

#[derive(Default)]
struct PooledSessions {
    sessions: VecDeque<PreparedSession>,
    /// How many there shall be.
    size: usize,
    /// Whether a task is making more sessions.
    filling: bool,
    /// The newest task that makes sessions.
    filler: Option<JoinHandle<()>>,
    drawn: Option<Instant>,
    /// How many were handed out.
    served: u64,
}

/// The pool, for a person.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolState {
    /// Sessions that wait.
    pub ready: usize,
    /// How many there shall be.
    pub size: usize,
    /// How many were handed out.
    pub served: u64,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.state().fmt(formatter)
    }
}

impl Pool {
    pub(crate) fn new(size: usize) -> Pool {
        Pool {
            pooled: Mutex::new(PooledSessions {
                size,
                ..PooledSessions::default()
            }),
        }
    }

    pub(crate) fn state(&self) -> PoolState {
        let pooled = self.lock();
        PoolState {
            ready: pooled.sessions.len(),
            size: pooled.size,
            served: pooled.served,
        }
    }

    /// Whether no more sessions shall be made. Then the task that makes them ends.
    fn is_full(&self) -> bool {
        let mut pooled = self.lock();
        pooled.filling = pooled.sessions.len() < pooled.size;
        !pooled.filling
    }

    fn lock(&self) -> MutexGuard<'_, PooledSessions> {
        self.pooled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RuntimeState {
    /// A session from the pool, if one waits that can be what is asked for.
    pub(crate) fn take_pooled(
        self: &Arc<Self>,
        options: &SessionOptions,
    ) -> Option<PreparedSession> {
        if !fits(options) {
            return None;
        }
        let prepared = {
            let mut pooled = self.pool.lock();
            pooled.drawn = Some(Instant::now());
            let sessions = std::iter::from_fn(|| pooled.sessions.pop_front());
            let prepared = sessions.into_iter().find(PreparedSession::is_alive);
            pooled.served += u64::from(prepared.is_some());
            prepared
        };
        self.fill_pool();
        prepared
    }

    /// Makes sessions in the background until the pool is full.
    pub(crate) fn fill_pool(self: &Arc<Self>) {
        {
            let mut pooled = self.pool.lock();
            if pooled.filling || pooled.sessions.len() >= pooled.size {
                return;
            }
            pooled.filling = true;
        }
        let runtime = Arc::downgrade(self);
        let filler = tokio::spawn(async {
            tokio::time::sleep(REFILL_DELAY).await;
            fill(&runtime).await;
            tokio::spawn(shrink_unused(runtime));
        });
        self.pool.lock().filler = Some(filler);
    }

    /// Ends the sessions that wait, and makes no more. Returns when nothing is left of them.
    pub(crate) async fn close_pool(&self) {
        let filler = {
            let mut pooled = self.pool.lock();
            pooled.size = 0;
            pooled.filler.take()
        };
        if let Some(filler) = filler {
            // A session that is in the making would leave its workspace behind.
            let _ = timeout(MAX_CLOSE_TIME, filler).await;
        }
        let sessions = std::mem::take(&mut self.pool.lock().sessions);
        for session in sessions {
            session.close().await;
        }
    }
}

/// Holds the runtime only while it makes a session, so that an unused runtime can be dropped.
async fn fill(runtime: &Weak<RuntimeState>) {
    loop {
        let Some(inner) = runtime.upgrade() else {
            return;
        };
        if inner.pool.is_full() {
            return;
        }
        let made = if memory_is_short() {
            None
        } else {
            inner.make_ahead().await
        };
        let mut pooled = inner.pool.lock();
        let failed = made.is_none();
        pooled.sessions.extend(made);
        if failed || pooled.sessions.len() >= pooled.size {
            pooled.filling = false;
            return;
        }
    }
}

/// Drops the sessions that wait, all but one, when none was taken for a long time.
async fn shrink_unused(runtime: Weak<RuntimeState>) {
    tokio::time::sleep(MAX_IDLE_TIME).await;
    if let Some(inner) = runtime.upgrade() {
        let mut pooled = inner.pool.lock();
        if pooled
            .drawn
            .is_none_or(|drawn| drawn.elapsed() >= MAX_IDLE_TIME)
        {
            pooled.sessions.truncate(1);
        }
    }
}

impl RuntimeState {
    async fn make_ahead(&self) -> Option<PreparedSession> {
        let id = self.fresh_id();
        let mut prepared = self.make(&id, &SessionOptions::default()).await.ok()?;
        prepared.arm().await;
        Some(prepared)
    }
}

/// Whether a session made with the defaults can become this one: what is asked for must be the host's to give.
fn fits(options: &SessionOptions) -> bool {
    let (wanted, standard) = (&options.limits, Limits::DEFAULT);
    options.workspace.is_none()
        && !options.has_network()
        // Those that wait are armed already.
        && options.strategy != Strategy::Direct
        && wanted.memory == standard.memory
        && wanted.processes == standard.processes
        && wanted.cpus == standard.cpus
        && wanted.open_files == standard.open_files
        && wanted.disk == standard.disk
        && wanted.checkpoints == standard.checkpoints
        && wanted.checkpoint_memory == standard.checkpoint_memory
}

fn memory_is_short() -> bool {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let field = |name: &str| -> Option<f64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':')
            .split_whitespace()
            .next()?
            .parse()
            .ok()
    };
    match (field("MemTotal"), field("MemAvailable")) {
        (Some(total), Some(available)) => available < total * MIN_FREE_SHARE,
        _ => false,
    }
}
