//! What a result says of its checkpoint.

use crate::support::{builder, open, session, wait};
use cellblock_protocol::{CheckpointList, CheckpointState, StateOutcome, Status, Strategy};
use std::time::{Duration, Instant};

#[test]
fn a_cell_has_an_armed_checkpoint_under_it() {
    let session = session();
    assert_eq!(
        session.good("x = 1").state.checkpoint,
        CheckpointState::armed()
    );
    assert_eq!(
        session.good("x += 1").state.checkpoint,
        CheckpointState::armed()
    );
}

/// The host waits five seconds for a copy of the process. A copy that comes later is not used.
#[test]
fn a_copy_that_comes_too_late_is_no_checkpoint() {
    let session = session();
    session.good(
        "import os, time
delay = 0
os.register_at_fork(before=lambda: time.sleep(delay))
x = 1",
    );
    session.good("x = int(2); delay = 7");
    let crashed = session.run("x = 3; os._exit(3)");
    let late = "the head did not make a copy of itself in time";
    assert_eq!(crashed.state.checkpoint, CheckpointState::behind(1, late));
    assert_eq!(crashed.state.outcome, StateOutcome::Restored);
    assert_eq!(crashed.state.replayed, [2]);
    let kept = session.good("delay = 0; x");
    assert_eq!(kept.value.unwrap().repr, "2");
    let crashed = session.run("x = 4; os._exit(3)");
    assert_eq!(crashed.state.checkpoint, CheckpointState::armed());
    assert_eq!(session.value("x"), "2");
    // The late copy is gone as soon as it was ended and waited for.
    let processes = "sum(name.isdigit() for name in os.listdir('/proc'))";
    let deadline = Instant::now() + Duration::from_secs(60);
    while session.value(processes) != "1" {
        assert!(Instant::now() < deadline, "the late copy is still there");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_strategy_direct_takes_none_and_says_so() {
    let session = open(builder().strategy(Strategy::Direct));
    let result = session.good("x = 1");
    assert_eq!(result.strategy, Strategy::Direct);
    assert_eq!(
        result.state.checkpoint,
        CheckpointState::unavailable("the strategy `direct` makes none")
    );
    let result = session.run("import os; os._exit(1)");
    assert_eq!(
        (result.status, result.state.outcome),
        (Status::Crashed, StateOutcome::Ended)
    );
}

#[test]
fn they_are_listed_newest_first() {
    let session = session();
    session.good("x = 1");
    session.good("x = 2");
    let CheckpointList { state, entries } = wait(session.checkpoints()).unwrap();
    assert_eq!(state, CheckpointState::armed());
    assert_eq!(
        entries.iter().map(|entry| entry.cell).collect::<Vec<_>>(),
        [2, 1, 0]
    );
}

#[test]
fn the_history_is_bounded() {
    let limits = cellblock_protocol::Limits {
        checkpoints: 3,
        ..cellblock_protocol::Limits::default()
    };
    let session = open(builder().limits(limits));
    for _ in 0..8 {
        session.good("x = 1 if 'x' not in globals() else x + 1");
    }
    let entries = wait(session.checkpoints()).unwrap().entries;
    assert_eq!(
        entries.iter().map(|entry| entry.cell).collect::<Vec<_>>(),
        [8, 7, 6, 5]
    );
}

#[test]
fn a_standby_is_no_child_that_the_code_could_wait_for() {
    let session = session();
    session.good("import os");
    assert_eq!(
        session.exception("os.wait()"),
        "ChildProcessError(10, 'No child processes')"
    );
}

#[test]
fn an_atomic_cell_that_fails_leaves_no_trace() {
    let session = session();
    session.good("x = 1");
    let result = session.run(
        cellblock_protocol::Cell::new("x = 2; open('trace', 'w').write('!'); 1/0").atomic(true),
    );
    assert_eq!(
        (result.status, result.state.outcome),
        (Status::Failure, StateOutcome::Restored)
    );
    assert_eq!(session.value("import os; x, os.listdir()"), "(1, [])");
}

#[test]
fn seeds_and_tools_given_between_two_cells_survive_a_crash() {
    let session = session();
    session.good("x = 1");
    std::thread::sleep(std::time::Duration::from_millis(50));
    wait(session.seed(serde_json::json!({"given": 7}).as_object().unwrap().clone())).unwrap();
    session.offer([crate::support::tool("lookup", "Looks up.", &[])]);
    session.run("import os; os._exit(1)");
    assert_eq!(session.value("x, given, callable(lookup)"), "(1, 7, True)");
}

#[test]
fn what_stood_in_the_way_of_a_checkpoint_is_looked_at_again() {
    let session = session();
    session.good("import threading, time; thread = threading.Thread(target=time.sleep, args=(0.3,)); thread.start()");
    std::thread::sleep(std::time::Duration::from_millis(600));
    assert_eq!(
        session.good("x = 1").state.checkpoint,
        CheckpointState::armed()
    );
}
