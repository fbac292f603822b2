//! Forks of forks.

use crate::support::{Python, session, wait};

#[test]
fn a_fork_of_a_fork_of_a_fork_is_a_session_like_any_other() {
    let mut generations = vec![session()];
    for n in 0..4 {
        let last = generations.last().unwrap();
        last.good(&format!(
            "x{n} = {n}; open('file{n}', 'w').close(); handle{n} = open('file{n}', 'a')"
        ));
        let next = last.fork();
        generations.push(next);
    }
    for (n, generation) in generations.iter().enumerate() {
        generation.good(&format!("mine = {n}; open('mine', 'w').write(str(mine))"));
    }
    for (n, generation) in generations.iter().enumerate() {
        let expected = format!("({n}, '{n}', {})", (n + 1).min(4));
        assert_eq!(
            generation
                .value("mine, open('mine').read(), sum(f'x{n}' in globals() for n in range(9))"),
            expected
        );
        let crash =
            generation.run("mine = None; import os, signal; os.kill(os.getpid(), signal.SIGSEGV)");
        assert_eq!(crash.signal, Some(11));
    }
    for (n, generation) in generations.iter().enumerate() {
        assert_eq!(generation.value("mine"), n.to_string());
    }
}

#[test]
fn at_the_limit_of_depth_there_is_a_clear_error_and_nothing_is_lost() {
    let mut line = vec![session()];
    line[0].good("x = 'kept'");
    let error = loop {
        match wait(line.last().unwrap().0.fork()) {
            Ok(next) => line.push(Python(next)),
            Err(error) => break error,
        }
        assert!(line.len() < 40, "no end");
    };
    assert_eq!(error.code(), "refused");
    assert!(error.to_string().contains("deep"), "{error}");
    assert!(line.len() > 8, "only {} deep: {error}", line.len());
    for session in &line {
        assert_eq!(session.value("x"), "'kept'");
    }
}

#[test]
fn a_fork_that_could_not_be_parted_from_its_parent_can_be_forked() {
    let parent = session();
    parent.good("x = 1; import ctypes; is_open = lambda: ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)");
    // The kernel allows 16 layers of Landlock rules. From then on a fork closes itself.
    let mut last = parent.fork();
    for _ in 0..16 {
        last = parent.fork();
    }
    assert_eq!(last.value("x, is_open()"), "(1, 0)");
    let next = last.fork();
    assert_eq!(next.value("x, is_open()"), "(1, 0)");
    assert_eq!(last.value("is_open()"), "0");
    assert_eq!(parent.value("is_open()"), "1");
}

#[test]
fn many_forks_of_one_session_leave_it_room_for_processes() {
    let parent = session();
    parent.good("x = 1");
    let forks: Vec<Python> = (0..12).map(|_| parent.fork()).collect();
    for (n, fork) in forks.iter().enumerate() {
        for step in 0..12 {
            fork.good(&format!("x = {n} + {step}"));
        }
    }
    // Each has a dozen processes now, which for an ordinary user count as the parent's too.
    let result = parent.good("import subprocess; subprocess.run(['/bin/true']).returncode");
    assert_eq!(
        result.state.checkpoint,
        cellblock_protocol::CheckpointState::armed()
    );
    assert_eq!(parent.value("x"), "1");
    assert_eq!(forks[11].value("x"), "22");
}

#[test]
fn a_fork_goes_on_when_its_parents_are_closed_first() {
    let parent = session();
    parent.good("x = 1");
    let middle = parent.fork();
    middle.good("x = 2");
    let last = middle.fork();
    wait(parent.close());
    wait(middle.close());
    last.good("x += 1; open('a', 'w').close()");
    let crash = last.run("x = 0; import os; os.kill(os.getpid(), 11)");
    assert_eq!(
        crash.state.outcome,
        cellblock_protocol::StateOutcome::Restored
    );
    assert_eq!(last.value("x, __import__('os').listdir()"), "(3, ['a'])");
    let fork = last.fork();
    assert_eq!(fork.value("x"), "3");
}
