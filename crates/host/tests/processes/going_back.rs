//! Processes and checkpoints: what is younger than a checkpoint ends when the session goes back to it, what is older goes on.

use crate::basics::{others, shell, spawn, wait_for_output};
use crate::common::{builder, open, run, wait};
use cellblock_protocol::{ProcessStatus, Spawn, StateOutcome};
use cellblock_session::{Process, Session};

const CRASH: &str = "import os; os.abort()";

/// A process that answers each line, so that it can be asked whether it lives.
fn echo(session: &Session) -> Process {
    let process = spawn(session, Spawn::new(["cat"]).with_input());
    answers(&process, "first");
    process
}

fn answers(process: &Process, word: &str) {
    wait(process.write(format!("{word}\n").as_bytes())).unwrap();
    wait_for_output(process, word);
}

fn names(not_restored: &[String], process: &Process) -> bool {
    let name = format!("the process {} ", process.info().proc);
    not_restored.iter().any(|line| line.starts_with(&name))
}

#[test]
fn a_crash_leaves_older_processes_alone_and_names_them() {
    let session = open(builder());
    run(&session, "x = 1");
    let older = echo(&session);
    run(&session, "x = 2");
    let crashed = run(&session, CRASH);
    assert_eq!(crashed.state.outcome, StateOutcome::Restored);
    assert!(
        names(&crashed.state.not_restored, &older),
        "{:?}",
        crashed.state
    );
    answers(&older, "still");
    assert_eq!(run(&session, "x").repr(), Some("2"));
}

#[test]
fn a_crash_ends_what_was_spawned_since_the_checkpoint_with_all_that_it_started() {
    let session = open(builder());
    run(&session, "x = 1");
    let older = echo(&session);
    run(&session, "x = 2");
    let code = "print('up', flush=True)\nimport os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nos.abort()";
    let mut running = session.start(code).unwrap();
    wait(running.next()).unwrap();
    let younger = spawn(
        &session,
        Spawn::shell("(setsid sleep 1000 &); echo up; sleep 1000"),
    );
    wait_for_output(&younger, "up");
    wait(session.put_file("go", Vec::new())).unwrap();
    let crashed = wait(running.result()).unwrap();
    assert_eq!(wait(younger.wait()).status, ProcessStatus::TakenBack);
    assert!(names(&crashed.state.not_restored, &older));
    assert!(
        !names(&crashed.state.not_restored, &younger),
        "{:?}",
        crashed.state
    );
    assert_eq!(others(&session), ["cat"]);
    answers(&older, "still");
}

#[test]
fn undo_ends_younger_processes_and_names_older_ones() {
    let session = open(builder());
    run(&session, "x = 1");
    let older = echo(&session);
    run(&session, "x = 2");
    let younger = echo(&session);
    run(&session, "x = 3");
    let undone = wait(session.undo(1)).unwrap();
    assert!(names(&undone.not_restored, &older), "{undone:?}");
    assert!(names(&undone.not_restored, &younger), "{undone:?}");
    answers(&younger, "still");
    let undone = wait(session.undo(1)).unwrap();
    assert_eq!(wait(younger.wait()).status, ProcessStatus::TakenBack);
    assert!(names(&undone.not_restored, &older), "{undone:?}");
    assert!(!names(&undone.not_restored, &younger), "{undone:?}");
    answers(&older, "still");
    let all = wait(session.undo(1)).unwrap();
    assert_eq!(all.cell, 0);
    assert_eq!(wait(older.wait()).status, ProcessStatus::TakenBack);
    assert_eq!(others(&session), Vec::<String>::new());
    assert_eq!(
        shell(&session, "echo again"),
        ("again\n".to_owned(), Some(0))
    );
}

#[test]
fn a_process_from_before_the_first_cell_survives_its_crash() {
    let session = open(builder());
    let older = echo(&session);
    let crashed = run(&session, CRASH);
    assert!(
        names(&crashed.state.not_restored, &older),
        "{:?}",
        crashed.state
    );
    answers(&older, "still");
}

