//! Cells that only bind plain values follow each other without a copy of the head. They are run again when an older copy is woken, and nothing shows it.

use crate::support::{builder, open, session, wait};
use cellblock_protocol::{CheckpointStatus, StateOutcome};

const CRASH: &str = "import os; os._exit(3)";

#[test]
fn a_crash_right_after_a_burst_of_bindings_costs_none_of_them() {
    let session = session();
    session.good("items = []");
    for n in 1..=20 {
        session.good(&format!("x = {n}"));
    }
    session.good("y = x * 2");
    let dead = session.run(CRASH);
    assert_eq!(dead.state.outcome, StateOutcome::Restored);
    assert_eq!(dead.state.checkpoint.status, CheckpointStatus::Armed);
    let told = (
        dead.state.not_restored,
        dead.state.replayed,
        dead.state.lost,
    );
    assert_eq!(told, (vec![], vec![], vec![]));
    assert_eq!(session.value("items, x, y"), "([], 20, 40)");
}

#[test]
fn each_cell_of_a_burst_is_taken_back_by_itself() {
    let session = session();
    for n in 1..=6 {
        session.good(&format!("x = {n}"));
    }
    for n in (1..=5).rev() {
        assert_eq!(wait(session.undo(1)).unwrap().cell, n);
        assert_eq!(session.value("x"), n.to_string());
        wait(session.undo(1)).unwrap();
    }
    wait(session.undo(1)).unwrap();
    assert_eq!(session.value("'x' in globals()"), "False");
}

/// Whether there was time for a copy between two of them or not.
#[test]
fn each_cell_of_a_burst_is_in_the_list_of_checkpoints() {
    let session = session();
    for n in 1..=4 {
        session.good(&format!("x = {n}"));
    }
    let list = wait(session.checkpoints()).unwrap();
    let cells: Vec<u64> = list.entries.iter().map(|entry| entry.cell).collect();
    assert_eq!(cells, [4, 3, 2, 1, 0]);
}

#[test]
fn crashes_and_bindings_may_alternate() {
    let session = session();
    session.good("x = 0");
    for n in 1..=8 {
        session.good("x = x + 1");
        session.good("x += 0");
        session.run(CRASH);
        assert_eq!(session.value("x"), n.to_string());
    }
}

#[test]
fn a_burst_that_is_longer_than_what_is_run_again_is_kept_too() {
    let session = session();
    session.good("x = 0");
    for _ in 0..100 {
        session.good("x = x + 1");
    }
    session.run(CRASH);
    assert_eq!(session.value("x"), "100");
}

/// A destructor would run once for the cell, and once more when the cell is run again.
#[test]
fn a_cell_that_drops_an_object_is_run_once() {
    let session = session();
    let class = "class Loud:\n    def __del__(self): open('/tmp/ends', 'a').write('!')\nx = Loud()";
    session.good(class);
    session.good("x = 1");
    session.run(CRASH);
    session.run(CRASH);
    assert_eq!(session.value("open('/tmp/ends').read()"), "'!'");
}

/// What looks like arithmetic may call code of the user's.
#[test]
fn a_cell_that_computes_with_objects_is_run_once() {
    let session = session();
    let class = "class Loud:\n    def __add__(self, other): open('/tmp/sums', 'a').write('+'); return 5\nx = Loud()";
    session.good(class);
    session.good("y = x + 1");
    session.run(CRASH);
    session.run(CRASH);
    assert_eq!(session.value("y, open('/tmp/sums').read()"), "(5, '+')");
}

#[test]
fn bindings_after_a_checkpoint_that_was_woken_twice_are_there() {
    let session = session();
    session.good("x = 1");
    session.run(CRASH);
    session.good("y = 2");
    session.run(CRASH);
    session.run(CRASH);
    session.good("z = x + y");
    session.run(CRASH);
    assert_eq!(session.value("x, y, z"), "(1, 2, 3)");
}

#[test]
fn a_burst_before_a_seed_is_there_after_it() {
    let session = session();
    session.good("x = 1");
    session.good("x = 2");
    wait(session.seed(serde_json::json!({"given": 3}).as_object().unwrap().clone())).unwrap();
    session.good("y = 4");
    session.run(CRASH);
    assert_eq!(session.value("x, given, y"), "(2, 3, 4)");
    // The cell is `y = 4`.
    wait(session.undo(1)).unwrap();
    wait(session.undo(1)).unwrap();
    assert_eq!(session.value("x, 'y' in globals()"), "(2, False)");
}

#[test]
fn the_value_that_a_prompt_keeps_is_there() {
    let session = open(builder());
    let keeping = |code: &str| cellblock_protocol::Cell {
        keep_value: true,
        ..cellblock_protocol::Cell::new(code)
    };
    session.good("a = 20");
    session.run(keeping("a + 1"));
    session.run(keeping("a * 2"));
    session.run(CRASH);
    assert_eq!(session.value("_ + 2"), "42");
}
