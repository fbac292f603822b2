use super::*;
use crate::journal::samples::{begun, ended, kept, opened, text};
use crate::journal::{CellFate, JournalStep, RecordedCall};
use proptest::prelude::*;
use serde_json::{Map, json};
use std::sync::Arc;

fn read(text: &[u8]) -> Result<Journal, JournalError> {
    let (lines, broken) = read_lines(text).unwrap();
    Journal::from_lines(Path::new("/j/abc.jsonl"), lines, broken, false)
}

fn journal(records: Vec<JournalRecord>) -> Journal {
    read(&text([vec![opened()], records].concat())).unwrap()
}

fn fates(journal: &Journal) -> Vec<(u64, CellFate)> {
    let summary = journal.summary();
    let fates = summary.cells.iter().map(|cell| (cell.number, cell.fate));
    fates.collect()
}

fn steps(journal: &Journal) -> Vec<String> {
    let summary = journal.summary();
    let word = |step: JournalStep<'_>| match step {
        JournalStep::Cell(cell) => format!("cell {}", cell.number),
        JournalStep::Seed(_) => "seed".to_owned(),
        JournalStep::Tools(_) => "tools".to_owned(),
        JournalStep::Reset => "reset".to_owned(),
        JournalStep::PutFile(path, ..) => format!("put {path}"),
    };
    summary.steps().map(word).collect()
}

fn seeded() -> JournalRecord {
    JournalRecord::Seeded {
        variables: Map::from_iter([("n".to_owned(), json!(3))]),
    }
}

fn put(path: &str) -> JournalRecord {
    JournalRecord::PutFile {
        path: path.to_owned(),
        bytes: 2,
        contents: Some(Arc::new(vec![0, 255])),
    }
}

#[test]
fn what_was_written_is_read() {
    let mut call = ended(2, "success", "kept", 2);
    if let JournalRecord::Ended(ended) = &mut call {
        ended.calls.push(RecordedCall {
            name: "lookup".to_owned(),
            arguments: Map::from_iter([("q".to_owned(), json!("x"))]).into(),
            time: std::time::Duration::from_micros(500),
            outcome: CallOutcome::Result(json!(null)),
        });
    }
    let closed = JournalRecord::Closed {
        reason: "it was closed".to_owned(),
    };
    let records = [&kept(1)[..], &[put("a"), seeded(), begun(2), call, closed]].concat();
    let journal = journal(records.clone());
    assert_eq!(
        (
            &journal.id[..],
            &journal.session[..],
            &journal.fate,
            &journal.incomplete
        ),
        (
            "abc",
            "default",
            &SessionFate::Ended("it was closed".to_owned()),
            &None
        )
    );
    let mut read: Vec<JournalRecord> = journal
        .lines
        .iter()
        .map(|line| line.record.clone())
        .collect();
    if let JournalRecord::Ended(ended) = &mut read[5] {
        let calls = std::mem::take(&mut ended.result.tool_calls);
        assert_eq!(calls[0].name, "lookup");
        let json = serde_json::to_string(&ended.calls[0]).unwrap();
        let expected =
            r#"{"name":"lookup","arguments":{"q":"x"},"ms":0.5,"outcome":{"result":null}}"#;
        assert_eq!(json, expected);
    }
    assert_eq!(read, records);
}

#[test]
fn a_journal_that_is_cut_is_read_up_to_there_and_says_so() {
    let whole = text([&[opened()][..], &kept(1), &kept(2)].concat());
    for length in 0..whole.len() {
        let lines = whole[..length]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        let is_cut = length > 0 && whole[length - 1] != b'\n';
        match read(&whole[..length]) {
            Ok(journal) => {
                assert_eq!(journal.lines.len() + 1, lines);
                let expected = format!("it is cut off in the middle of line {}", lines + 1);
                assert_eq!(journal.incomplete, is_cut.then_some(expected));
            }
            Err(error) => assert!(lines == 0, "{error}"),
        }
    }
}

