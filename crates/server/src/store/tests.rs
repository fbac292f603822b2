//! The store as its callers see it: what survives, and what is refused with which words.

use super::{ChatRow, Role, RunRow, Store, StoreError, UsageRow};
use crate::clock::Clock;
use rusqlite::Connection;
use std::fs;
use tempfile::tempdir;

#[tokio::test]
async fn what_was_written_is_there_after_a_new_start() {
    let directory = tempdir().expect("a directory");
    let store = Store::open(directory.path(), Clock::default()).expect("a store");
    let added = store
        .add_user("u1", "ada", Role::Admin, None)
        .await
        .expect("written");
    drop(store);
    let store = Store::open(directory.path(), Clock::default()).expect("a store");
    assert_eq!(store.user_named("ADA").await.expect("read"), added);
    let again = store
        .add_user("u2", "Ada", Role::User, None)
        .await
        .expect("read");
    assert_eq!(again, None, "a name is taken in every spelling");
}

#[tokio::test]
async fn what_a_user_has_used_is_counted_by_day_and_survives_a_new_start() {
    let directory = tempdir().expect("a directory");
    let clock = Clock::default();
    let mut store = Store::open(directory.path(), clock.clone()).expect("a store");
    let added = store.add_user("u1", "ada", Role::User, None).await;
    added.expect("written");
    let two_cells = UsageRow {
        cells: 2,
        wall_ms: 30,
        tokens: 5,
        cost: 0.5,
    };
    store.add_usage("u1", two_cells).await.expect("written");
    // The first look is at the file, the others at what is known of it.
    for cells in [2, 4, 6] {
        assert_eq!(store.usage_today("u1").await.expect("read").cells, cells);
        store.add_usage("u1", two_cells).await.expect("written");
    }
    let all = store.usage_today("u1").await.expect("read");
    assert_eq!((all.wall_ms, all.tokens, all.cost), (120, 20, 2.0));
    assert_eq!(store.usage_today("u2").await.expect("read").cells, 0);
    drop(store);
    store = Store::open(directory.path(), clock.clone()).expect("a store");
    assert_eq!(store.usage_today("u1").await.expect("read"), all);
    clock.shift(24 * 3600);
    assert_eq!(store.usage_today("u1").await.expect("read").cells, 0);
    store.add_usage("u1", two_cells).await.expect("written");
    assert_eq!(store.usage_today("u1").await.expect("read"), two_cells);
    clock.shift(-24 * 3600);
    assert_eq!(store.usage_today("u1").await.expect("read"), all);
}

#[test]
fn two_servers_on_one_store_are_refused() {
    let directory = tempdir().expect("a directory");
    let first = Store::open(directory.path(), Clock::default()).expect("a store");
    let second = Store::open(directory.path(), Clock::default()).expect_err("in use");
    assert!(matches!(second, StoreError::InUse { .. }), "{second}");
    assert!(
        second.to_string().contains(&std::process::id().to_string()),
        "{second}"
    );
    assert!(second.hint().is_some());
    drop(first);
}

#[test]
fn a_damaged_store_is_told_at_the_start() {
    let directory = tempdir().expect("a directory");
    drop(Store::open(directory.path(), Clock::default()).expect("a store"));
    let path = directory.path().join("cellblock.db");
    assert!(
        !directory.path().join("cellblock.db-wal").exists(),
        "the store is closed"
    );
    for contents in [
        b"no database at all, but long enough to be looked at closely".to_vec(),
        damaged(&path),
    ] {
        fs::write(&path, contents).expect("written");
        let error = Store::open(directory.path(), Clock::default()).expect_err("damaged");
        assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
        assert!(error.to_string().contains("cellblock.db"), "{error}");
    }
}

/// The file with noise in its first pages.
fn damaged(path: &std::path::Path) -> Vec<u8> {
    let mut contents = fs::read(path).expect("a file");
    for byte in contents.iter_mut().skip(100).take(9_000) {
        *byte ^= 0xa5;
    }
    contents
}