#[test]
fn a_process_of_the_first_cell_ends_with_its_crash_and_others_can_follow() {
    let session = open(builder());
    let code = "print('up', flush=True)\nimport os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nos.abort()";
    let mut running = session.start(code).unwrap();
    wait(running.next()).unwrap();
    let younger = echo(&session);
    wait(session.put_file("go", Vec::new())).unwrap();
    wait(running.result()).unwrap();
    assert_eq!(wait(younger.wait()).status, ProcessStatus::TakenBack);
    assert_eq!(
        shell(&session, "echo again"),
        ("again\n".to_owned(), Some(0))
    );
}

#[test]
fn an_atomic_cell_leaves_a_file_alone_that_a_process_writes_to() {
    let session = open(builder().atomic(true));
    run(
        &session,
        "open('log.txt', 'w').write('one\\n'); open('other.txt', 'w').write('one')",
    );
    let process = spawn(&session, Spawn::shell("exec >>log.txt; cat").with_input());
    wait(process.write(b"two\n")).unwrap();
    run(
        &session,
        "import time\nwhile 'two' not in open('log.txt').read(): time.sleep(0.01)",
    );
    let failed = run(
        &session,
        "open('log.txt', 'a').write('cell\\n'); open('other.txt', 'w').write('cell'); 1/0",
    );
    assert_eq!(failed.state.outcome, StateOutcome::Restored);
    let named = failed.state.not_restored.iter();
    assert!(
        named
            .clone()
            .any(|line| line.starts_with("log.txt: a process")),
        "{:?}",
        failed.state
    );
    assert!(
        !named.clone().any(|line| line.starts_with("other.txt")),
        "{:?}",
        failed.state
    );
    let look = "open('log.txt').read(), open('other.txt').read()";
    assert_eq!(
        run(&session, look).repr(),
        Some("('one\\ntwo\\ncell\\n', 'one')")
    );
}

#[test]
fn what_a_process_wrote_between_cells_stays_after_undo() {
    let session = open(builder());
    run(&session, "x = 1");
    run(&session, "open('by_cell.txt', 'w').write('cell')");
    assert_eq!(shell(&session, "echo mine > by_process.txt").1, Some(0));
    run(&session, "x = 2");
    wait(session.undo(2)).unwrap();
    let look = "import os; sorted(os.listdir('.'))";
    assert_eq!(run(&session, look).repr(), Some("['by_process.txt']"));
}

#[test]
fn a_fork_has_none_of_its_parent_s_processes_and_can_spawn() {
    let session = open(builder());
    run(&session, "x = 1");
    let process = echo(&session);
    let fork = match wait(session.fork()) {
        Ok(fork) => fork,
        // A session without namespaces cannot be forked.
        Err(error) => return assert_eq!(error.code(), "refused"),
    };
    assert_eq!(fork.processes(), []);
    assert_eq!(others(&fork), Vec::<String>::new());
    let in_fork = echo(&fork);
    assert_eq!(shell(&fork, "echo fork"), ("fork\n".to_owned(), Some(0)));
    run(&session, CRASH);
    run(&fork, CRASH);
    answers(&in_fork, "still");
    answers(&process, "still");
    wait(session.close());
    assert_eq!(wait(process.wait()).status, ProcessStatus::SessionEnded);
    answers(&in_fork, "even now");
    wait(fork.close());
    assert_eq!(wait(in_fork.wait()).status, ProcessStatus::SessionEnded);
}

#[test]
fn everything_ends_with_the_session() {
    let session = open(builder());
    let process = spawn(&session, Spawn::shell("(setsid sleep 1000 &); sleep 1000"));
    let pid = process.info().pid;
    assert!(pid > 0);
    wait(session.close());
    let end = wait(process.wait());
    assert_eq!(
        (end.status, end.signal),
        (ProcessStatus::SessionEnded, Some(9))
    );
    let dropped = open(builder());
    let process = echo(&dropped);
    drop(dropped);
    assert_eq!(wait(process.wait()).status, ProcessStatus::SessionEnded);
}
