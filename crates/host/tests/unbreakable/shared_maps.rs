//! Writes through a shared map of a file raise no event, and change no time of the file after the first.

use crate::support::{builder, is_root, open, session, wait};
use cellblock_protocol::{Isolation, Rung};
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

const DIE: &str = "import os; os.kill(os.getpid(), 9)";
const MAP: &str = "import mmap\nfile = open('f', 'wb+'); file.write(b'A' * 4096); file.flush()\nmap = mmap.mmap(file.fileno(), 4096); map[0:6] = b'cell-1'";

/// Started by root, a session on the rung `landlock` runs as a user who may not read the Python of these tests.
fn rungs() -> Vec<Rung> {
    let landlock = (!is_root()).then_some(Rung::Landlock);
    [Rung::Full].into_iter().chain(landlock).collect()
}

fn beginning(workspace: &Path, name: &str) -> String {
    let contents = fs::read(workspace.join(name)).unwrap();
    String::from_utf8_lossy(&contents[..6]).into_owned()
}

/// What the kernel writes to disk in between would make the next write show.
fn pause() {
    sleep(Duration::from_millis(100));
}

#[test]
fn a_write_through_a_map_of_an_earlier_cell_is_taken_back_by_undo() {
    for rung in rungs() {
        let session = open(builder().isolation(Isolation::on(rung)));
        session.good(MAP);
        pause();
        session.good("map[0:6] = b'cell-2'");
        pause();
        session.good("map[0:6] = b'cell-3'");
        pause();
        for expected in ["cell-2", "cell-1"] {
            let undone = wait(session.undo(1)).unwrap();
            assert_eq!(undone.not_restored, [""; 0], "{rung:?}");
            let found = beginning(session.workspace(), "f");
            assert_eq!(found, expected, "{rung:?}");
            // The map shows it as well.
            let mapped = session.value("bytes(map[0:6]).decode()");
            assert_eq!(mapped, format!("'{expected}'"), "{rung:?}");
            // That was a cell too.
            wait(session.undo(1)).unwrap();
        }
    }
}

/// The maps of SQLite are looked after, and on the rung `landlock` no process can read its own.
#[test]
fn a_session_with_sqlite_has_checkpoints_on_every_rung() {
    for rung in rungs() {
        let session = open(builder().isolation(Isolation::on(rung)));
        session.good("import sqlite3; x = 1");
        session.good("x = 2");
        wait(session.undo(1)).unwrap();
        assert_eq!(session.value("x"), "1", "{rung:?}");
    }
}

#[test]
fn a_write_through_a_map_of_an_earlier_cell_is_taken_back_after_a_crash() {
    for rung in rungs() {
        let session = open(builder().isolation(Isolation::on(rung)));
        session.good(MAP);
        pause();
        let result = session.run(format!("map[0:6] = b'cell-2'; {DIE}"));
        assert_eq!(result.state.not_restored, [""; 0], "{rung:?}");
        assert_eq!(beginning(session.workspace(), "f"), "cell-1", "{rung:?}");
    }
}

#[test]
fn a_map_that_the_failed_cell_made_of_an_open_file_is_taken_back() {
    let session = session();
    session.good("import mmap\nfile = open('f', 'wb+'); file.write(b'A' * 4096); file.flush()");
    // So many files are changed later that this one is not looked at any more.
    session.good("for n in range(40): open(f'other-{n}', 'w').write('x')");
    pause();
    let result = session.run(format!(
        "map = mmap.mmap(file.fileno(), 4096); map[0:6] = b'cell-3'; {DIE}"
    ));
    assert_eq!(result.state.not_restored, [""; 0]);
    assert_eq!(beginning(session.workspace(), "f"), "AAAAAA");
}

