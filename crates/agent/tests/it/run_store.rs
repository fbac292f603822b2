//! Runs in files: kept, listed, cut off, resumed.

use cellblock_agent::{
    ResumedRun, RunEnd, RunProgress, RunStart, RunStore, RunStoreError, StoredRun,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

fn question(text: &str) -> RunStart {
    RunStart {
        question: text.into(),
        model: "scripted".into(),
        options: json!({"format": "tools"}),
    }
}

fn answered(answer: &str) -> RunEnd {
    RunEnd {
        status: "answered".into(),
        answer: Some(answer.into()),
        outcome: json!({"steps": 2}),
    }
}

fn events(run: &StoredRun) -> Vec<Value> {
    run.events
        .iter()
        .map(|stored| stored.event.clone())
        .collect()
}

#[test]
fn a_run_is_kept_from_its_question_to_its_answer() {
    let place = tempfile::tempdir().unwrap();
    let store = RunStore::new(place.path().join("runs"));
    let mut writer = store.start_run(question("2 + 2?")).unwrap();
    let id = writer.id();
    let happened = [
        json!({"event": "thought", "text": "hm"}),
        json!({"event": "code", "code": "2 + 2"}),
    ];
    for event in &happened {
        writer.append_event(event).unwrap();
        writer.sync_in_background();
    }
    let going_on = store.read(&id).unwrap();
    assert_eq!(
        (going_on.progress, going_on.events.len()),
        (RunProgress::Running, 2)
    );
    writer.finish(answered("4")).unwrap();
    let run = store.read("last").unwrap();
    assert_eq!(run.start, question("2 + 2?"));
    assert_eq!(events(&run), happened);
    assert_eq!(run.progress, RunProgress::Ended(answered("4")));
    assert_eq!((run.id, run.incomplete), (id, None));
}

#[test]
fn only_its_owner_can_read_a_run() {
    let place = tempfile::tempdir().unwrap();
    let store = RunStore::new(place.path().join("runs"));
    let writer = store.start_run(question("?")).unwrap();
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(writer.path()), mode(writer.path().parent().unwrap())),
        (0o600, 0o700)
    );
}

