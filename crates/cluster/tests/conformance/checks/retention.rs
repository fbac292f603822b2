//! What is deleted is gone, and nothing else is.

use super::{entry, eventually, new_node, new_session};
use crate::tokio_runtime;
use bytes::Bytes;
use cellblock_cluster::engine::{
    AppendError, Digest, Engine, Sequence, SessionEntry, SessionState,
};
use cellblock_cluster::retention::{Retention, Swept, forget, is_forgotten, sweep};
use cellblock_cluster::{RunQueue, RunTicket, SessionId};
use futures_util::future::join;
use serde_json::json;
use std::sync::Mutex;
use std::time::Duration;

/// Blobs are removed however young they are.
const NOW: Retention = Retention {
    closed: None,
    young_blobs: Duration::ZERO,
};
const HOUR: Duration = Duration::from_secs(3600);

pub(crate) async fn a_removed_blob_is_gone_and_can_be_put_again(engine: Engine) {
    let blobs = &engine.blobs;
    // Of several chunks.
    let bytes = Bytes::from(vec![3; 1_200_000]);
    let digest = blobs.put(bytes.clone()).await.unwrap();
    assert!(!blobs.remove(&digest, HOUR).await.unwrap());
    assert_eq!(blobs.get(&digest).await.unwrap(), Some(bytes.clone()));
    for _ in 0..2 {
        assert!(blobs.remove(&digest, Duration::ZERO).await.unwrap());
        assert_eq!(blobs.get(&digest).await.unwrap(), None);
        assert!(!blobs.list().await.unwrap().contains(&digest));
        assert_eq!(blobs.put(bytes.clone()).await.unwrap(), digest);
        assert_eq!(blobs.get(&digest).await.unwrap(), Some(bytes.clone()));
    }
    assert!(blobs.list().await.unwrap().contains(&digest));
}

pub(crate) async fn a_blob_that_is_put_while_it_is_removed_is_there(engine: Engine) {
    let blobs = &engine.blobs;
    for round in 0..30_u8 {
        let bytes = Bytes::from(vec![round; 600_000]);
        let digest = blobs.put(bytes.clone()).await.unwrap();
        // Whichever comes first, what was put after the removal began is there, or was removed after it was put. A second put decides.
        let removal = async { blobs.remove(&digest, Duration::ZERO).await };
        let (removed, put) = join(removal, blobs.put(bytes.clone())).await;
        put.unwrap();
        removed.unwrap();
        match blobs.get(&digest).await {
            Ok(None) => {}
            found => assert_eq!(found, Ok(Some(bytes.clone())), "round {round}"),
        }
        blobs.put(bytes.clone()).await.unwrap();
        let (kept, put) = join(blobs.remove(&digest, HOUR), blobs.put(bytes.clone())).await;
        put.unwrap();
        assert_eq!(kept, Ok(false));
        assert_eq!(blobs.get(&digest).await, Ok(Some(bytes)));
    }
}

pub(crate) async fn a_removed_journal_is_gone_and_refuses_its_old_owner(engine: Engine) {
    let (journals, session, other) = (&engine.journals, new_session(), new_session());
    let append = async |session, after| journals.append(session, after, Bytes::from("{}")).await;
    let first = append(&session, Sequence::START).await.unwrap();
    append(&other, Sequence::START).await.unwrap();
    let last = append(&session, first).await.unwrap();
    assert!(journals.list().await.unwrap().contains(&session));
    journals.remove(&session).await.unwrap();
    assert_eq!(journals.last(&session).await.unwrap(), None);
    assert_eq!(append(&session, last).await, Err(AppendError::Conflict));
    let listed = journals.list().await.unwrap();
    assert!(listed.contains(&other), "{listed:?}");
    assert!(journals.last(&other).await.unwrap().is_some());
}

/// A closed session whose journal names blobs, one of them within a value that is a blob itself.
async fn closed_session(engine: &Engine, files: &[&Digest]) -> SessionId {
    let session = new_session();
    let packed = json!({ "files": files }).to_string();
    let packed = engine.blobs.put(Bytes::from(packed)).await.unwrap();
    let record = json!({"cell": {"blobs": [packed]}, "secret": format!("text of {session}")});
    let record = Bytes::from(record.to_string());
    let appended = engine.journals.append(&session, Sequence::START, record);
    appended.await.unwrap();
    let event = Bytes::from(format!("event of {session}"));
    engine.events.publish(&session, event).await.unwrap();
    let closed = SessionEntry {
        state: SessionState::Closed,
        about: json!({"user": "u", "title": "a title"}),
        ..entry("n")
    };
    let claimed = engine.directory.claim(&session, None, &closed).await;
    claimed.unwrap();
    session
}

