//! The first cell of a session made on demand waits for no copy: until something was done, a new session is as good as a checkpoint.

use crate::support::{Python, builder, host, open, session, wait};
use cellblock_protocol::{
    Arming, CellResult, CheckpointState, Isolation, Rung, SessionOptions, StateOutcome, Status,
    Wall,
};

const CRASH: &str =
    "import os, signal; x = 1; open('left', 'w').close(); os.kill(os.getpid(), signal.SIGSEGV)";
const NAMESPACE: &str = "import os; os.readlink('/proc/self/ns/pid')";

fn crash(session: &Python) -> CellResult {
    let result = session.run(CRASH);
    assert_eq!(result.status, Status::Crashed);
    assert_eq!(result.state.outcome, StateOutcome::Restored, "{result:?}");
    assert_eq!(result.state.not_restored, [""; 0]);
    result
}

fn is_untouched(session: &Python) {
    assert_eq!(session.value("'x' in globals()"), "False");
    assert_eq!(session.value("__import__('os').listdir('.')"), "[]");
}

#[test]
fn a_first_cell_that_crashes_leaves_a_new_session() {
    let session = session();
    assert_eq!(crash(&session).state.checkpoint, CheckpointState::armed());
    is_untouched(&session);
    session.good("y = 2; open('kept', 'w').close()");
    crash(&session);
    assert_eq!(
        session.value("y, __import__('os').listdir('.')"),
        "(2, ['kept'])"
    );
}

#[test]
fn it_can_crash_again_and_again() {
    let session = session();
    for _ in 0..5 {
        crash(&session);
    }
    is_untouched(&session);
}

#[test]
fn the_first_cells_can_be_taken_back_all_at_once() {
    let session = session();
    let before = session.value(NAMESPACE);
    session.good("x = 1; open('left', 'w').close()");
    let undone = wait(session.undo(2)).unwrap();
    assert_eq!((undone.cell, undone.files.deleted.len()), (0, 1));
    is_untouched(&session);
    assert_ne!(session.value(NAMESPACE), before);
}

#[test]
fn files_that_were_put_in_before_the_first_cell_stay() {
    // Without the wall, nobody is asked before a file is changed.
    for isolation in [
        Isolation::default(),
        Isolation::on(Rung::Full).without(Wall::Seccomp),
    ] {
        let session = open(builder().isolation(isolation));
        std::fs::write(session.workspace().join("given"), "given").unwrap();
        session.run("open('given', 'w').write('changed'); import ctypes; ctypes.string_at(0)");
        assert_eq!(session.value("open('given').read()"), "'given'");
    }
}

#[test]
fn output_from_before_the_crash_is_kept() {
    let session = session();
    let result = session.run("print('said', flush=True); import os; os._exit(3)");
    assert_eq!(
        (result.stdout.as_str(), result.exit_code),
        ("said\n", Some(3))
    );
    assert_eq!(session.good("print('and on')").stdout, "and on\n");
}

#[test]
fn a_fork_outlives_the_processes_that_it_was_made_from() {
    let session = session();
    session.good("x = 1");
    let fork = session.fork();
    wait(session.undo(1)).unwrap();
    is_untouched(&session);
    assert_eq!(fork.value("x"), "1");
    let second = session.fork();
    drop(session);
    fork.run("import ctypes; ctypes.string_at(0)");
    assert_eq!(fork.value("x"), "1");
    assert_eq!(second.value("'x' in globals()"), "False");
}

#[test]
fn a_session_that_began_again_leaves_the_files_of_its_forks_alone() {
    let session = session();
    session.good("x = 1");
    // Large enough to be shared with a fork.
    for n in 0..8 {
        let content = vec![b'A'; 9 << 20];
        std::fs::write(session.workspace().join(format!("large{n}")), content).unwrap();
    }
    session.good("y = 2");
    wait(session.checkpoints()).unwrap();
    let fork = session.fork();
    wait(session.undo(2)).unwrap();
    session.good("open('large0', 'r+b').write(b'EVIL')");
    assert_eq!(fork.value("open('large0', 'rb').read(4)"), "b'AAAA'");
}

#[test]
fn large_files_of_the_user_s_are_put_back_in_a_session_that_began_again() {
    let session = session();
    session.good("x = 1");
    std::fs::write(session.workspace().join("large"), vec![b'A'; 9 << 20]).unwrap();
    session.good("y = 2");
    wait(session.checkpoints()).unwrap();
    wait(session.undo(2)).unwrap();
    session.good("z = 1");
    let result =
        session.run("open('large', 'r+b').write(b'EVIL'); import ctypes; ctypes.string_at(0)");
    assert_eq!(result.state.not_restored, [""; 0]);
    assert_eq!(session.value("open('large', 'rb').read(4)"), "b'AAAA'");
}

#[test]
fn a_lazy_session_has_it_too() {
    let options = SessionOptions {
        arming: Arming::Lazy,
        ..SessionOptions::default()
    };
    let session = Python(wait(host().open(options)).unwrap());
    crash(&session);
    is_untouched(&session);
}

#[test]
fn seeds_and_setup_code_are_no_new_session() {
    let seeded = open(builder().variable("x", 7));
    seeded.run("x = 8; import ctypes; ctypes.string_at(0)");
    assert_eq!(seeded.value("x"), "7");
    let prepared = open(builder().setup("x = 7"));
    prepared.run("x = 8; import ctypes; ctypes.string_at(0)");
    assert_eq!(prepared.value("x"), "7");
}