#[test]
fn a_file_of_the_user_s_that_is_mapped_is_taken_back() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("f"), [b'A'; 4096]).unwrap();
    let session = open(builder().workspace(directory.path()));
    session.good("import mmap\nfile = open('f', 'rb+'); map = mmap.mmap(file.fileno(), 4096)");
    session.good("map[0:6] = b'cell-2'");
    pause();
    session.good("map[0:6] = b'cell-3'");
    pause();
    for expected in ["cell-2", "AAAAAA"] {
        let undone = wait(session.undo(1)).unwrap();
        assert_eq!(undone.not_restored, [""; 0]);
        assert_eq!(beginning(directory.path(), "f"), expected);
    }
}

#[test]
fn a_child_process_that_has_the_map_is_looked_at_too() {
    let session = session();
    session.good("open('f', 'wb').write(b'A' * 4096)");
    session.good("import mmap, os, time\nready, tell = os.pipe(); done, told = os.pipe()\nif os.fork() == 0:\n    file = open('f', 'rb+'); map = mmap.mmap(file.fileno(), 4096); map[0:6] = b'cell-2'; os.write(told, b'1')\n    os.read(ready, 1); map[0:6] = b'cell-3'; os.write(told, b'1'); time.sleep(60)\n_ = os.read(done, 1)");
    pause();
    session.good("_ = os.write(tell, b'1'), os.read(done, 1)");
    pause();
    let undone = wait(session.undo(1)).unwrap();
    assert_eq!(beginning(session.workspace(), "f"), "cell-2", "{undone:?}");
}

#[test]
fn a_mapped_file_that_is_too_large_to_compare_is_named_or_taken_back() {
    let session = session();
    session.good("import mmap\nfile = open('f', 'wb+'); file.truncate(40 << 20)\nmap = mmap.mmap(file.fileno(), 40 << 20); map[0:6] = b'cell-1'");
    pause();
    session.good("map[0:6] = b'cell-2'");
    pause();
    let undone = wait(session.undo(1)).unwrap();
    let is_named = undone
        .not_restored
        .iter()
        .any(|text| text.starts_with("f: "));
    // Where the kernel has written the file to disk in between, the change shows after all, and is taken back.
    let is_taken_back = beginning(session.workspace(), "f") == "cell-1";
    assert!(is_named || is_taken_back, "{undone:?}");
}

/// The first crash leaves a head that was not looked at since. It has the same maps as the checkpoint that it was woken from.
#[test]
fn a_write_through_a_map_is_taken_back_after_a_second_crash() {
    const ABORT: &str = "import os; os.abort()";
    for rung in rungs() {
        let session = open(builder().isolation(Isolation::on(rung)));
        session.good(MAP);
        // Files that were written lately are looked at in any case.
        session.good("for n in range(40): open(f'other-{n}', 'w').close()");
        pause();
        session.run(ABORT);
        let result = session.run(format!("map[0:6] = b'cell-2'; {ABORT}"));
        assert_eq!(result.state.not_restored, [""; 0], "{rung:?}");
        assert_eq!(beginning(session.workspace(), "f"), "cell-1", "{rung:?}");
    }
}

/// The process maps the file when the checkpoint stands already.
#[test]
fn a_write_of_a_process_that_runs_on_is_taken_back_by_undo_or_named() {
    for rung in rungs() {
        let session = open(builder().isolation(Isolation::on(rung)));
        session.good("open('f', 'w').write('cell-1' + 'A' * 4090)");
        session.good("for n in range(40): open(f'other-{n}', 'w').close()");
        session.good("import mmap, os, time\nif os.fork() == 0:\n    time.sleep(0.5); file = open('f', 'rb+')\n    map = mmap.mmap(file.fileno(), 4096); map[0:6] = b'child!'; time.sleep(60)");
        sleep(Duration::from_millis(1500));
        let undone = wait(session.undo(1)).unwrap();
        let is_named = undone
            .not_restored
            .iter()
            .any(|name| name.starts_with("f:"));
        let found = beginning(session.workspace(), "f");
        assert!(
            found == "cell-1" || is_named,
            "{rung:?}: {found}, {undone:?}"
        );
    }
}
