//! The index of sessions in the store.

use super::{Store, StoreError};
use rusqlite::{OptionalExtension as _, Row, params};
use serde::Serialize;

/// Whether a session can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SessionStatus {
    /// It lives, or comes back from its journal with the next request.
    Open,
    /// Its user closed it.
    Closed,
}

/// A session as the store knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionRow {
    pub(crate) id: String,
    pub(crate) user: String,
    pub(crate) title: String,
    pub(crate) parent: Option<String>,
    pub(crate) chat: Option<String>,
    /// The id of the journal that the session can be rebuilt from.
    pub(crate) journal: Option<String>,
    pub(crate) status: SessionStatus,
    /// Why the process of the session ended, where it did.
    pub(crate) reason: Option<String>,
    /// How often the session was rebuilt.
    pub(crate) life: i64,
    /// The memory that it may take, in bytes.
    pub(crate) memory: i64,
    pub(crate) created_at: i64,
    pub(crate) used_at: i64,
}

const COLUMNS: &str =
    "id, user, title, parent, chat, journal, status, reason, life, memory, created_at, used_at";

fn session(row: &Row<'_>) -> rusqlite::Result<SessionRow> {
    let status: String = row.get(6)?;
    Ok(SessionRow {
        id: row.get(0)?,
        user: row.get(1)?,
        title: row.get(2)?,
        parent: row.get(3)?,
        chat: row.get(4)?,
        journal: row.get(5)?,
        status: match status.as_str() {
            "open" => SessionStatus::Open,
            _ => SessionStatus::Closed,
        },
        reason: row.get(7)?,
        life: row.get(8)?,
        memory: row.get(9)?,
        created_at: row.get(10)?,
        used_at: row.get(11)?,
    })
}

impl Store {
    /// Keeps a new session.
    pub(crate) async fn add_session(&self, row: SessionRow) -> Result<(), StoreError> {
        self.call(move |db| {
            db.execute(
                &format!("INSERT INTO sessions ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, 'open', ?, ?, ?, ?, ?)"),
                params![
                    row.id, row.user, row.title, row.parent, row.chat, row.journal, row.reason,
                    row.life, row.memory, row.created_at, row.used_at
                ],
            )
        })
        .await
        .map(|_| ())
    }

    /// The session with this id, if it belongs to this user.
    pub(crate) async fn session(
        &self,
        user: &str,
        id: &str,
    ) -> Result<Option<SessionRow>, StoreError> {
        let (user, id) = (user.to_owned(), id.to_owned());
        self.call(move |db| {
            let query = format!("SELECT {COLUMNS} FROM sessions WHERE id = ? AND user = ?");
            db.prepare_cached(&query)?
                .query_row([&id, &user], session)
                .optional()
        })
        .await
    }

    /// The sessions of a user, the newest first.
    pub(crate) async fn sessions(&self, user: &str) -> Result<Vec<SessionRow>, StoreError> {
        let user = user.to_owned();
        self.call(move |db| {
            let query = format!(
                "SELECT {COLUMNS} FROM sessions WHERE user = ? ORDER BY created_at DESC, rowid DESC LIMIT 1000"
            );
            db.prepare_cached(&query)?.query_map([&user], session)?.collect()
        })
        .await
    }

    /// Notes that a session was rebuilt: its next life, and the journal that goes on.
    pub(crate) async fn session_rebuilt(
        &self,
        id: &str,
        journal: Option<String>,
    ) -> Result<i64, StoreError> {
        let (id, now) = (id.to_owned(), self.now());
        self.call(move |db| {
            db.query_row(
                "UPDATE sessions SET life = life + 1, journal = ?, reason = NULL, used_at = ? WHERE id = ? RETURNING life",
                params![journal, now, id],
                |row| row.get(0),
            )
        })
        .await
    }

    /// Notes why the process of a session ended.
    pub(crate) async fn session_ended(&self, id: &str, reason: &str) -> Result<(), StoreError> {
        let (id, reason) = (id.to_owned(), reason.to_owned());
        self.call(move |db| {
            db.execute(
                "UPDATE sessions SET reason = ? WHERE id = ?",
                [&reason, &id],
            )
        })
        .await
        .map(|_| ())
    }

    /// Changes the title of a session.
    pub(crate) async fn set_session_title(&self, id: &str, title: &str) -> Result<(), StoreError> {
        let (id, title) = (id.to_owned(), title.to_owned());
        self.call(move |db| db.execute("UPDATE sessions SET title = ? WHERE id = ?", [&title, &id]))
            .await
            .map(|_| ())
    }

    /// Notes that a user closed a session.
    pub(crate) async fn close_session(&self, id: &str) -> Result<(), StoreError> {
        let id = id.to_owned();
        self.call(move |db| db.execute("UPDATE sessions SET status = 'closed' WHERE id = ?", [&id]))
            .await
            .map(|_| ())
    }
}
