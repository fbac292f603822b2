//! What users have used on a day, for quotas.

use super::{Store, StoreError};
use rusqlite::{Connection, OptionalExtension as _, params};
use serde::Serialize;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a user has used on one day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct UsageRow {
    /// The cells that ended.
    pub(crate) cells: i64,
    /// The time of these cells in milliseconds.
    pub(crate) wall_ms: i64,
    /// The tokens of models.
    pub(crate) tokens: i64,
    /// What these tokens cost, where prices are known.
    pub(crate) cost: f64,
}

impl std::ops::AddAssign for UsageRow {
    fn add_assign(&mut self, other: UsageRow) {
        self.cells += other.cells;
        self.wall_ms += other.wall_ms;
        self.tokens += other.tokens;
        self.cost += other.cost;
    }
}

/// The usage of a day of each user who was asked about, as the file has it. Every cell asks, and must not wait for the thread of the store.
///
/// Only that thread changes it, in the job that reads or changes the file.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownUsage {
    users: Arc<Mutex<HashMap<String, (i64, UsageRow)>>>,
}

impl KnownUsage {
    fn of(&self, user: &str, day: i64) -> Option<UsageRow> {
        let known = self.lock().get(user).copied();
        known.filter(|(of, _)| *of == day).map(|(_, used)| used)
    }

    fn set(&self, user: String, day: i64, used: UsageRow) {
        self.lock().insert(user, (day, used));
    }

    fn add(&self, user: &str, day: i64, added: UsageRow) {
        if let Some((of, used)) = self.lock().get_mut(user)
            && *of == day
        {
            *used += added;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (i64, UsageRow)>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const SECONDS_OF_DAY: i64 = 24 * 3600;

impl Store {
    /// The seconds until the day ends.
    pub(crate) fn seconds_left_today(&self) -> u64 {
        u64::try_from(SECONDS_OF_DAY - self.now().rem_euclid(SECONDS_OF_DAY)).unwrap_or(1)
    }

    /// The number of the day, from 1970 on.
    fn today(&self) -> i64 {
        self.now().div_euclid(SECONDS_OF_DAY)
    }

    /// Adds to what a user has used today.
    pub(crate) async fn add_usage(&self, user: &str, added: UsageRow) -> Result<(), StoreError> {
        self.call_unsynced(self.adding_usage(user, added)).await
    }

    /// Like [`add_usage`](Store::add_usage), without a wait: every cell does this, and its answer must not wait for a thread.
    pub(crate) fn post_usage(&self, user: &str, added: UsageRow) {
        self.post_unsynced(self.adding_usage(user, added));
    }

    fn adding_usage(
        &self,
        user: &str,
        added: UsageRow,
    ) -> impl FnOnce(&mut Connection) -> rusqlite::Result<()> + Send + use<> {
        let (user, today, known) = (user.to_owned(), self.today(), self.known_usage.clone());
        move |db| {
            db.prepare_cached(
                "INSERT INTO usage (user, day, cells, wall_ms, tokens, cost) VALUES (?, ?, ?, ?, ?, ?) \
                 ON CONFLICT (user, day) DO UPDATE SET cells = cells + excluded.cells, \
                 wall_ms = wall_ms + excluded.wall_ms, tokens = tokens + excluded.tokens, cost = cost + excluded.cost",
            )?
            .execute(params![
                user,
                today,
                added.cells,
                added.wall_ms,
                added.tokens,
                added.cost
            ])?;
            known.add(&user, today, added);
            Ok(())
        }
    }

    /// What a user has used today.
    pub(crate) async fn usage_today(&self, user: &str) -> Result<UsageRow, StoreError> {
        let (today, known) = (self.today(), self.known_usage.clone());
        if let Some(used) = known.of(user, today) {
            return Ok(used);
        }
        let user = user.to_owned();
        self.call(move |db| {
            let row = db
                .prepare_cached(
                    "SELECT cells, wall_ms, tokens, cost FROM usage WHERE user = ? AND day = ?",
                )?
                .query_row(params![user, today], |row| {
                    Ok(UsageRow {
                        cells: row.get(0)?,
                        wall_ms: row.get(1)?,
                        tokens: row.get(2)?,
                        cost: row.get(3)?,
                    })
                })
                .optional()?;
            let used = row.unwrap_or_default();
            known.set(user, today, used);
            Ok(used)
        })
        .await
    }
}
