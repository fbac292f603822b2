//! While a fork is made, no code of the session has a capability, wherever it runs and whatever it does to the memory of those who
//! make the fork.

use crate::support::{Python, session, wait};

const ATTACKS: &str = include_str!("capabilities.py");

/// A session in which these attacks can be begun.
fn attacker() -> Python {
    let parent = session();
    parent.good(ATTACKS);
    parent
}

/// What the processes of the session have seen, and whether they did anything at all.
fn seen(parent: &Python) -> String {
    parent.value("hex(read(SEEN)), read(TRIED)")
}

const NOTHING: &str = "('0x0', 1)";

#[test]
fn who_asks_for_namespaces_while_a_fork_is_made_is_refused_and_the_fork_is_made() {
    let parent = attacker();
    parent.good("pids = [started(ask_for_namespaces), started(ask_with_threads)]");
    for _ in 0..10 {
        assert_eq!(parent.fork().value("1 + 1"), "2");
    }
    assert_eq!(seen(&parent), NOTHING);
    assert_eq!(parent.value("read(ENTERED)"), "0");
}

#[test]
fn a_fork_function_of_the_code_s_own_is_called_without_capabilities() {
    let parent = attacker();
    parent.good("replace_fork()");
    let fork = parent.fork();
    assert_eq!(fork.value("1 + 1"), "2");
    assert_eq!(seen(&parent), NOTHING);
    let second = fork.fork();
    assert_eq!(second.value("1 + 1"), "2");
    assert_eq!(seen(&fork), NOTHING);
}

#[test]
fn nobody_sees_a_process_with_capabilities_while_a_fork_is_made() {
    let parent = attacker();
    parent.good("pids = [started(look_at_everyone) for _ in range(2)]");
    for _ in 0..10 {
        assert_eq!(parent.fork().value("1 + 1"), "2");
    }
    assert_eq!(seen(&parent), NOTHING);
}

#[test]
fn who_takes_the_place_of_the_copy_has_no_capability_there() {
    let parent = attacker();
    parent.good("gate = Gate(); orphan(lambda: take_the_place(gate))");
    for _ in 0..5 {
        if let Ok(fork) = wait(parent.0.fork()) {
            assert_eq!(Python(fork).value("1 + 1"), "2");
        }
        assert_eq!(parent.value("1 + 1"), "2");
    }
    assert_eq!(seen(&parent), NOTHING);
    // It was there before the helper of the head, in one of five attempts.
    assert_eq!(parent.value("read(ENTERED)"), "1");
    assert_eq!(parent.fork().value("1 + 1"), "2");
}

#[test]
fn who_says_which_capabilities_it_wants_to_keep_is_ended() {
    let parent = attacker();
    parent.good(
        "gate = Gate()\nfor _ in range(3): orphan(lambda: take_the_place(gate, [0xffffffff] * 6))",
    );
    for _ in 0..5 {
        let _ = wait(parent.0.fork());
        assert_eq!(parent.value("1 + 1"), "2");
    }
    assert_eq!(seen(&parent), NOTHING);
    assert_eq!(parent.value("read(ENTERED)"), "0");
    assert_eq!(parent.fork().value("1 + 1"), "2");
}

#[test]
fn instructions_that_change_under_the_calls_never_run_with_capabilities() {
    let parent = attacker();
    parent.good("gate = Gate(); started(gate.flip)\nfor _ in range(30): orphan(lambda: take_the_place(gate))");
    for _ in 0..20 {
        let _ = wait(parent.0.fork());
        assert_eq!(parent.value("1 + 1"), "2");
    }
    assert_eq!(seen(&parent), NOTHING);
}
