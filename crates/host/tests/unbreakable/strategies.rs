//! `process`, `thread` and `direct`: one contract, and each result says which it was.

use crate::support::{Python, builder, open, wait};
use cellblock_protocol::{Cell, CheckpointState, StateOutcome, Status, Strategy};
use std::time::Duration;

fn with(strategy: Strategy) -> Python {
    open(builder().strategy(strategy))
}

#[test]
fn state_lasts_and_failures_stay_apart_in_each() {
    for strategy in [Strategy::Process, Strategy::Thread, Strategy::Direct] {
        let session = with(strategy);
        session.good("x = 1\nimport math");
        assert_eq!(session.run("1/0").status, Status::Failure);
        assert_eq!(session.value("x + math.floor(1.5)"), "2");
        assert_eq!(session.run("x").strategy, strategy);
    }
}

#[test]
fn a_session_of_strategy_thread_is_open_to_questions_while_its_cell_runs() {
    let session = with(Strategy::Thread);
    session.good("x = [1, 2, 3]");
    let mut running = session.start("x.append(4)\nprint('begun')\nwhile True: pass");
    running.until("begun\n");
    let names: Vec<String> = wait(session.vars())
        .unwrap()
        .into_iter()
        .map(|variable| variable.name)
        .collect();
    assert_eq!(names, ["x"]);
    assert_eq!(wait(session.inspect("x")).unwrap().repr, "[1, 2, 3, 4]");
    session.interrupt();
    assert_eq!(running.result().status, Status::Interrupted);
    assert_eq!(session.value("len(x)"), "4");
}

#[test]
fn what_would_change_the_state_waits_for_the_cell_in_each() {
    for strategy in [Strategy::Process, Strategy::Thread] {
        let session = with(strategy);
        let mut running = session.start("print('begun')\nimport time\ntime.sleep(60)");
        running.until("begun\n");
        assert_eq!(wait(session.reset()).unwrap_err().code(), "busy");
        session.interrupt();
        assert_eq!(running.result().status, Status::Interrupted);
    }
}

#[test]
fn a_cell_on_strategy_thread_has_the_same_checkpoint() {
    let session = with(Strategy::Thread);
    session.good("x = 1");
    let crashed = session.run("x = 2; import ctypes; ctypes.string_at(0)");
    assert_eq!(
        (crashed.status, crashed.state.outcome),
        (Status::Crashed, StateOutcome::Restored)
    );
    let slow =
        session.run(Cell::new("x = 3\nwhile True: pass").timeout(Duration::from_millis(300)));
    assert_eq!(
        (slow.status, slow.state.outcome),
        (Status::Timeout, StateOutcome::Restored)
    );
    let next = session.good("x");
    assert_eq!(next.value.unwrap().repr, "1");
    assert_eq!(next.state.checkpoint, CheckpointState::armed());
}

#[test]
fn a_question_to_a_cell_that_dies_is_answered_in_words() {
    let session = with(Strategy::Thread);
    // The cell lets nobody else run from the moment that we hear of it until it dies.
    let code = "import ctypes, sys, time
c = ctypes.PyDLL(None)
time.sleep(0.2)
sys.setswitchinterval(100)
c.write(1, b'begun\\n', 6)
c.sleep(1)
c._exit(1)";
    let mut running = session.start(code);
    running.until("begun\n");
    assert_eq!(wait(session.vars()).unwrap_err().code(), "refused");
    assert_eq!(running.result().status, Status::Crashed);
    session.good("1");
}
