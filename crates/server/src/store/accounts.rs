//! Users in the store.

use super::{Store, StoreError};
use crate::auth::Identity;
use rusqlite::{OptionalExtension as _, Row, params};
use serde::{Deserialize, Serialize};

/// What a user may do to the server itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// Manages users and sees the audit log.
    Admin,
    /// Has sessions, runs and chats.
    User,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Role::Admin => "admin",
            Role::User => "user",
        }
    }

    fn of(name: &str) -> Role {
        match name {
            "admin" => Role::Admin,
            _ => Role::User,
        }
    }
}

/// A user. The password's hash stays in the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct User {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) created_at: i64,
    pub(crate) disabled: bool,
    /// The user's own limits as JSON, where they differ from the server's.
    #[serde(skip)]
    pub(crate) quotas: Option<String>,
}

const COLUMNS: &str = "id, name, role, created_at, disabled, quotas";

fn user(row: &Row<'_>) -> rusqlite::Result<User> {
    let role: String = row.get(2)?;
    Ok(User {
        id: row.get(0)?,
        name: row.get(1)?,
        role: Role::of(&role),
        created_at: row.get(3)?,
        disabled: row.get(4)?,
        quotas: row.get(5)?,
    })
}

impl Store {
    /// Whether a user manages the server.
    pub(crate) async fn has_admin(&self) -> Result<bool, StoreError> {
        let admin = Role::Admin.name();
        let query = "SELECT EXISTS (SELECT 1 FROM users WHERE role = ?)";
        self.call(move |db| db.query_row(query, [admin], |row| row.get(0)))
            .await
    }

    /// All users by name.
    pub(crate) async fn users(&self) -> Result<Vec<User>, StoreError> {
        self.call(|db| {
            let mut query =
                db.prepare_cached(&format!("SELECT {COLUMNS} FROM users ORDER BY name"))?;
            query.query_map([], user)?.collect()
        })
        .await
    }

    /// Adds a user. `None` where the name is taken.
    pub(crate) async fn add_user(
        &self,
        id: &str,
        name: &str,
        role: Role,
        password: Option<String>,
    ) -> Result<Option<User>, StoreError> {
        let (id, name, now) = (id.to_owned(), name.to_owned(), self.now());
        self.call(move |db| insert(db, now, &id, &name, role, password))
            .await
    }

    /// Adds a user that an OpenID provider knows. `None` where the name is taken.
    pub(crate) async fn add_user_with_identity(
        &self,
        id: &str,
        role: Role,
        identity: &Identity,
    ) -> Result<Option<User>, StoreError> {
        let (id, name) = (id.to_owned(), identity.name.clone());
        let (issuer, subject) = (identity.issuer.clone(), identity.subject.clone());
        let now = self.now();
        self.call(move |db| {
            let change = db.transaction()?;
            let added = insert(&change, now, &id, &name, role, None)?;
            if added.is_some() {
                change.execute(
                    "INSERT INTO identities (issuer, subject, user) VALUES (?, ?, ?)",
                    params![issuer, subject, id],
                )?;
            }
            change.commit()?;
            Ok(added)
        })
        .await
    }

    /// The user that an OpenID provider knows by this id.
    pub(crate) async fn user_of_identity(
        &self,
        issuer: &str,
        subject: &str,
    ) -> Result<Option<User>, StoreError> {
        let (issuer, subject) = (issuer.to_owned(), subject.to_owned());
        self.call(move |db| {
            let known = "SELECT user FROM identities WHERE issuer = ? AND subject = ?";
            let mut query =
                db.prepare_cached(&format!("SELECT {COLUMNS} FROM users WHERE id = ({known})"))?;
            query.query_row(params![issuer, subject], user).optional()
        })
        .await
    }

    /// The user with this id.
    pub(crate) async fn user(&self, id: &str) -> Result<Option<User>, StoreError> {
        let id = id.to_owned();
        self.call(move |db| find(db, "id", &id)).await
    }

    /// The user with this name.
    pub(crate) async fn user_named(&self, name: &str) -> Result<Option<User>, StoreError> {
        let name = name.to_owned();
        self.call(move |db| find(db, "name", &name)).await
    }

    /// The hash of a user's password.
    pub(crate) async fn password_of(&self, id: &str) -> Result<Option<String>, StoreError> {
        let id = id.to_owned();
        self.call(move |db| {
            let found = db
                .query_row("SELECT password FROM users WHERE id = ?", [&id], |row| {
                    row.get::<_, Option<String>>(0)
                })
                .optional()?;
            Ok(found.flatten())
        })
        .await
    }

    /// Sets the password of a user and ends all logins of that user.
    pub(crate) async fn set_password(&self, id: &str, hash: String) -> Result<(), StoreError> {
        let id = id.to_owned();
        self.call(move |db| {
            let change = db.transaction()?;
            change.execute(
                "UPDATE users SET password = ? WHERE id = ?",
                params![hash, id],
            )?;
            change.execute("DELETE FROM logins WHERE user = ?", [&id])?;
            change.commit()
        })
        .await
    }

    /// Changes role, limits and whether the user may log in. A user that may not loses all logins at once.
    pub(crate) async fn update_user(&self, user: &User) -> Result<(), StoreError> {
        let user = user.clone();
        self.call(move |db| {
            let change = db.transaction()?;
            change.execute(
                "UPDATE users SET role = ?, quotas = ?, disabled = ? WHERE id = ?",
                params![user.role.name(), user.quotas, user.disabled, user.id],
            )?;
            if user.disabled {
                change.execute("DELETE FROM logins WHERE user = ?", [&user.id])?;
            }
            change.commit()
        })
        .await
    }

    /// Removes a user with everything that belongs to that user.
    pub(crate) async fn remove_user(&self, id: &str) -> Result<bool, StoreError> {
        let id = id.to_owned();
        self.call(move |db| Ok(db.execute("DELETE FROM users WHERE id = ?", [&id])? > 0))
            .await
    }
}

/// Adds a user. `None` where the name is taken.
fn insert(
    db: &rusqlite::Connection,
    now: i64,
    id: &str,
    name: &str,
    role: Role,
    password: Option<String>,
) -> rusqlite::Result<Option<User>> {
    let added = db.execute(
        "INSERT INTO users (id, name, role, password, created_at) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        params![id, name, role.name(), password, now],
    )?;
    if added == 0 {
        return Ok(None);
    }
    find(db, "id", id)
}

pub(super) fn find(
    db: &rusqlite::Connection,
    column: &str,
    value: &str,
) -> rusqlite::Result<Option<User>> {
    let query = format!("SELECT {COLUMNS} FROM users WHERE {column} = ?");
    db.prepare_cached(&query)?
        .query_row([value], user)
        .optional()
}
