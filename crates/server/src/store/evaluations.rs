//! Reports of evaluations in the store.

use super::{Store, StoreError};
use rusqlite::{OptionalExtension as _, Row, params};
use serde::Serialize;

/// An evaluation, without its report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct EvaluationRow {
    pub(crate) id: String,
    #[serde(skip)]
    pub(crate) user: String,
    pub(crate) suite: String,
    pub(crate) model: String,
    pub(crate) format: Option<String>,
    pub(crate) score: f64,
    pub(crate) passed: i64,
    pub(crate) tasks: i64,
    pub(crate) date: String,
    pub(crate) created_at: i64,
}

const FIELDS: &str = "id, user, suite, model, format, score, passed, tasks, date, created_at";

fn evaluation(row: &Row<'_>) -> rusqlite::Result<EvaluationRow> {
    Ok(EvaluationRow {
        id: row.get(0)?,
        user: row.get(1)?,
        suite: row.get(2)?,
        model: row.get(3)?,
        format: row.get(4)?,
        score: row.get(5)?,
        passed: row.get(6)?,
        tasks: row.get(7)?,
        date: row.get(8)?,
        created_at: row.get(9)?,
    })
}

impl Store {
    /// Keeps the report of an evaluation.
    pub(crate) async fn add_evaluation(
        &self,
        row: EvaluationRow,
        report: String,
    ) -> Result<(), StoreError> {
        self.call(move |db| {
            db.execute(
                &format!("INSERT INTO evaluations ({FIELDS}, report) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"),
                params![
                    row.id, row.user, row.suite, row.model, row.format, row.score, row.passed, row.tasks, row.date,
                    row.created_at, report
                ],
            )
        })
        .await
        .map(|_| ())
    }

    /// The evaluations of a user, the newest first.
    pub(crate) async fn evaluations(&self, user: &str) -> Result<Vec<EvaluationRow>, StoreError> {
        let user = user.to_owned();
        self.call(move |db| {
            let query = format!(
                "SELECT {FIELDS} FROM evaluations WHERE user = ? ORDER BY created_at DESC, rowid DESC LIMIT 1000"
            );
            db.prepare_cached(&query)?
                .query_map([&user], evaluation)?
                .collect()
        })
        .await
    }

    /// The report of an evaluation, if it belongs to this user.
    pub(crate) async fn evaluation_report(
        &self,
        user: &str,
        id: &str,
    ) -> Result<Option<String>, StoreError> {
        let (user, id) = (user.to_owned(), id.to_owned());
        self.call(move |db| {
            db.prepare_cached("SELECT report FROM evaluations WHERE id = ? AND user = ?")?
                .query_row([&id, &user], |row| row.get(0))
                .optional()
        })
        .await
    }

    /// Removes an evaluation. Says whether there was one.
    pub(crate) async fn remove_evaluation(&self, user: &str, id: &str) -> Result<bool, StoreError> {
        let (user, id) = (user.to_owned(), id.to_owned());
        self.call(move |db| {
            db.execute(
                "DELETE FROM evaluations WHERE id = ? AND user = ?",
                [&id, &user],
            )
        })
        .await
        .map(|removed| removed > 0)
    }
}
