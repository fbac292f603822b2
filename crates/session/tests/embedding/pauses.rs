//! Sessions that stand still for a while.

use crate::support::{Python, session, wait};
use cellblock_protocol::Cell;
use cellblock_session::{Error, Existing};
use std::time::Duration;

#[test]
fn a_paused_session_stands_still_and_goes_on_where_it_was() {
    let session = session();
    session.good(
        "import subprocess, threading, time
x = 41
child = subprocess.Popen(['sh', '-c', 'while :; do echo >> /tmp/ticks; sleep 0.01; done'])",
    );
    let ticks = || wait(session.paths().stat("/tmp/ticks")).map_or(0, |stat| stat.bytes);
    let grows = |for_long: Duration| {
        let before = ticks();
        std::thread::sleep(for_long);
        ticks() > before
    };
    while ticks() == 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    wait(session.pause()).unwrap();
    wait(session.pause()).unwrap();
    assert!(
        !grows(Duration::from_millis(300)),
        "a process of the session runs"
    );
    let refused = [
        wait(session.0.run("x")).err(),
        wait(session.vars()).err(),
        wait(session.undo(1)).err(),
        wait(session.fork()).err(),
    ];
    for error in refused {
        let error = error.unwrap();
        assert!(matches!(error, Error::Paused { .. }), "{error}");
        assert_eq!(error.code(), "paused");
    }
    let paths = session.paths();
    wait(paths.write("/workspace/note", 0, b"hello".to_vec(), Existing::Kept)).unwrap();
    wait(session.resume()).unwrap();
    wait(session.resume()).unwrap();
    assert_eq!(session.value("x + 1"), "42");
    assert_eq!(session.value("open('note').read()"), "'hello'");
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while !grows(Duration::from_millis(50)) {
        assert!(
            std::time::Instant::now() < deadline,
            "the process does not go on"
        );
    }
    session.good("child.kill(); child.wait()");
    wait(session.undo(1)).unwrap();
}

#[test]
fn a_session_is_paused_also_while_its_processes_start_others() {
    let session = session();
    session.good(
        "import subprocess
loop = 'while :; do /bin/true; done'
children = [subprocess.Popen(['sh', '-c', loop]) for _ in range(4)]",
    );
    for _ in 0..100 {
        wait(session.pause()).unwrap();
        wait(session.resume()).unwrap();
    }
    assert_eq!(
        session.value("[child.poll() for child in children]"),
        "[None, None, None, None]"
    );
}

#[test]
fn a_session_with_a_running_cell_is_not_paused() {
    let session = session();
    let mut running = session.start("print('ready', flush=True)\nimport time\ntime.sleep(60)");
    running.next();
    assert!(matches!(wait(session.pause()), Err(Error::Busy { .. })));
    session.interrupt();
    running.result();
}

#[test]
fn a_paused_session_can_be_closed_and_can_go_back_after_a_crash() {
    let session = session();
    session.good("x = 1");
    wait(session.pause()).unwrap();
    wait(session.resume()).unwrap();
    session.run("import os\nos.kill(os.getpid(), 9)");
    assert_eq!(session.value("x"), "1");
    wait(session.pause()).unwrap();
    wait(session.close());
    assert_eq!(session.end(), Some("it was closed"));
}

#[test]
fn a_snapshot_is_a_state_that_many_sessions_begin_with() {
    let session = session();
    session.good("x = 1\nopen('file', 'w').write('one')");
    let snapshot = wait(session.freeze()).unwrap();
    session.good("x = 2\nopen('file', 'w').write('two')");
    let first = Python(wait(snapshot.open()).unwrap());
    first.good("x += 10\nopen('file', 'w').write('of the first')");
    wait(session.close());
    let second = Python(wait(snapshot.open()).unwrap());
    assert_eq!(second.value("x, open('file').read()"), "(1, 'one')");
    assert_eq!(
        first.value("x, open('file').read()"),
        "(11, 'of the first')"
    );
    wait(snapshot.discard());
    assert!(matches!(wait(snapshot.open()), Err(Error::Ended { .. })));
    assert_eq!(second.value("x"), "1");
}

/// Init of the first session hears of the calls of all forks, and passes each on.
#[test]
fn a_fork_goes_on_while_its_parent_is_paused() {
    let session = session();
    session.good("x = 1");
    let fork = Python(wait(session.fork()).unwrap());
    wait(session.pause()).unwrap();
    let code = "open('mine', 'w').write('a'); import os; os.kill(os.getpid(), 0); x + 1";
    assert_eq!(fork.value(code), "2");
    let refused = wait(session.0.run("x")).err().unwrap();
    assert!(matches!(refused, Error::Paused { .. }), "{refused}");
    wait(session.resume()).unwrap();
    assert_eq!(session.value("x"), "1");
}

/// After a fork, the parent's init prepares for the next one with a process of its own. A pause that stops this process must not keep
/// init from passing on the calls of the fork. It comes some milliseconds after the fork; each time at another moment.
#[test]
fn a_fork_goes_on_whenever_its_parent_is_paused() {
    const MOMENTS: u64 = 60;
    let session = session();
    session.good("x = 1");
    for moment in 0..MOMENTS {
        let fork = Python(wait(session.fork()).unwrap());
        std::thread::sleep(Duration::from_micros(9_000 + 100 * moment));
        wait(session.pause()).unwrap();
        let code = "open('mine', 'w').write('a'); x + 1";
        let cell = Cell::new(code).timeout(Duration::from_secs(30));
        let result = fork.run(cell);
        let value = result.value.map(|value| value.repr);
        assert_eq!(value.as_deref(), Some("2"), "{moment}: {:?}", result.status);
        wait(session.resume()).unwrap();
        wait(fork.close());
    }
}
