//! What one user may use: live sessions, their memory, cells a minute, time and model cost a day.

use crate::error::ApiError;
use crate::state::AppState;
use crate::store::{Store, UsageRow, User};
use cellblock_host::Session;
use cellblock_host::journal::Restore;
use cellblock_protocol::{Limits, SessionOptions};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The limits of one user. A user can have limits of their own; these are the server's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Quotas {
    /// Sessions that live at the same time.
    pub sessions: usize,
    /// The memory limits of these sessions together, in bytes.
    pub memory: u64,
    /// The new data on disk that one session may write, in bytes.
    pub disk: u64,
    /// Cells that may start in a minute.
    pub cells_per_minute: u32,
    /// The time of all cells of a day, in seconds.
    pub seconds_per_day: u64,
    /// What models may cost in a day, in the currency of their prices. Without a value there is no limit.
    pub cost_per_day: Option<f64>,
    /// Runs that go on at the same time.
    pub runs: usize,
}

impl Default for Quotas {
    fn default() -> Quotas {
        Quotas {
            sessions: 16,
            memory: 16 << 30,
            disk: 4 << 30,
            cells_per_minute: 1_200,
            seconds_per_day: 24 * 3600,
            cost_per_day: None,
            runs: 8,
        }
    }
}

impl Quotas {
    /// The limits of a user: the server's, unless the user has others.
    pub(crate) fn of_user(&self, user: &User) -> Quotas {
        let own = user.quotas.as_deref();
        own.and_then(|json| serde_json::from_str(json).ok())
            .unwrap_or_else(|| self.clone())
    }

    /// The limits of a session of this user: those that are wanted, lowered to what the user may have.
    pub(crate) fn bounded(&self, wanted: Limits) -> Limits {
        Limits {
            disk: wanted.disk.min(self.disk),
            ..wanted
        }
    }

    /// Refuses one more session.
    pub(crate) fn check_session(
        &self,
        live: usize,
        taken: u64,
        wanted: u64,
    ) -> Result<(), ApiError> {
        if live >= self.sessions {
            return Err(ApiError::too_many(
                "quota_sessions",
                format!("{live} sessions live, and {} may", self.sessions),
                60,
            )
            .hint("close a session first"));
        }
        if taken.saturating_add(wanted) > self.memory {
            return Err(ApiError::too_many(
                "quota_memory",
                format!(
                    "the live sessions may take {} MB of memory, this one would take {} MB more, and {} MB are allowed",
                    taken >> 20,
                    wanted >> 20,
                    self.memory >> 20
                ),
                60,
            )
            .hint("close a session first, or open this one with a lower limits.memory"));
        }
        Ok(())
    }

    /// Refuses a cell after too much time today.
    pub(crate) fn check_time(&self, used: &UsageRow, store: &Store) -> Result<(), ApiError> {
        let seconds = u64::try_from(used.wall_ms / 1000).unwrap_or(0);
        if seconds < self.seconds_per_day {
            return Ok(());
        }
        Err(ApiError::too_many(
            "quota_time",
            format!(
                "cells have run {seconds} s today, and {} s are allowed",
                self.seconds_per_day
            ),
            store.seconds_left_today(),
        ))
    }

    /// Refuses a question to a model after too much cost today, or while too many runs go on.
    pub(crate) fn check_run(
        &self,
        used: &UsageRow,
        running: usize,
        store: &Store,
    ) -> Result<(), ApiError> {
        if running >= self.runs {
            return Err(ApiError::too_many(
                "quota_runs",
                format!("{running} runs go on, and {} may", self.runs),
                10,
            ));
        }
        match self.cost_per_day {
            Some(limit) if used.cost >= limit => Err(ApiError::too_many(
                "quota_cost",
                format!(
                    "models have cost {:.4} today, and {limit} is allowed",
                    used.cost
                ),
                store.seconds_left_today(),
            )),
            _ => Ok(()),
        }
    }
}

impl AppState {
    /// Opens a session on this host, with the limits of its user. Sessions of all kinds are opened here; the place among the sessions of
    /// the user is the caller's to take.
    pub(crate) async fn open_on_host(
        &self,
        user: &User,
        mut options: SessionOptions,
    ) -> Result<Session, cellblock_host::Error> {
        options.limits = self.quotas_of(user).bounded(options.limits);
        self.host().open(options).await
    }

    /// How a session of a user is made again from its journal: with the limits that the user has now.
    pub(crate) fn restore_for(&self, user: &User) -> Restore {
        Restore::default().max_disk(self.quotas_of(user).disk)
    }
}

/// Counts the cells of users in the last minute: a bucket that fills up evenly.
#[derive(Debug, Default)]
pub(crate) struct CellRates(Mutex<HashMap<String, Bucket>>);

#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl CellRates {
    /// Takes one cell out of the user's bucket, or says when there is one again.
    pub(crate) fn take(&self, user: &str, per_minute: u32) -> Result<(), ApiError> {
        let size = f64::from(per_minute);
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let bucket = buckets.entry(user.to_owned()).or_insert(Bucket {
            left: size,
            at: now,
        });
        let refilled = now.duration_since(bucket.at).as_secs_f64() * size / 60.0;
        *bucket = Bucket {
            left: (bucket.left + refilled).min(size),
            at: now,
        };
        if bucket.left >= 1.0 {
            bucket.left -= 1.0;
            return Ok(());
        }
        let wait = ((1.0 - bucket.left) * 60.0 / size.max(f64::MIN_POSITIVE)).min(3600.0);
        Err(ApiError::too_many(
            "quota_cells",
            format!("{per_minute} cells a minute are allowed"),
            wait.ceil() as u64,
        ))
    }
}
