//! The index of chats and runs in the store. What was said is in the records of the runs.

use super::{Store, StoreError};
use rusqlite::{OptionalExtension as _, Row, params};
use serde::Serialize;

/// A chat: questions over one session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ChatRow {
    pub(crate) id: String,
    #[serde(skip)]
    pub(crate) user: String,
    pub(crate) title: String,
    pub(crate) model: String,
    pub(crate) session: Option<String>,
    pub(crate) parent: Option<String>,
    pub(crate) created_at: i64,
    pub(crate) used_at: i64,
}

/// A run: one question and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct RunRow {
    pub(crate) id: String,
    #[serde(skip)]
    pub(crate) user: String,
    pub(crate) chat: Option<String>,
    pub(crate) session: Option<String>,
    /// The id of the record of the run.
    #[serde(skip)]
    pub(crate) record: Option<String>,
    pub(crate) question: String,
    pub(crate) model: String,
    /// `running`, or how the run ended.
    pub(crate) status: String,
    pub(crate) answer: Option<String>,
    pub(crate) cost: Option<f64>,
    pub(crate) created_at: i64,
}

const CHAT: &str = "id, user, title, model, session, parent, created_at, used_at";
const RUN: &str =
    "id, user, chat, session, record, question, model, status, answer, cost, created_at";

fn chat(row: &Row<'_>) -> rusqlite::Result<ChatRow> {
    Ok(ChatRow {
        id: row.get(0)?,
        user: row.get(1)?,
        title: row.get(2)?,
        model: row.get(3)?,
        session: row.get(4)?,
        parent: row.get(5)?,
        created_at: row.get(6)?,
        used_at: row.get(7)?,
    })
}

fn run(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    Ok(RunRow {
        id: row.get(0)?,
        user: row.get(1)?,
        chat: row.get(2)?,
        session: row.get(3)?,
        record: row.get(4)?,
        question: row.get(5)?,
        model: row.get(6)?,
        status: row.get(7)?,
        answer: row.get(8)?,
        cost: row.get(9)?,
        created_at: row.get(10)?,
    })
}

impl Store {
    /// Keeps a new chat.
    pub(crate) async fn add_chat(&self, row: ChatRow) -> Result<(), StoreError> {
        self.call(move |db| {
            db.execute(
                &format!("INSERT INTO chats ({CHAT}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"),
                params![
                    row.id,
                    row.user,
                    row.title,
                    row.model,
                    row.session,
                    row.parent,
                    row.created_at,
                    row.used_at
                ],
            )
        })
        .await
        .map(|_| ())
    }

    /// The chat with this id, if it belongs to this user.
    pub(crate) async fn chat(&self, user: &str, id: &str) -> Result<Option<ChatRow>, StoreError> {
        let (user, id) = (user.to_owned(), id.to_owned());
        self.call(move |db| {
            let query = format!("SELECT {CHAT} FROM chats WHERE id = ? AND user = ?");
            db.prepare_cached(&query)?
                .query_row([&id, &user], chat)
                .optional()
        })
        .await
    }

    /// The chats of a user, the last used first; only those whose title or questions contain `search`, where it is given.
    pub(crate) async fn chats(
        &self,
        user: &str,
        search: Option<String>,
    ) -> Result<Vec<ChatRow>, StoreError> {
        let user = user.to_owned();
        self.call(move |db| {
            let search = search.unwrap_or_default();
            let query = format!(
                "SELECT {CHAT} FROM chats WHERE user = ?1 AND (?2 = '' OR instr(lower(title), lower(?2)) > 0 OR EXISTS \
                 (SELECT 1 FROM runs WHERE runs.chat = chats.id AND (instr(lower(runs.question), lower(?2)) > 0 \
                 OR instr(lower(coalesce(runs.answer, '')), lower(?2)) > 0))) ORDER BY used_at DESC, rowid DESC LIMIT 1000"
            );
            db.prepare_cached(&query)?.query_map([&user, &search], chat)?.collect()
        })
        .await
    }

    /// Changes title, model and session of a chat, and notes that it was used.
    pub(crate) async fn update_chat(&self, row: &ChatRow) -> Result<(), StoreError> {
        let (row, now) = (row.clone(), self.now());
        self.call(move |db| {
            db.execute(
                "UPDATE chats SET title = ?, model = ?, session = ?, used_at = ? WHERE id = ?",
                params![row.title, row.model, row.session, now, row.id],
            )
        })
        .await
        .map(|_| ())
    }

    /// Removes a chat with the index of its runs.
    pub(crate) async fn remove_chat(&self, id: &str) -> Result<(), StoreError> {
        let id = id.to_owned();
        self.call(move |db| db.execute("DELETE FROM chats WHERE id = ?", [&id]))
            .await
            .map(|_| ())
    }

    /// Keeps a new run, or what is new about it.
    pub(crate) async fn put_run(&self, row: &RunRow) -> Result<(), StoreError> {
        let row = row.clone();
        self.call(move |db| {
            db.execute(
                &format!(
                    "INSERT INTO runs ({RUN}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT(id) DO UPDATE SET \
                     session = excluded.session, record = excluded.record, status = excluded.status, \
                     answer = excluded.answer, cost = excluded.cost"
                ),
                params![
                    row.id,
                    row.user,
                    row.chat,
                    row.session,
                    row.record,
                    row.question,
                    row.model,
                    row.status,
                    row.answer,
                    row.cost,
                    row.created_at
                ],
            )
        })
        .await
        .map(|_| ())
    }

    /// The run with this id, if it belongs to this user.
    pub(crate) async fn run(&self, user: &str, id: &str) -> Result<Option<RunRow>, StoreError> {
        let (user, id) = (user.to_owned(), id.to_owned());
        self.call(move |db| {
            let query = format!("SELECT {RUN} FROM runs WHERE id = ? AND user = ?");
            db.prepare_cached(&query)?
                .query_row([&id, &user], run)
                .optional()
        })
        .await
    }

    /// The runs of a user, the newest first; of one chat in the order of its questions. Several may begin in the same second, so the
    /// order is that in which they were added.
    pub(crate) async fn runs(
        &self,
        user: &str,
        chat: Option<String>,
    ) -> Result<Vec<RunRow>, StoreError> {
        let user = user.to_owned();
        self.call(move |db| match chat {
            Some(chat) => {
                let query =
                    format!("SELECT {RUN} FROM runs WHERE user = ? AND chat = ? ORDER BY rowid");
                db.prepare_cached(&query)?.query_map([&user, &chat], run)?.collect()
            }
            None => {
                let query = format!(
                    "SELECT {RUN} FROM runs WHERE user = ? ORDER BY created_at DESC, rowid DESC LIMIT 1000"
                );
                db.prepare_cached(&query)?.query_map([&user], run)?.collect()
            }
        })
        .await
    }

    /// Marks the runs as cut off that were going on when the server ended.
    pub(crate) async fn mark_cut_off_runs(&self) -> Result<(), StoreError> {
        self.call(|db| {
            db.execute(
                "UPDATE runs SET status = 'cut_off' WHERE status = 'running'",
                [],
            )
        })
        .await
        .map(|_| ())
    }
}
