//! The embedded engine in files: what outlives its process.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use cellblock_cluster::engine::{Engine, EngineError, Sequence, SessionEntry, SessionState};
use cellblock_cluster::{NodeId, Runtime, SessionId, TokioRuntime, embedded};
use cellblock_test_support::{MINUTE, wait};
use std::fs;
use std::path::Path;
use std::sync::Arc;

fn open(directory: &Path) -> Result<Engine, EngineError> {
    let runtime: Arc<dyn Runtime> = Arc::new(TokioRuntime::new());
    embedded::open(directory, &runtime, MINUTE)
}

fn session() -> SessionId {
    run("s")
}

fn run(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

#[test]
fn sessions_runs_and_blobs_are_there_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let entry = SessionEntry {
        node: NodeId::new("n").unwrap(),
        state: SessionState::Live,
        about: serde_json::Value::Null,
    };
    wait(async {
        let engine = open(directory.path()).unwrap();
        let epoch = engine
            .directory
            .claim(&session(), None, &entry)
            .await
            .unwrap();
        let journals = &engine.journals;
        let last = journals
            .append(&session(), Sequence::START, "\"a\"".into())
            .await
            .unwrap();
        let (ended, waits) = (run("ended"), run("waits"));
        let first = engine.runs.claim(&ended, None, &entry).await.unwrap();
        engine.runs.remove(&ended).await.unwrap();
        engine.runs.claim(&waits, None, &entry).await.unwrap();
        let digest = engine.blobs.put("blob".into()).await.unwrap();
        drop(engine);

        let engine = open(directory.path()).unwrap();
        let placed = engine.directory.get(&session()).await.unwrap().unwrap();
        assert_eq!((placed.epoch, &placed.entry), (epoch, &entry));
        let next = engine
            .directory
            .claim(&session(), Some(epoch), &entry)
            .await
            .unwrap();
        assert!(next > epoch, "an epoch is never given twice");
        let stored = engine.journals.last(&session()).await.unwrap().unwrap();
        assert_eq!((stored.sequence, stored.record), (last, "\"a\"".into()));
        let runs = engine.runs.list().await.unwrap();
        let ids: Vec<_> = runs.iter().map(|(id, _)| id.clone()).collect();
        assert_eq!(ids, [waits]);
        let again = engine.runs.claim(&ended, None, &entry).await.unwrap();
        assert!(again > first, "an epoch is never given twice");
        assert_eq!(engine.blobs.get(&digest).await.unwrap().unwrap(), "blob");
    });
}

#[test]
fn a_line_that_was_not_finished_is_cut_off() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journals/s.jsonl");
    wait(async {
        let engine = open(directory.path()).unwrap();
        let journals = &engine.journals;
        let first = journals
            .append(&session(), Sequence::START, "1".into())
            .await
            .unwrap();
        drop(engine);
        let mut torn = fs::read(&path).unwrap();
        torn.extend(b"\"2");
        fs::write(&path, torn).unwrap();

        let engine = open(directory.path()).unwrap();
        let last = engine.journals.last(&session()).await.unwrap().unwrap();
        assert_eq!((last.sequence, last.record), (first, "1".into()));
        let second = engine
            .journals
            .append(&session(), first, "3".into())
            .await
            .unwrap();
        let read = engine.journals.read(&session(), second).await.unwrap();
        let records: Vec<_> = read.into_iter().map(|stored| stored.record).collect();
        assert_eq!(records, ["1", "3"]);
    });
}

#[test]
fn a_second_process_cannot_open_the_same_directory() {
    let directory = tempfile::tempdir().unwrap();
    let _first = open(directory.path()).unwrap();
    assert!(open(directory.path()).is_err());
}

#[test]
fn a_blob_that_was_changed_is_not_returned() {
    let directory = tempfile::tempdir().unwrap();
    wait(async {
        let engine = open(directory.path()).unwrap();
        let digest = engine.blobs.put("blob".into()).await.unwrap();
        let path = directory.path().join("blobs").join(digest.as_str());
        fs::write(path, "flob").unwrap();
        let error = engine.blobs.get(&digest).await.unwrap_err().to_string();
        assert!(error.ends_with("was changed"), "{error}");
    });
}