#[test]
fn a_store_of_a_newer_program_is_left_alone() {
    let directory = tempdir().expect("a directory");
    drop(Store::open(directory.path(), Clock::default()).expect("a store"));
    drop(Store::open(directory.path(), Clock::default()).expect("a store"));
    let path = directory.path().join("cellblock.db");
    let file = rusqlite::Connection::open(&path).expect("a database");
    file.pragma_update(None, "user_version", 99)
        .expect("written");
    drop(file);
    let error = Store::open(directory.path(), Clock::default()).expect_err("too new");
    assert!(
        matches!(error, StoreError::TooNew { found: 99, .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_full_store_is_told_in_words_and_goes_on_when_there_is_room() {
    let directory = tempdir().expect("a directory");
    let store = Store::open(directory.path(), Clock::default()).expect("a store");
    let pages = |count: i64| {
        store.call(move |db| {
            db.pragma_update_and_check(None, "max_page_count", count, |row| row.get::<_, i64>(0))
        })
    };
    let now = pages(1).await.expect("set");
    let detail = "x".repeat(100_000);
    let error = store
        .add_audit(None, "test", None, Some(detail.clone()))
        .await
        .expect_err("full");
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    pages(now + 1_000).await.expect("set");
    store
        .add_audit(None, "test", None, Some(detail))
        .await
        .expect("written");
}

#[tokio::test]
async fn a_store_that_another_program_locks_is_told_in_words() {
    let directory = tempdir().expect("a directory");
    let store = Store::open(directory.path(), Clock::default()).expect("a store");
    store
        .call(|db| db.busy_timeout(std::time::Duration::from_millis(50)))
        .await
        .expect("set");
    let other =
        rusqlite::Connection::open(directory.path().join("cellblock.db")).expect("a database");
    other.execute_batch("BEGIN EXCLUSIVE").expect("locked");
    let error = store
        .add_audit(None, "test", None, None)
        .await
        .expect_err("locked");
    assert!(matches!(error, StoreError::Locked { .. }), "{error:?}");
    other.execute_batch("ROLLBACK").expect("unlocked");
    store
        .add_audit(None, "test", None, None)
        .await
        .expect("written");
}

#[tokio::test]
async fn questions_of_the_same_second_stay_in_their_order() {
    let directory = tempdir().expect("a directory");
    let store = Store::open(directory.path(), Clock::default()).expect("a store");
    store
        .add_user("u1", "ada", Role::User, None)
        .await
        .expect("written");
    let run = |id: &str, status: &str| RunRow {
        id: id.to_owned(),
        user: "u1".to_owned(),
        chat: Some("c1".to_owned()),
        session: None,
        record: None,
        question: id.to_owned(),
        model: "m".to_owned(),
        status: status.to_owned(),
        answer: None,
        cost: None,
        created_at: 7,
    };
    let chat = ChatRow {
        id: "c1".to_owned(),
        user: "u1".to_owned(),
        title: "t".to_owned(),
        model: "m".to_owned(),
        session: None,
        parent: None,
        created_at: 7,
        used_at: 7,
    };
    store.add_chat(chat).await.expect("written");
    for id in ["z", "a", "m"] {
        store.put_run(&run(id, "running")).await.expect("written");
    }
    // The end of the first question does not move it behind the others.
    store.put_run(&run("z", "answered")).await.expect("written");
    let found = store.runs("u1", Some("c1".to_owned())).await.expect("read");
    let expected = [
        run("z", "answered"),
        run("a", "running"),
        run("m", "running"),
    ];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn only_the_work_of_each_cell_goes_on_without_the_disk() {
    let directory = tempdir().expect("a directory");
    let store = Store::open(directory.path(), Clock::default()).expect("a store");
    let level = |db: &mut Connection| {
        db.pragma_query_value(None, "synchronous", |row| row.get::<_, i64>(0))
    };
    let (normal, full) = (1, 2);
    assert_eq!(store.call(level).await.expect("a level"), full);
    assert_eq!(store.call_unsynced(level).await.expect("a level"), normal);
    let failed = store.call_unsynced(|db| db.execute("nonsense", [])).await;
    assert!(failed.is_err());
    assert_eq!(store.call(level).await.expect("a level"), full);
}
