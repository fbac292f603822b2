//! The versions of the schema. A store of an older version is brought up to date when it is opened.

use super::{StoreError, store_error};
use rusqlite::Connection;
use std::path::Path;

/// One script for each version, in order. A script that was released is never changed: a new one follows it.
const MIGRATIONS: &[&str] = &[
    "
CREATE TABLE users (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE COLLATE NOCASE,
    role TEXT NOT NULL,
    password TEXT,
    quotas TEXT,
    created_at INTEGER NOT NULL,
    disabled INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE logins (
    hash BLOB PRIMARY KEY,
    user TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;
CREATE TABLE links (
    hash BLOB PRIMARY KEY,
    user TEXT REFERENCES users(id) ON DELETE CASCADE,
    expires_at INTEGER NOT NULL
) STRICT;
CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    user TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    hash BLOB NOT NULL,
    scopes TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    used_at INTEGER
) STRICT;
CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    user TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    title TEXT NOT NULL,
    parent TEXT,
    chat TEXT,
    journal TEXT,
    status TEXT NOT NULL,
    reason TEXT,
    life INTEGER NOT NULL DEFAULT 0,
    memory INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    used_at INTEGER NOT NULL
) STRICT;
CREATE INDEX sessions_of_user ON sessions(user, created_at);
CREATE TABLE chats (
    id TEXT PRIMARY KEY,
    user TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    title TEXT NOT NULL,
    model TEXT NOT NULL,
    session TEXT,
    parent TEXT,
    created_at INTEGER NOT NULL,
    used_at INTEGER NOT NULL
) STRICT;
CREATE INDEX chats_of_user ON chats(user, used_at);
CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    user TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    chat TEXT REFERENCES chats(id) ON DELETE CASCADE,
    session TEXT,
    record TEXT,
    question TEXT NOT NULL,
    model TEXT NOT NULL,
    status TEXT NOT NULL,
    answer TEXT,
    cost REAL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX runs_of_user ON runs(user, created_at);
CREATE TABLE usage (
    user TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    day INTEGER NOT NULL,
    cells INTEGER NOT NULL DEFAULT 0,
    wall_ms INTEGER NOT NULL DEFAULT 0,
    tokens INTEGER NOT NULL DEFAULT 0,
    cost REAL NOT NULL DEFAULT 0,
    PRIMARY KEY (user, day)
) STRICT;
CREATE TABLE audit (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    user TEXT,
    action TEXT NOT NULL,
    target TEXT,
    detail TEXT
) STRICT;
",
    "
CREATE TABLE shares (
    chat TEXT PRIMARY KEY REFERENCES chats(id) ON DELETE CASCADE,
    hash BLOB NOT NULL UNIQUE,
    created_at INTEGER NOT NULL
) STRICT;
CREATE TABLE evaluations (
    id TEXT PRIMARY KEY,
    user TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    suite TEXT NOT NULL,
    model TEXT NOT NULL,
    format TEXT,
    score REAL NOT NULL,
    passed INTEGER NOT NULL,
    tasks INTEGER NOT NULL,
    date TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    report TEXT NOT NULL
) STRICT;
CREATE INDEX evaluations_of_user ON evaluations(user, created_at);
",
    "
CREATE TABLE identities (
    issuer TEXT NOT NULL,
    subject TEXT NOT NULL,
    user TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    PRIMARY KEY (issuer, subject)
) STRICT;
",
];

/// Brings the schema up to date. Each version is one transaction, so a server that is killed meanwhile begins it again.
pub(super) fn run(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let failed = |error: rusqlite::Error| store_error(path, &error);
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    let version = |connection: &Connection| {
        connection.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))
    };
    let found = version(connection).map_err(failed)?;
    if found > known {
        let path = path.to_owned();
        return Err(StoreError::TooNew { path, found, known });
    }
    for (number, script) in (1..).zip(MIGRATIONS) {
        if number <= found {
            continue;
        }
        let transaction = connection.transaction().map_err(failed)?;
        transaction.execute_batch(script).map_err(failed)?;
        transaction
            .pragma_update(None, "user_version", number)
            .map_err(failed)?;
        transaction.commit().map_err(failed)?;
    }
    Ok(())
}
