//! Runs that go as they should.

use cellblock_runs::{Beginning, Ending, Life, RunError, Runs};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;

pub(crate) fn question(text: &str) -> Beginning {
    Beginning {
        question: text.into(),
        model: "scripted".into(),
        options: json!({"format": "tools"}),
    }
}

pub(crate) fn answered(answer: &str) -> Ending {
    Ending {
        status: "answered".into(),
        answer: Some(answer.into()),
        outcome: json!({"steps": 2}),
    }
}

pub(crate) fn events(run: &cellblock_runs::Run) -> Vec<Value> {
    run.events.iter().map(|kept| kept.event.clone()).collect()
}

#[test]
fn a_run_is_kept_from_its_question_to_its_answer() {
    let place = tempfile::tempdir().unwrap();
    let runs = Runs::new(place.path().join("runs"));
    let mut writer = runs.begin(question("2 + 2?")).unwrap();
    let id = writer.id();
    let happened = [
        json!({"event": "thought", "text": "hm"}),
        json!({"event": "code", "code": "2 + 2"}),
    ];
    for event in &happened {
        writer.event(event).unwrap();
        writer.step();
    }
    let going_on = runs.find(&id).unwrap().read().unwrap();
    assert_eq!((going_on.life, going_on.events.len()), (Life::Alive, 2));
    writer.end(answered("4")).unwrap();
    let run = runs.find("last").unwrap().read().unwrap();
    assert_eq!(run.begun, question("2 + 2?"));
    assert_eq!(events(&run), happened);
    assert_eq!(run.life, Life::Ended(answered("4")));
    assert_eq!((run.id, run.incomplete), (id, None));
}

#[test]
fn only_its_owner_can_read_it() {
    let place = tempfile::tempdir().unwrap();
    let runs = Runs::new(place.path().join("runs"));
    let writer = runs.begin(question("?")).unwrap();
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(writer.path()), mode(writer.path().parent().unwrap())),
        (0o600, 0o700)
    );
}

#[test]
fn runs_are_listed_the_newest_first_and_found_by_a_part_of_their_id() {
    let place = tempfile::tempdir().unwrap();
    let runs = Runs::new(place.path());
    assert_eq!(runs.list().unwrap(), []);
    let mut ids = Vec::new();
    for number in 0..3 {
        let writer = runs.begin(question(&number.to_string())).unwrap();
        ids.insert(0, writer.id());
        writer.end(answered("")).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let listed: Vec<_> = runs.list().unwrap().into_iter().map(|run| run.id).collect();
    assert_eq!(listed, ids);
    assert_eq!(runs.find(&ids[1][..7]).unwrap().id, ids[1]);
    assert!(matches!(
        runs.find("nothing-like-it"),
        Err(RunError::NotFound { .. })
    ));
    assert!(matches!(runs.find(""), Err(RunError::NotFound { .. })));
    std::fs::write(place.path().join("same1.jsonl"), "").unwrap();
    std::fs::write(place.path().join("same2.jsonl"), "").unwrap();
    let error = runs.find("same").unwrap_err().to_string();
    assert!(
        error.starts_with("`same` is the beginning of several runs: same"),
        "{error}"
    );
}

#[test]
fn a_run_that_goes_on_is_neither_removed_nor_resumed() {
    let place = tempfile::tempdir().unwrap();
    let runs = Runs::new(place.path());
    let writer = runs.begin(question("?")).unwrap();
    let run = runs.find("last").unwrap();
    assert!(matches!(run.remove(), Err(RunError::Alive { .. })));
    assert!(matches!(runs.resume("last"), Err(RunError::Alive { .. })));
    writer.end(answered("4")).unwrap();
    assert!(
        matches!(runs.resume("last"), Err(RunError::Ended { status, .. }) if status == "answered")
    );
    run.remove().unwrap();
    assert_eq!(runs.list().unwrap(), []);
}
