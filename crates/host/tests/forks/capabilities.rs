//! While a fork is made, no code of the session has a capability, whatever it does to the processes that make the fork and to their
//! memory.

use crate::support::{Python, eventually, session, wait};

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

/// A fork is made when the attacks are over. Processes that still attack may spoil one for some time.
fn forks_again(parent: &Python) {
    eventually("a fork", || wait(parent.0.fork()).is_ok());
    assert_eq!(parent.fork().value("1 + 1"), "2");
}

const NOTHING: &str = "('0x0', 1)";

#[test]
fn a_process_that_asks_for_namespaces_while_a_fork_is_made_is_refused_and_the_fork_is_made() {
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
fn no_process_with_capabilities_is_seen_while_a_fork_is_made() {
    let parent = attacker();
    parent.good("pids = [started(look_at_everyone) for _ in range(2)]");
    for _ in 0..10 {
        assert_eq!(parent.fork().value("1 + 1"), "2");
    }
    assert_eq!(seen(&parent), NOTHING);
}

#[test]
fn a_process_that_takes_the_place_of_the_helper_has_no_capability_in_the_fork() {
    let first = attacker();
    let second = first.fork();
    for parent in [first, second] {
        parent
            .good("gate = Gate(); let_the_other_be_first(); orphan(lambda: take_the_place(gate))");
        eventually("the process takes the place of the helper", || {
            if let Ok(fork) = wait(parent.0.fork()) {
                assert_eq!(Python(fork).value("1 + 1"), "2");
            }
            assert_eq!(parent.value("1 + 1"), "2");
            parent.value("read(ENTERED)") == "1"
        });
        assert_eq!(seen(&parent), NOTHING);
        forks_again(&parent);
    }
}

#[test]
fn a_filter_that_fakes_the_results_of_calls_leaves_no_capability() {
    let parent = attacker();
    for number in ["PRCTL", "CAPSET", "SETNS"] {
        parent.good(&format!(
            "gate = Gate()\nfor _ in range(3): orphan(lambda: (fake({number}), take_the_place(gate)))"
        ));
        for _ in 0..3 {
            let _ = wait(parent.0.fork());
            assert_eq!(parent.value("1 + 1"), "2");
        }
        assert_eq!(seen(&parent), NOTHING, "{number}");
        assert_eq!(parent.value("read(ENTERED)"), "0", "{number}");
    }
    parent.good("add(OVER, 1)");
    forks_again(&parent);
}

#[test]
fn a_process_that_names_the_capabilities_it_wants_to_keep_is_ended() {
    let parent = attacker();
    parent.good(
        "gate = Gate()\nfor _ in range(3): orphan(lambda: take_the_place(gate, (0xffffffff, 0xffffffff, 0, 0x1ff, 0x1ff, 0)))",
    );
    for _ in 0..5 {
        let _ = wait(parent.0.fork());
        assert_eq!(parent.value("1 + 1"), "2");
    }
    assert_eq!(seen(&parent), NOTHING);
    assert_eq!(parent.value("read(ENTERED)"), "0");
    parent.good("add(OVER, 1)");
    forks_again(&parent);
}

#[test]
fn instructions_that_change_under_the_calls_never_run_with_capabilities() {
    let parent = attacker();
    parent.good("gate = Gate(); started(gate.flip)");
    for _ in 0..30 {
        parent.good("orphan(lambda: take_the_place(gate))");
        let _ = wait(parent.0.fork());
    }
    assert_eq!(seen(&parent), NOTHING);
}

#[test]
fn a_process_that_stays_between_a_session_and_its_fork_is_ended() {
    let parent = attacker();
    parent.good(
        "gate = Gate(); wait_in_the_place_of_the_head(); orphan(lambda: send_copy_and_stay(gate))",
    );
    let made = wait(parent.0.fork());
    assert!(made.is_err(), "the copy does not speak");
    assert_eq!(parent.value("read(ARRIVED)"), "1");
    eventually("the process that stayed has ended", || {
        let counts = parent
            .value("import time; before = read(STAYED); time.sleep(0.2); read(STAYED) - before");
        counts == "0"
    });
    assert_ne!(parent.value("read(STAYED)"), "0");
    parent.good("from cellblock_guest import native; native.copy_into_fork = native.honest");
    assert_eq!(parent.fork().value("1 + 1"), "2");
}

#[test]
fn signals_processors_and_descriptors_are_the_same_on_both_sides_of_a_fork() {
    let parent = session();
    parent.good(
        r"
import ctypes, os, signal
libc = ctypes.CDLL(None)
TOLD = 'SigBlk', 'SigIgn', 'SigCgt', 'SigPnd', 'ShdPnd', 'Cpus_allowed_list', 'TracerPid'
def state():
    lines = [line for line in open('/proc/self/status').read().splitlines() if line.startswith(TOLD)]
    return lines, libc.prctl(3, 0, 0, 0, 0), len(os.listdir('/proc/self/fd'))
def on_trap(*_): pass
",
    );
    for change in [
        "pass",
        "os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})",
        "signal.signal(signal.SIGTRAP, on_trap)",
        "signal.signal(signal.SIGTRAP, signal.SIG_IGN)",
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTRAP, signal.SIGUSR1])",
        "libc.prctl(4, 0, 0, 0, 0)",
    ] {
        parent.good(change);
        let before = parent.value("before = state(); before");
        let fork = parent.fork();
        assert_eq!(
            fork.value("state() == before"),
            "True",
            "{change}: {before}"
        );
        assert_eq!(
            parent.value("state() == before"),
            "True",
            "{change}: {before}"
        );
        let second = fork.fork();
        assert_eq!(
            second.value("state() == before"),
            "True",
            "{change}: {before}"
        );
    }
}
