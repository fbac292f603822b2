//! Journals on disk: created late, locked, cut back when the disk is full, forked.

use super::*;
use crate::journal::samples::{begun, kept, opened};
use crate::journal::{Journal, MAX_JOURNALS, SessionFate};
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::Duration;

fn closed() -> JournalRecord {
    JournalRecord::Closed {
        reason: "it was closed".to_owned(),
    }
}

#[test]
fn a_session_in_which_nothing_happened_leaves_no_journal() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("journals/a.jsonl");
    JournalWriter::new(path.clone(), 0.0, opened()).close(1.0, closed());
    assert!(!path.exists());
}

#[test]
fn a_journal_is_for_its_owner_and_locked_while_it_is_written() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("journals/a.jsonl");
    let mut writer = JournalWriter::new(path.clone(), 0.0, opened());
    writer.write(1.0, begun(1)).unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    assert_eq!(Journal::read(&path).unwrap().fate, SessionFate::Alive);
    writer.close(2.0, closed());
    let journal = Journal::read(&path).unwrap();
    assert_eq!(journal.fate, SessionFate::Ended("it was closed".to_owned()));
    assert_eq!((journal.opened_at, journal.lines[0].at), (0.0, 1.0));
}

#[test]
fn a_full_disk_is_reported_once_and_leaves_no_half_line() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a.jsonl");
    let mut writer = JournalWriter::new(path.clone(), 0.0, opened());
    writer.write(1.0, begun(1)).unwrap();
    // A device that is always full takes the place of the file.
    let full = place.path().join("full.jsonl");
    symlink("/dev/full", &full).unwrap();
    let good = writer
        .lines
        .replace(LineWriter::open_existing(&full).unwrap());
    let reason = writer.write(2.0, begun(2)).unwrap_err();
    assert!(reason.contains("No space left on device"), "{reason}");
    assert_eq!(writer.write(3.0, begun(3)), Ok(()));
    // There is room again when the session ends.
    writer.lines = good;
    writer.close(4.0, closed());
    let journal = Journal::read(&path).unwrap();
    let told = journal.incomplete.unwrap();
    assert!(
        told.starts_with("it was not written to the end: "),
        "{told}"
    );
    assert_eq!(
        (journal.lines.len(), journal.fate),
        (3, SessionFate::Ended("it was closed".to_owned()))
    );
}

#[test]
fn a_fork_begins_with_what_happened_before_and_goes_its_own_way() {
    let place = tempfile::tempdir().unwrap();
    let paths = ["a.jsonl", "b.jsonl"].map(|name| place.path().join(name));
    let mut first = JournalWriter::new(paths[0].clone(), 0.0, opened());
    for record in kept(1) {
        first.write(1.0, record).unwrap();
    }
    let mut second = first.fork(paths[1].clone()).unwrap();
    let forked = JournalRecord::Forked {
        session: "copy".to_owned(),
        from: "default".to_owned(),
        cell: 1,
        workspace: PathBuf::from("/w2"),
    };
    second.write(2.0, forked).unwrap();
    for (at, record) in kept(2).into_iter().enumerate() {
        second.write(3.0 + at as f64, record).unwrap();
    }
    first.close(4.0, closed());
    second.close(5.0, closed());
    let [first, second] = paths.map(|path| Journal::read(&path).unwrap());
    let kept = |journal: &Journal| -> Vec<u64> {
        journal.summary().kept().map(|cell| cell.number).collect()
    };
    assert_eq!((kept(&first), kept(&second)), (vec![1], vec![1, 2]));
    assert_eq!(
        (&second.session[..], &second.workspace),
        ("copy", &PathBuf::from("/w2"))
    );
    assert_eq!((first.incomplete, second.incomplete), (None, None));
}

#[test]
fn the_oldest_make_room_for_a_new_one() {
    let place = tempfile::tempdir().unwrap();
    let old = |index: usize| place.path().join(format!("old{index}.jsonl"));
    for index in 0..MAX_JOURNALS + 5 {
        let file = File::create(old(index)).unwrap();
        let age = Duration::from_secs(1000 - index as u64);
        file.set_modified(std::time::SystemTime::now() - age)
            .unwrap();
    }
    let lives = File::open(old(0)).unwrap();
    flock(&lives, FlockOperation::LockExclusive).unwrap();
    symlink("/etc/passwd", place.path().join("link.jsonl")).unwrap();
    let mut writer = JournalWriter::new(place.path().join("new.jsonl"), 0.0, opened());
    writer.write(1.0, begun(1)).unwrap();
    let there: Vec<usize> = (0..MAX_JOURNALS + 5)
        .filter(|index| old(*index).exists())
        .collect();
    // The one that lives, and as many of the newest as there is room for beside the new one.
    assert_eq!(there.len(), MAX_JOURNALS);
    assert_eq!(there[..2], [0, 6]);
}