/// Sweeps until this was removed: lists may be behind by a moment.
async fn sweep_until(engine: &Engine, retention: Retention, expected: Swept) {
    let total = Mutex::new(Swept::default());
    let is_done = async || {
        let swept = sweep(engine, retention, 0).await.unwrap();
        let mut total = total.lock().unwrap();
        total.sessions += swept.sessions;
        total.runs += swept.runs;
        total.blobs += swept.blobs;
        total.young_blobs = swept.young_blobs;
        *total == expected
    };
    eventually(&format!("{expected:?} were removed"), is_done).await;
}

async fn put(engine: &Engine, text: &str) -> Digest {
    engine
        .blobs
        .put(Bytes::from(text.to_owned()))
        .await
        .unwrap()
}

pub(crate) async fn a_forgotten_session_leaves_nothing_and_others_keep_what_they_share(
    engine: Engine,
) {
    let (own, shared) = (put(&engine, "own").await, put(&engine, "shared").await);
    let session = closed_session(&engine, &[&own, &shared]).await;
    let other = closed_session(&engine, &[&shared]).await;
    // A run of the session, and one of the other.
    let queue = RunQueue::new(engine.clone(), tokio_runtime());
    let node = new_node();
    let mut runs = Vec::new();
    for session in [&session, &other] {
        let id = new_session();
        let ticket = RunTicket::default();
        queue
            .submit(&id, &node, &ticket, &json!("why?"))
            .await
            .unwrap();
        let run = queue.find(&id).await.unwrap().unwrap();
        let mut taken = queue.take_for_end(&run, &node).await.unwrap().unwrap();
        let end = json!({"run": {"session": session}});
        queue.finish(&id, &mut taken.journal, end).await.unwrap();
        runs.push(id);
    }
    assert!(forget(&engine, &session).await.unwrap());
    let entry = engine.directory.get(&session).await.unwrap().unwrap().entry;
    assert!(is_forgotten(&entry) && !entry.about.to_string().contains("title"));
    // What was put just now may be named by a record that is under way.
    let careful = Retention {
        young_blobs: HOUR,
        ..NOW
    };
    let deleted = Swept {
        sessions: 1,
        runs: 1,
        blobs: 0,
        young_blobs: 2,
    };
    sweep_until(&engine, careful, deleted).await;
    assert!(engine.blobs.get(&own).await.unwrap().is_some());
    let blobs = Swept {
        blobs: 2,
        ..Swept::default()
    };
    sweep_until(&engine, NOW, blobs).await;
    assert_eq!(engine.directory.get(&session).await.unwrap(), None);
    assert_eq!(engine.journals.last(&session).await.unwrap(), None);
    assert_eq!(engine.journals.last(&runs[0]).await.unwrap(), None);
    assert_eq!(engine.blobs.get(&own).await.unwrap(), None);
    // The other session has all that it had.
    assert!(engine.blobs.get(&shared).await.unwrap().is_some());
    assert!(engine.journals.last(&other).await.unwrap().is_some());
    assert!(engine.journals.last(&runs[1]).await.unwrap().is_some());
    assert!(engine.directory.get(&other).await.unwrap().is_some());
    assert_eq!(sweep(&engine, NOW, 0).await.unwrap(), Swept::default());
}

pub(crate) async fn closed_sessions_are_deleted_after_their_time(engine: Engine) {
    let session = closed_session(&engine, &[]).await;
    let live = new_session();
    let claimed = engine.directory.claim(&live, None, &entry("n")).await;
    claimed.unwrap();
    let hour = Retention {
        closed: Some(HOUR),
        ..NOW
    };
    let sessions = async |now| sweep(&engine, hour, now).await.unwrap().sessions;
    // The first look notes the time.
    assert_eq!(sessions(10_000).await, 0);
    let has_time = async || {
        let listed = engine.directory.list().await.unwrap();
        let mut listed = listed.iter().filter(|(id, _)| *id == session);
        listed.any(|(_, placed)| placed.entry.about["closed_at"] == 10_000)
    };
    eventually("the time is noted", has_time).await;
    assert_eq!(sessions(13_599).await, 0);
    eventually("it is deleted", async || sessions(13_600).await == 1).await;
    assert_eq!(engine.directory.get(&session).await.unwrap(), None);
    assert!(engine.directory.get(&live).await.unwrap().is_some());
}
