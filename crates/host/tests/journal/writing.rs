//! What is written, and when.

use crate::scene::Scene;
use crate::support::{builder, eventually, is_root, open, wait};
use cellblock_host::journal::{CellFate, Journal, JournalRecord, SessionFate};
use cellblock_protocol::Cell;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

fn kinds(journal: &Journal) -> Vec<String> {
    let kind = |record: &JournalRecord| {
        let value = serde_json::to_value(record).unwrap();
        value["record"].as_str().unwrap().to_owned()
    };
    journal
        .lines
        .iter()
        .map(|line| kind(&line.record))
        .collect()
}

fn fates(journal: &Journal) -> Vec<(u64, CellFate)> {
    let summary = journal.summary();
    summary
        .cells
        .iter()
        .map(|cell| (cell.number, cell.fate))
        .collect()
}

#[test]
fn everything_that_happens_is_a_line() {
    let scene = Scene::new();
    let session = scene.session();
    session.good("x = 1");
    wait(session.seed([("n".to_owned(), 3.into())].into_iter().collect())).unwrap();
    wait(session.put_file("a/b.txt", b"hello".to_vec())).unwrap();
    session.good("y = n");
    wait(session.undo(1)).unwrap();
    wait(session.reset()).unwrap();
    wait(session.set_tools(Vec::new())).unwrap();
    let journal = scene.close(session);
    assert_eq!(
        kinds(&journal),
        [
            "begun", "ended", "seeded", "put_file", "begun", "ended", "undone", "reset", "tools",
            "closed"
        ]
    );
    assert_eq!(
        fates(&journal),
        [(1, CellFate::Kept), (2, CellFate::Undone)]
    );
    assert_eq!(journal.fate, SessionFate::Ended("it was closed".to_owned()));
}

#[test]
fn a_cell_is_there_while_it_runs_and_the_session_is_alive() {
    let scene = Scene::new();
    let session = scene.session();
    session.good("x = 1");
    let mut running = session.start("print('on', flush=True)\nimport time\ntime.sleep(600)");
    running.until("on");
    let read = || scene.journals().find("last").unwrap().read().unwrap();
    eventually("the cell is in the journal", || fates(&read()).len() == 2);
    let journal = read();
    assert_eq!(journal.fate, SessionFate::Alive);
    assert_eq!(
        fates(&journal),
        [(1, CellFate::Kept), (2, CellFate::Unfinished)]
    );
    let file = scene.journals().find("last").unwrap();
    assert!(file.remove().unwrap_err().to_string().contains("is alive"));
    session.interrupt();
    running.result();
    assert_eq!(
        fates(&scene.close(session)),
        [(1, CellFate::Kept), (2, CellFate::Interrupted)]
    );
    file.remove().unwrap();
    assert_eq!(scene.journals().list().unwrap(), []);
}

#[test]
fn crashes_and_time_outs_are_told_and_left_no_state() {
    let scene = Scene::new();
    let session = scene.session();
    session.good("x = 1");
    session.run("import os; os.kill(os.getpid(), 11)");
    session.run(Cell::new("while True: pass").timeout(Duration::from_millis(300)));
    session.run(Cell::new("x = 2; 1/0").atomic(true));
    session.run("y = 2; 1/0");
    let never = CellFate::NeverHappened;
    assert_eq!(
        fates(&scene.close(session)),
        [
            (1, CellFate::Kept),
            (2, never),
            (3, never),
            (4, never),
            (5, CellFate::Kept)
        ]
    );
}

#[test]
fn no_journal_is_kept_unless_asked_for_and_none_of_a_session_without_cells() {
    let scene = Scene::new();
    let session = open(builder());
    assert_eq!(session.journal(), None);
    session.good("1 + 1");
    let idle = scene.session();
    let journal = idle.journal().unwrap();
    assert_eq!((journal.id.len(), journal.stopped), (8, None));
    assert!(journal.path.starts_with(scene.path()));
    wait(idle.close());
    let refused = wait(builder().journal(scene.path()).setup("1/0").start());
    assert!(refused.is_err());
    assert_eq!(scene.journals().list().unwrap(), []);
}

#[test]
fn a_host_can_keep_one_of_each_session() {
    let place = tempfile::tempdir().unwrap();
    let dirs = cellblock_env::Dirs {
        state: place.path().join("state"),
        ..cellblock_env::Dirs::from_process().unwrap()
    };
    let host = cellblock_host::Host::builder()
        .python(cellblock_host::PythonChoice::StandardLibrary)
        .dirs(dirs)
        .journal(true)
        .build()
        .unwrap();
    let told_not_to = host.session().journal(false);
    let session = wait(host.session().start()).unwrap();
    let silent = wait(told_not_to.start()).unwrap();
    wait(session.run("1")).unwrap();
    wait(silent.run("1")).unwrap();
    wait(session.close());
    let directory = place.path().join("state/journals");
    assert_eq!(host.journals().directory(), directory);
    assert_eq!(host.journals().list().unwrap().len(), 1);
    let mode = directory.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o700);
}

#[test]
fn long_output_is_cut_and_that_is_told() {
    let scene = Scene::new();
    let journal = scene.cells(&["print('ü' * 400_000)"]);
    let summary = journal.summary();
    let ended = summary.cells[0].ended.as_ref().unwrap();
    assert_eq!(ended.result.stdout.len(), 256 << 10);
    let cut = ended.result.truncated.as_ref().unwrap().stdout.unwrap();
    assert_eq!((cut.kept, cut.left_out), (262_144, 800_001 - 262_144));
    assert_eq!(
        ended.left_out[0],
        format!("{} bytes of stdout", 800_001 - 262_144)
    );
}

#[test]
fn a_directory_that_cannot_be_written_costs_the_journal_and_not_the_session() {
    if is_root() {
        return; // Root writes everywhere; `disk` has a test for root.
    }
    let scene = Scene::new();
    let closed = scene.path().join("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o500)).unwrap();
    let session = open(builder().journal(closed.join("journals")));
    assert_eq!(session.value("6 * 7"), "42");
    eventually("the journal stopped", || {
        session
            .journal()
            .is_some_and(|journal| journal.stopped.is_some())
    });
    assert_eq!(session.value("6 * 7"), "42");
}
