//! Crashes, full disks and broken files.

use crate::kept::{answered, events, question};
use cellblock_runs::{Life, RunError, Runs};
use proptest::prelude::*;
use serde_json::json;
use std::io::Write as _;

#[test]
fn a_run_whose_program_was_killed_is_resumed_where_it_stood() {
    let place = tempfile::tempdir().unwrap();
    let runs = Runs::new(place.path());
    let mut writer = runs.begin(question("2 + 2?")).unwrap();
    writer.event(&json!("one")).unwrap();
    let path = writer.path().to_owned();
    // What is left by a program that was killed in the middle of a line.
    drop(writer);
    let mut file = std::fs::File::options().append(true).open(&path).unwrap();
    file.write_all(b"{\"n\":2,\"at\":1.0,\"event\":\"hal")
        .unwrap();

    let found = runs.find("last").unwrap().read().unwrap();
    assert_eq!(
        (&found.life, events(&found)),
        (&Life::CutOff, vec![json!("one")])
    );
    assert_eq!(found.incomplete.unwrap(), "its last line was not finished");

    let (run, mut writer) = runs.resume("last").unwrap();
    assert_eq!(events(&run), [json!("one")]);
    writer.event(&json!("two")).unwrap();
    writer.end(answered("4")).unwrap();
    let whole = runs.find("last").unwrap().read().unwrap();
    assert_eq!(events(&whole), [json!("one"), json!("two")]);
    assert_eq!(
        (whole.life, whole.incomplete),
        (Life::Ended(answered("4")), None)
    );
}

#[test]
fn a_missing_line_is_noticed() {
    let place = tempfile::tempdir().unwrap();
    let runs = Runs::new(place.path());
    let mut writer = runs.begin(question("?")).unwrap();
    for number in 0..3 {
        writer.event(&number).unwrap();
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
    let run = runs.find("last").unwrap().read().unwrap();
    assert_eq!(
        (events(&run), run.incomplete.unwrap()),
        (vec![json!(0)], "line 2 is missing".into())
    );
}

#[test]
fn a_directory_that_cannot_be_written_is_told_with_its_path() {
    let runs = Runs::new("/proc/cellblock-runs");
    let error = runs.begin(question("?")).unwrap_err();
    assert!(matches!(&error, RunError::Unwritable { .. }), "{error}");
    assert!(
        error.to_string().starts_with("/proc/cellblock-runs/"),
        "{error}"
    );
}

#[test]
fn a_file_that_is_no_run_is_told() {
    let place = tempfile::tempdir().unwrap();
    let runs = Runs::new(place.path());
    for content in ["", "hello\n", "{}\n", "{\"n\":0,\"at\":1.0,\"event\":1}\n"] {
        std::fs::write(place.path().join("x.jsonl"), content).unwrap();
        let error = runs.find("x").unwrap().read().unwrap_err();
        assert!(matches!(error, RunError::NotARun { .. }), "{error}");
    }
}

proptest! {
    #[test]
    fn whatever_is_behind_the_last_whole_line_loses_no_event(junk: Vec<u8>) {
        let place = tempfile::tempdir().unwrap();
        let runs = Runs::new(place.path());
        let mut writer = runs.begin(question("?")).unwrap();
        writer.event(&json!("one")).unwrap();
        let path = writer.path().to_owned();
        drop(writer);
        std::fs::File::options().append(true).open(&path).unwrap().write_all(&junk).unwrap();
        let (run, writer) = runs.resume("last").unwrap();
        prop_assert_eq!(events(&run), vec![json!("one")]);
        writer.end(answered("4")).unwrap();
        let run = runs.find("last").unwrap().read().unwrap();
        prop_assert_eq!(run.life, Life::Ended(answered("4")));
    }
}
