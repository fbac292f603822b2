//! Logins of browsers, one-time links and API tokens in the store. Only hashes of secrets are kept.

use super::accounts::{User, find};
use super::{Store, StoreError};
use rusqlite::{OptionalExtension as _, params};
use serde::Serialize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// An API token without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct TokenRow {
    pub(crate) id: String,
    #[serde(skip)]
    pub(crate) user: String,
    pub(crate) name: String,
    #[serde(skip)]
    pub(crate) hash: Vec<u8>,
    pub(crate) scopes: Vec<String>,
    pub(crate) created_at: i64,
    pub(crate) expires_at: Option<i64>,
    pub(crate) used_at: Option<i64>,
}

fn token(row: &rusqlite::Row<'_>) -> rusqlite::Result<TokenRow> {
    let scopes: String = row.get(4)?;
    Ok(TokenRow {
        id: row.get(0)?,
        user: row.get(1)?,
        name: row.get(2)?,
        hash: row.get(3)?,
        scopes: scopes.split_whitespace().map(str::to_owned).collect(),
        created_at: row.get(5)?,
        expires_at: row.get(6)?,
        used_at: row.get(7)?,
    })
}

/// How long a login that has ended stays in the store. A clock that is set forward by mistake ends no login for good.
const ENDED_LOGIN_SECONDS: i64 = 30 * 24 * 3600;

/// Until when the link for the first administrator is taken, if this process made one. By the monotonic clock: a machine may start with a
/// clock that is years behind, and get the right time only after the link was printed.
#[derive(Clone, Debug, Default)]
pub(super) struct FirstLink(Arc<Mutex<Option<Instant>>>);

impl FirstLink {
    fn open_for(&self, life: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + life);
    }

    fn is_open(&self) -> bool {
        let until = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() < until)
    }
}

const TOKEN: &str = "id, user, name, hash, scopes, created_at, expires_at, used_at";

impl Store {
    /// Keeps a login of a browser.
    pub(crate) async fn add_login(
        &self,
        hash: [u8; 32],
        user: &str,
        expires_at: i64,
    ) -> Result<(), StoreError> {
        let (user, now) = (user.to_owned(), self.now());
        self.call(move |db| {
            let long_ended = now - ENDED_LOGIN_SECONDS;
            db.execute("DELETE FROM logins WHERE expires_at < ?", [long_ended])?;
            db.execute(
                "INSERT INTO logins (hash, user, created_at, expires_at) VALUES (?, ?, ?, ?)",
                params![hash, user, now, expires_at],
            )?;
            Ok(())
        })
        .await
    }

    /// The user with this login, if it has not expired.
    pub(crate) async fn user_of_login(&self, hash: [u8; 32]) -> Result<Option<User>, StoreError> {
        let now = self.now();
        self.call(move |db| {
            let id = db
                .prepare_cached("SELECT user FROM logins WHERE hash = ? AND expires_at >= ?")?
                .query_row(params![hash, now], |row| row.get::<_, String>(0))
                .optional()?;
            id.map_or(Ok(None), |id| find(db, "id", &id))
        })
        .await
    }

    /// Ends a login.
    pub(crate) async fn remove_login(&self, hash: [u8; 32]) -> Result<(), StoreError> {
        self.call(move |db| db.execute("DELETE FROM logins WHERE hash = ?", params![hash]))
            .await
            .map(|_| ())
    }

    /// Keeps a one-time link for a user. Earlier links of this user end.
    pub(crate) async fn add_link(
        &self,
        hash: [u8; 32],
        user: &User,
        expires_at: i64,
    ) -> Result<(), StoreError> {
        self.replace_link(hash, Some(user.id.clone()), expires_at)
            .await
    }

    /// Keeps the one-time link for the first administrator. It ends after `life`, with the process, or when another is made.
    pub(crate) async fn add_first_link(
        &self,
        hash: [u8; 32],
        life: Duration,
    ) -> Result<(), StoreError> {
        self.first_link.open_for(life);
        self.replace_link(hash, None, i64::MAX).await
    }

