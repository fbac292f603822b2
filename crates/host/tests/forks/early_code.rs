//! Code that runs in a fork before the guest's own: handlers of Python's and of libc's `fork`, and threads. It has the memory of the parent,
//! and sees the directories of the fork, which are limited anew. It must have no way to its parent: the parent would hold what each of many
//! forks has written, beyond the limit of one session.

use crate::support::{Python, eventually, session, wait};

const EARLY: &str = include_str!("early_code.py");

/// How often a fork is made, each with directories that have their own limit.
const FORKS: usize = 3;

fn attacker() -> Python {
    let parent = session();
    parent.good(EARLY);
    parent
}

/// Makes forks in which the early code gives files to the parent, lets them fill these files, and closes them. Nothing of that may be left, whether
/// there is a fork or the attempt is refused.
fn nothing_is_left(setup: &str) {
    let parent = attacker();
    parent.good(setup);
    for _ in 0..FORKS {
        let Ok(fork) = wait(parent.0.fork()).map(Python) else {
            continue;
        };
        eventually("the early code has run", || {
            fork.value("tried > 0") == "True"
        });
        fork.good("fill()");
        wait(fork.0.close());
    }
    let held = parent.value("held() >> 20");
    assert_eq!(held, "0", "MiB of forks that are closed: {setup}");
}

/// The ways to run early.
const WAYS: [&str; 3] = [
    "in_handler_of_python(lambda: give(far))",
    "in_handler_of_libc(lambda: give_directories(far))",
    "in_thread(lambda: give(far))",
];

#[test]
fn early_code_cannot_give_its_parent_a_file_through_a_socket() {
    for way in WAYS {
        nothing_is_left(way);
        nothing_is_left(&format!("hide_the_pair(); {way}"));
    }
}

#[test]
fn early_code_cannot_give_its_parent_a_file_through_the_path_of_a_socket() {
    for way in ["through_directory", "through_directory_of_the_system"] {
        nothing_is_left(&format!("in_handler_of_python({way}())"));
    }
}

/// What waits in a socket was sent before the fork.
#[test]
fn early_code_cannot_take_what_its_parent_has_sent() {
    let parent = attacker();
    parent.good("socket.send_fds(far, [b'x'], [os.open('/tmp', os.O_RDONLY)])");
    parent.good("in_handler_of_python(lambda: taken.extend(received(near)))");
    let fork = parent.fork();
    assert_eq!(fork.value("tried, taken"), "(1, [])");
}

#[test]
fn early_code_cannot_enter_a_directory_of_its_parent() {
    let parent = attacker();
    parent.good("directory = os.open('/workspace', os.O_RDONLY)");
    parent.good("in_handler_of_python(lambda: os.fchdir(directory))");
    parent.good("os.chdir = lambda path: None");
    let fork = parent.fork();
    assert_eq!(fork.value("tried, os.getcwd()"), "(1, '/')");
}
