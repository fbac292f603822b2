//! What users have used on a day, for quotas.

use super::{Store, StoreError, now};
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

/// The seconds until the day of the store ends.
pub(crate) fn seconds_left_today() -> u64 {
    u64::try_from(SECONDS_OF_DAY - now() % SECONDS_OF_DAY).unwrap_or(1)
}

impl Store {
    /// Adds to what a user has used today.
    pub(crate) async fn add_usage(&self, user: &str, added: UsageRow) -> Result<(), StoreError> {
        let user = user.to_owned();
        self.call_unsynced(move |db| {
            db.prepare_cached(
                "INSERT INTO usage (user, day, cells, wall_ms, tokens, cost) VALUES (?, ?, ?, ?, ?, ?) \
                 ON CONFLICT (user, day) DO UPDATE SET cells = cells + excluded.cells, \
                 wall_ms = wall_ms + excluded.wall_ms, tokens = tokens + excluded.tokens, cost = cost + excluded.cost",
            )?
            .execute(params![
                user,
                now() / SECONDS_OF_DAY,
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
        let user = user.to_owned();
        self.call(move |db| {
            let row = db
                .prepare_cached(
                    "SELECT cells, wall_ms, tokens, cost FROM usage WHERE user = ? AND day = ?",
                )?
                .query_row(params![user, now() / SECONDS_OF_DAY], |row| {
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
