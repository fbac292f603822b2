//! Record files through the public API.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on fails"
)]

use cellblock_records::{
    LinePosition, LineReader, LineWriter, NextLine, RecordDirectory, RecordError, RecordLine,
    Retention, RotatingFile, Rotation, new_id, rotated_files,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

fn read(path: &Path) -> (Vec<u64>, String) {
    let mut reader = LineReader::open(path, 1 << 16).unwrap();
    let mut values = Vec::new();
    loop {
        match reader.next_line().unwrap() {
            NextLine::Whole { value, .. } => values.push(value),
            other => return (values, format!("{other:?}")),
        }
    }
}

#[test]
fn a_new_file_is_locked_and_for_its_owner_alone() {
    let place = tempfile::tempdir().unwrap();
    let directory = RecordDirectory::new(place.path().join("records"));
    assert_eq!(directory.list().unwrap(), []);
    let writer = LineWriter::create(&directory.file_path("a")).unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(writer.path()), mode(directory.path())),
        (0o600, 0o700)
    );
    let file = directory.find("last").unwrap();
    assert!(file.is_locked());
    assert!(matches!(file.remove(), Err(RecordError::Locked { id }) if id == "a"));
    let second = LineWriter::open_existing(&file.path);
    assert!(matches!(second, Err(RecordError::Locked { .. })));
    drop(writer);
    assert!(!file.is_locked());
    file.remove().unwrap();
    assert_eq!(directory.list().unwrap(), []);
}

#[test]
fn a_line_that_does_not_fit_leaves_nothing_behind() {
    let place = tempfile::tempdir().unwrap();
    // A device that is always full.
    let full = place.path().join("full.jsonl");
    symlink("/dev/full", &full).unwrap();
    let mut writer = LineWriter::open_existing(&full).unwrap();
    let error = writer.append(&1).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(writer.end(), LinePosition::default());
}

#[test]
fn a_copy_begins_with_the_lines_of_the_original_and_goes_on_by_itself() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    let mut first = LineWriter::create(&path("a.jsonl")).unwrap();
    first
        .append_record(1.0, BTreeMap::from([("x", 1)]))
        .unwrap();
    let mut second = first.copy_to(&path("b.jsonl")).unwrap();
    first.append(&2).unwrap();
    second.append(&3).unwrap();
    let text = |name: &str| std::fs::read_to_string(path(name)).unwrap();
    assert_eq!(text("a.jsonl"), "{\"n\":0,\"at\":1.0,\"x\":1}\n2\n");
    assert_eq!(text("b.jsonl"), "{\"n\":0,\"at\":1.0,\"x\":1}\n3\n");
    assert!(matches!(
        LineReader::open(&path("a.jsonl"), 1 << 10)
            .unwrap()
            .next_line::<RecordLine<BTreeMap<String, u32>>>()
            .unwrap(),
        NextLine::Whole { value, bytes: 23 } if value.n == 0 && value.record["x"] == 1
    ));
}

#[test]
fn a_file_is_found_by_a_part_of_its_id_and_links_are_not_listed() {
    let place = tempfile::tempdir().unwrap();
    let directory = RecordDirectory::new(place.path());
    for id in ["same1", "same2", "other"] {
        File::create(directory.file_path(id)).unwrap();
    }
    symlink("/etc/passwd", directory.file_path("link")).unwrap();
    assert_eq!(directory.list().unwrap().len(), 3);
    assert_eq!(directory.find("oth").unwrap().id, "other");
    assert_eq!(directory.find("same1").unwrap().id, "same1");
    assert!(matches!(
        directory.find("same"),
        Err(RecordError::Ambiguous { found, .. }) if found.len() == 2
    ));
    assert!(matches!(
        directory.find(""),
        Err(RecordError::NotFound { .. })
    ));
    assert_ne!(new_id(), new_id());
}

#[test]
fn the_oldest_files_make_room_for_a_new_one() {
    let place = tempfile::tempdir().unwrap();
    let directory = RecordDirectory::new(place.path());
    for age in 0..5 {
        let mut file = File::create(directory.file_path(&format!("old{age}"))).unwrap();
        file.write_all(b"12345\n").unwrap();
        let age = std::time::Duration::from_secs(10 * age);
        file.set_modified(std::time::SystemTime::now() - age)
            .unwrap();
    }
    let ids = || -> Vec<String> {
        let files = directory.list().unwrap();
        files.into_iter().map(|file| file.id).collect()
    };
    let retention = Retention {
        max_files: 4,
        max_bytes: 1_000,
    };
    directory.make_room(retention);
    assert_eq!(ids(), ["old0", "old1", "old2"]);
    directory.make_room(Retention {
        max_bytes: 13,
        ..retention
    });
    assert_eq!(ids(), ["old0", "old1"]);
}

#[test]
fn a_line_that_is_too_long_is_not_read() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a.jsonl");
    std::fs::write(&path, format!("1\n{}\n", "2".repeat(1 << 17))).unwrap();
    assert_eq!(read(&path), (vec![1], "Unfinished".to_owned()));
}

#[test]
fn a_log_is_renamed_when_it_is_long_enough_and_a_second_program_follows() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("log.jsonl");
    let rotation = Rotation {
        max_bytes: 10,
        max_old_files: 2,
    };
    let mut file = RotatingFile::open(&path, rotation).unwrap();
    let mut other = RotatingFile::open(&path, rotation).unwrap();
    for line in ["one___\n", "two___\n", "three_\n"] {
        file.append(line.as_bytes()).unwrap();
    }
    other.append(b"four__\n").unwrap();
    let texts: Vec<String> = rotated_files(&path)
        .iter()
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    // The second program still had the oldest file open: it goes on in the current one.
    assert_eq!(texts, ["one___\n", "two___\n", "three_\nfour__\n"]);
}

proptest! {
    #[test]
    fn whatever_is_behind_the_last_whole_line_is_cut_back(junk: Vec<u8>) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.jsonl");
        let mut writer = LineWriter::create(&path).unwrap();
        writer.append(&1).unwrap();
        let end = writer.end();
        drop(writer);
        File::options().append(true).open(&path).unwrap().write_all(&junk).unwrap();
        let mut writer = LineWriter::open_existing(&path).unwrap();
        writer.cut_back_to(end).unwrap();
        writer.append(&2).unwrap();
        prop_assert_eq!(read(&path), (vec![1, 2], "End".to_owned()));
    }
}