    async fn replace_link(
        &self,
        hash: [u8; 32],
        user: Option<String>,
        expires_at: i64,
    ) -> Result<(), StoreError> {
        self.call(move |db| {
            let change = db.transaction()?;
            change.execute("DELETE FROM links WHERE user IS ?", [&user])?;
            change.execute(
                "INSERT INTO links (hash, user, expires_at) VALUES (?, ?, ?)",
                params![hash, user, expires_at],
            )?;
            change.commit()
        })
        .await
    }

    /// Takes a one-time link out of the store. `None`: there is none. `Some(None)`: it makes the first administrator.
    pub(crate) async fn take_link(
        &self,
        hash: [u8; 32],
    ) -> Result<Option<Option<String>>, StoreError> {
        let (now, is_first_open) = (self.now(), self.first_link.is_open());
        self.call(move |db| {
            db.query_row(
                "DELETE FROM links WHERE hash = ? AND expires_at >= ? AND (user IS NOT NULL OR ?) RETURNING user",
                params![hash, now, is_first_open],
                |row| row.get(0),
            )
            .optional()
        })
        .await
    }

    /// Whether a one-time link would be taken.
    pub(crate) async fn has_link(&self, hash: [u8; 32]) -> Result<bool, StoreError> {
        let (now, is_first_open) = (self.now(), self.first_link.is_open());
        self.call(move |db| {
            let found = db
                .query_row(
                    "SELECT 1 FROM links WHERE hash = ? AND expires_at >= ? AND (user IS NOT NULL OR ?)",
                    params![hash, now, is_first_open],
                    |_| Ok(()),
                )
                .optional()?;
            Ok(found.is_some())
        })
        .await
    }

    /// Keeps an API token.
    pub(crate) async fn add_token(&self, token: TokenRow) -> Result<(), StoreError> {
        self.call(move |db| {
            db.execute(
                &format!("INSERT INTO tokens ({TOKEN}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"),
                params![
                    token.id,
                    token.user,
                    token.name,
                    token.hash,
                    token.scopes.join(" "),
                    token.created_at,
                    token.expires_at,
                    token.used_at
                ],
            )
        })
        .await
        .map(|_| ())
    }

    /// The tokens of a user, the newest first.
    pub(crate) async fn tokens(&self, user: &str) -> Result<Vec<TokenRow>, StoreError> {
        let user = user.to_owned();
        self.call(move |db| {
            let query =
                format!("SELECT {TOKEN} FROM tokens WHERE user = ? ORDER BY created_at DESC, id");
            db.prepare_cached(&query)?
                .query_map([&user], token)?
                .collect()
        })
        .await
    }

    /// The token with this id and its owner.
    pub(crate) async fn token_with_user(
        &self,
        id: &str,
    ) -> Result<Option<(TokenRow, User)>, StoreError> {
        let id = id.to_owned();
        self.call(move |db| {
            let query = format!("SELECT {TOKEN} FROM tokens WHERE id = ?");
            let found = db
                .prepare_cached(&query)?
                .query_row([&id], token)
                .optional()?;
            let Some(token) = found else {
                return Ok(None);
            };
            let user = find(db, "id", &token.user)?;
            Ok(user.map(|user| (token, user)))
        })
        .await
    }

    /// Notes that a token was used. To the minute, so that a busy program does not write with each request.
    pub(crate) async fn note_token_used(&self, id: &str) -> Result<(), StoreError> {
        let (id, now) = (id.to_owned(), self.now());
        self.call(move |db| {
            db.execute(
                "UPDATE tokens SET used_at = ? WHERE id = ?",
                params![now, id],
            )
        })
        .await
        .map(|_| ())
    }

    /// Removes a token of a user.
    pub(crate) async fn remove_token(&self, user: &str, id: &str) -> Result<bool, StoreError> {
        let (user, id) = (user.to_owned(), id.to_owned());
        self.call(move |db| {
            let removed =
                db.execute("DELETE FROM tokens WHERE user = ? AND id = ?", [&user, &id])?;
            Ok(removed > 0)
        })
        .await
    }
}