#[test]
fn runs_are_listed_the_newest_first_and_found_by_a_part_of_their_id() {
    let place = tempfile::tempdir().unwrap();
    let store = RunStore::new(place.path());
    assert_eq!(store.list().unwrap(), []);
    let mut ids = Vec::new();
    for number in 0..3 {
        let writer = store.start_run(question(&number.to_string())).unwrap();
        ids.insert(0, writer.id());
        writer.finish(answered("")).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let listed: Vec<_> = store
        .list()
        .unwrap()
        .into_iter()
        .map(|run| run.id)
        .collect();
    assert_eq!(listed, ids);
    assert_eq!(store.find(&ids[1][..7]).unwrap().id, ids[1]);
    assert!(matches!(
        store.find("nothing-like-it"),
        Err(RunStoreError::NotFound { .. })
    ));
    assert!(matches!(
        store.find(""),
        Err(RunStoreError::NotFound { .. })
    ));
    std::fs::write(place.path().join("same1.jsonl"), "").unwrap();
    std::fs::write(place.path().join("same2.jsonl"), "").unwrap();
    let error = store.find("same").unwrap_err().to_string();
    assert!(
        error.starts_with("`same` is the beginning of several runs: same"),
        "{error}"
    );
}

#[test]
fn a_run_that_goes_on_is_neither_removed_nor_resumed() {
    let place = tempfile::tempdir().unwrap();
    let store = RunStore::new(place.path());
    let writer = store.start_run(question("?")).unwrap();
    assert!(matches!(
        store.remove("last"),
        Err(RunStoreError::Running { .. })
    ));
    assert!(matches!(
        store.resume("last"),
        Err(RunStoreError::Running { .. })
    ));
    writer.finish(answered("4")).unwrap();
    assert!(
        matches!(store.resume("last"), Err(RunStoreError::Ended { status, .. }) if status == "answered")
    );
    store.remove("last").unwrap();
    assert_eq!(store.list().unwrap(), []);
}

#[test]
fn a_run_whose_program_was_killed_is_resumed_where_it_stood() {
    let place = tempfile::tempdir().unwrap();
    let store = RunStore::new(place.path());
    let mut writer = store.start_run(question("2 + 2?")).unwrap();
    writer.append_event(&json!("one")).unwrap();
    let path = writer.path().to_owned();
    // What is left by a program that was killed in the middle of a line.
    drop(writer);
    let mut file = std::fs::File::options().append(true).open(&path).unwrap();
    file.write_all(b"{\"n\":2,\"at\":1.0,\"event\":\"hal")
        .unwrap();

    let found = store.read("last").unwrap();
    assert_eq!(
        (&found.progress, events(&found)),
        (&RunProgress::CutOff, vec![json!("one")])
    );
    assert_eq!(found.incomplete.unwrap(), "its last line was not finished");

    let ResumedRun { run, mut writer } = store.resume("last").unwrap();
    assert_eq!(events(&run), [json!("one")]);
    writer.append_event(&json!("two")).unwrap();
    writer.finish(answered("4")).unwrap();
    let whole = store.read("last").unwrap();
    assert_eq!(events(&whole), [json!("one"), json!("two")]);
    assert_eq!(
        (whole.progress, whole.incomplete),
        (RunProgress::Ended(answered("4")), None)
    );
}

#[test]
fn a_missing_line_is_noticed() {
    let place = tempfile::tempdir().unwrap();
    let store = RunStore::new(place.path());
    let mut writer = store.start_run(question("?")).unwrap();
    for number in 0..3 {
        writer.append_event(&number).unwrap();
    }
    let path = writer.path().to_owned();
    drop(writer);
    let text = std::fs::read_to_string(&path).unwrap();
    let without: Vec<_> = text
        .lines()
        .enumerate()
        .filter(|(n, _)| *n != 2)
        .map(|(_, line)| line)
        .collect();
    std::fs::write(&path, without.join("\n") + "\n").unwrap();
    let run = store.read("last").unwrap();
    assert_eq!(
        (events(&run), run.incomplete.unwrap()),
        (vec![json!(0)], "line 2 is missing".into())
    );
}

#[test]
fn a_directory_that_cannot_be_written_is_named_in_the_error() {
    let store = RunStore::new("/proc/cellblock-runs");
    let error = store.start_run(question("?")).unwrap_err();
    assert!(
        matches!(&error, RunStoreError::Unwritable { .. }),
        "{error}"
    );
    assert!(
        error.to_string().starts_with("/proc/cellblock-runs/"),
        "{error}"
    );
}

#[test]
fn a_file_that_is_no_run_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let store = RunStore::new(place.path());
    for content in ["", "hello\n", "{}\n", "{\"n\":0,\"at\":1.0,\"event\":1}\n"] {
        std::fs::write(place.path().join("x.jsonl"), content).unwrap();
        let error = store.read("x").unwrap_err();
        assert!(matches!(error, RunStoreError::NotARun { .. }), "{error}");
    }
}

proptest! {
    #[test]
    fn whatever_is_behind_the_last_whole_line_loses_no_event(junk: Vec<u8>) {
        let place = tempfile::tempdir().unwrap();
        let store = RunStore::new(place.path());
        let mut writer = store.start_run(question("?")).unwrap();
        writer.append_event(&json!("one")).unwrap();
        let path = writer.path().to_owned();
        drop(writer);
        std::fs::File::options().append(true).open(&path).unwrap().write_all(&junk).unwrap();
        let ResumedRun { run, writer } = store.resume("last").unwrap();
        prop_assert_eq!(events(&run), vec![json!("one")]);
        writer.finish(answered("4")).unwrap();
        let run = store.read("last").unwrap();
        prop_assert_eq!(run.progress, RunProgress::Ended(answered("4")));
    }
}
