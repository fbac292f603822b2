//! What users have used on a day, for quotas.

use super::{Store, StoreError};
use rusqlite::{OptionalExtension as _, params};
use serde::Serialize;

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
        let (user, today) = (user.to_owned(), self.today());
        self.call_unsynced(move |db| {
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
            ])
        })
        .await
        .map(|_| ())
    }

    /// What a user has used today.
    pub(crate) async fn usage_today(&self, user: &str) -> Result<UsageRow, StoreError> {
        let (user, today) = (user.to_owned(), self.today());
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
            Ok(row.unwrap_or_default())
        })
        .await
    }
}
