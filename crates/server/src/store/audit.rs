//! The audit log: which user did what, without the contents.

use super::{Store, StoreError};
use rusqlite::{Connection, params};
use serde::Serialize;

/// How many entries are kept. The oldest are removed.
const MAX_ENTRIES: i64 = 100_000;

/// The action that is noted with each cell.
const EACH_CELL: &str = "cell.run";

/// An entry of the audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct AuditEntry {
    pub(crate) id: i64,
    pub(crate) at: i64,
    /// The name of the user, or the id of one that was removed.
    pub(crate) user: Option<String>,
    /// What was done, such as `session.open`.
    pub(crate) action: String,
    /// The id of what it was done to.
    pub(crate) target: Option<String>,
    pub(crate) detail: Option<String>,
}

impl Store {
    /// Adds an entry.
    pub(crate) async fn add_audit(
        &self,
        user: Option<&str>,
        action: &'static str,
        target: Option<&str>,
        detail: Option<String>,
    ) -> Result<(), StoreError> {
        self.call(adding(self.now(), user, action, target, detail))
            .await
    }

    /// Adds the entry of a cell. It does not wait: the cell would take twice as long.
    pub(crate) fn post_cell_audit(&self, user: &str, session: &str, cell: u64) {
        let detail = Some(cell.to_string());
        self.post_unsynced(adding(
            self.now(),
            Some(user),
            EACH_CELL,
            Some(session),
            detail,
        ));
    }

    /// The entries before this id, the newest first.
    pub(crate) async fn audit(
        &self,
        before: i64,
        limit: i64,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        self.call(move |db| {
            db.prepare_cached(
                "SELECT audit.id, at, coalesce(users.name, user), action, target, detail FROM audit \
                 LEFT JOIN users ON users.id = audit.user WHERE audit.id < ? ORDER BY audit.id DESC LIMIT ?",
            )?
            .query_map([before, limit], |row| {
                Ok(AuditEntry {
                    id: row.get(0)?,
                    at: row.get(1)?,
                    user: row.get(2)?,
                    action: row.get(3)?,
                    target: row.get(4)?,
                    detail: row.get(5)?,
                })
            })?
            .collect()
        })
        .await
    }
}

fn adding(
    at: i64,
    user: Option<&str>,
    action: &'static str,
    target: Option<&str>,
    detail: Option<String>,
) -> impl FnOnce(&mut Connection) -> rusqlite::Result<()> + Send + use<> {
    let (user, target) = (user.map(str::to_owned), target.map(str::to_owned));
    move |db| {
        db.prepare_cached(
            "INSERT INTO audit (at, user, action, target, detail) VALUES (?, ?, ?, ?, ?)",
        )?
        .execute(params![at, user, action, target, detail])?;
        let last = db.last_insert_rowid();
        // Not with each entry: removing walks an index.
        if last % 1_000 == 0 {
            db.execute("DELETE FROM audit WHERE id <= ?", [last - MAX_ENTRIES])?;
        }
        Ok(())
    }
}
