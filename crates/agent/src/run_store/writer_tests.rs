//! Disks that are full and files that are too long.

use super::*;
use crate::RunStore;
use cellblock_records::LinePosition;
use serde_json::json;

#[test]
fn a_full_disk_is_reported_once_and_the_record_stays_whole() {
    let place = tempfile::tempdir().unwrap();
    let store = RunStore::new(place.path());
    let mut writer = store.start_run(RunStart::default()).unwrap();
    writer.append_event(&json!("one")).unwrap();
    // A device that is always full takes the place of the file.
    let full = place.path().join("full.jsonl");
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    let full = LineWriter::open_existing(&full).unwrap();
    let good = std::mem::replace(&mut writer.lines, full);
    let error = writer.append_event(&json!("two")).unwrap_err().to_string();
    assert!(
        error.ends_with("cannot be written: No space left on device (os error 28)"),
        "{error}"
    );
    writer.append_event(&json!("three")).unwrap();
    // There is room again for the end.
    writer.lines = good;
    let end = RunEnd {
        status: "answered".into(),
        ..RunEnd::default()
    };
    writer.finish(end.clone()).unwrap();
    let run = store.read("last").unwrap();
    assert_eq!(
        (run.events.len(), run.progress),
        (1, RunProgress::Ended(end))
    );
    let reason = run.incomplete.unwrap();
    assert!(
        reason.starts_with("it was not written to the end: "),
        "{reason}"
    );
}

#[test]
fn a_record_that_grows_too_long_is_not_continued() {
    let place = tempfile::tempdir().unwrap();
    let mut writer = RunStore::new(place.path())
        .start_run(RunStart::default())
        .unwrap();
    // A sparse file: as long as it may be, and takes no room on the disk.
    let end = LinePosition {
        bytes: MAX_RUN_BYTES,
        lines: 1,
    };
    writer.lines.cut_back_to(end).unwrap();
    let error = writer.append_event(&json!("one")).unwrap_err();
    assert!(
        matches!(error, RunStoreError::Full { max_megabytes: 256 }),
        "{error}"
    );
}