#[test]
fn a_line_that_is_missing_or_broken_is_noticed() {
    let whole = text([&[opened()][..], &kept(1), &kept(2)].concat());
    let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    let missing = read(&[lines[0], lines[1], lines[3], lines[4]].concat()).unwrap();
    assert_eq!(
        missing.incomplete.as_deref(),
        Some("line 3 is missing: number 4 is there")
    );
    let zeros = vec![0; lines[2].len() - 1];
    let broken = read(&[lines[0], lines[1], &zeros, b"\n", lines[3]].concat()).unwrap();
    let problem = broken.incomplete.unwrap();
    assert!(problem.starts_with("line 3 cannot be read: "), "{problem}");
    assert_eq!(broken.lines.len(), 1);
}

#[test]
fn a_cell_that_ran_when_the_host_died_is_begun_and_not_ended() {
    let journal = journal([&kept(1)[..], &[begun(2)]].concat());
    assert_eq!(journal.fate, SessionFate::Died);
    assert_eq!(
        fates(&journal),
        [(1, CellFate::Kept), (2, CellFate::Unfinished)]
    );
    assert_eq!(steps(&journal), ["cell 1"]);
}

#[test]
fn undo_takes_back_cells_and_what_came_after_them_but_no_file_of_the_host() {
    let undone = JournalRecord::Undone {
        count: 1,
        stands: 1,
    };
    let between = [
        &kept(1)[..],
        &[seeded()],
        &kept(2),
        &[put("a"), JournalRecord::Reset],
    ]
    .concat();
    let journal = journal([&between[..], &[undone], &kept(3)].concat());
    assert_eq!(
        fates(&journal),
        [
            (1, CellFate::Kept),
            (2, CellFate::Undone),
            (3, CellFate::Kept)
        ]
    );
    assert_eq!(steps(&journal), ["cell 1", "seed", "put a", "cell 3"]);
}

#[test]
fn a_crash_takes_back_what_its_checkpoint_was_behind() {
    let crash = [begun(3), ended(3, "crashed", "restored", 1)];
    let journal = journal([&kept(1)[..], &kept(2), &crash].concat());
    assert_eq!(
        fates(&journal),
        [
            (1, CellFate::Kept),
            (2, CellFate::Lost),
            (3, CellFate::NeverHappened)
        ]
    );
}

#[test]
fn an_interrupted_cell_is_no_step() {
    let stopped = [begun(1), ended(1, "interrupted", "kept", 1)];
    let journal = journal([&stopped[..], &kept(2)].concat());
    assert_eq!(
        fates(&journal),
        [(1, CellFate::Interrupted), (2, CellFate::Kept)]
    );
    assert_eq!(steps(&journal), ["cell 2"]);
}

#[test]
fn something_else_is_no_journal() {
    let first = |text: &[u8]| read(text).unwrap_err().to_string();
    assert_eq!(first(b""), "/j/abc.jsonl is not a journal: it is empty");
    let no_beginning = text([begun(1)]);
    assert_eq!(
        first(&no_beginning),
        "/j/abc.jsonl is not a journal: its first line does not open a session"
    );
    let newer = String::from_utf8(text([opened()])).unwrap();
    let newer = newer.replace("\"version\":1", "\"version\":2");
    assert_eq!(
        first(newer.as_bytes()),
        "/j/abc.jsonl has version 2 of the form of journals; this Cellblock knows 1"
    );
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(journal) = read(&bytes) {
            journal.summary().steps().count();
        }
    }

    #[test]
    fn no_damage_makes_the_reader_panic(
        spots in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let undone = JournalRecord::Undone { count: 1, stands: 0 };
        let mut bytes = text([&[opened()][..], &kept(1), &[put("a"), seeded(), undone], &kept(2)].concat());
        for (at, byte) in spots {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        if let Ok(journal) = read(&bytes) {
            journal.summary().steps().count();
        }
    }
}
