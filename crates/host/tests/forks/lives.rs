//! What happens to one does not touch the other, and when all are gone nothing is left.

use crate::support::{builder, eventually, open, session};
use cellblock_protocol::{Cell, Limits, StateOutcome, Status};
use std::time::Duration;

#[test]
fn a_crash_in_one_is_not_noticed_in_the_other() {
    let parent = session();
    parent.good("import os, signal; x = 1");
    let fork = parent.fork();
    fork.good("x = 2");
    let crash = "x = None; os.kill(os.getpid(), signal.SIGSEGV)";
    for (crashing, other, kept) in [(&parent, &fork, "2"), (&fork, &parent, "1")] {
        let mut running = other.start("print('go', flush=True)\nn = 0\nimport time\nuntil = time.monotonic() + 0.3\nwhile time.monotonic() < until: n += 1\nx");
        running.until("go");
        assert_eq!(crashing.run(crash).status, Status::Crashed);
        let result = running.result();
        assert_eq!(
            (result.status, result.value.unwrap().repr),
            (Status::Success, kept.to_owned())
        );
    }
    assert_eq!(
        (parent.value("x"), fork.value("x")),
        ("1".into(), "2".into())
    );
}

/// To end the processes of a session, its init stops all below it for a moment: the inits of forks too, whatever they do just then.
#[test]
fn a_crash_in_a_session_tears_no_file_that_a_fork_opens() {
    let parent = session();
    parent.good("import os, signal");
    let fork = parent.fork();
    let mut running = fork.start(
        "import time
print('go', flush=True)
n, until = 0, time.monotonic() + 2
while time.monotonic() < until:
    n += 1
    name = str(n % 100)
    with open(name, 'w') as file: file.write(str(n))
    with open(name) as file: assert file.read() == str(n)",
    );
    running.until("go");
    for _ in 0..40 {
        let result = parent.run("os.kill(os.getpid(), signal.SIGSEGV)");
        assert_eq!(result.status, Status::Crashed);
    }
    let result = running.result();
    assert_eq!(result.status, Status::Success, "{:?}", result.error);
}

#[test]
fn a_time_out_in_one_is_not_noticed_in_the_other() {
    let parent = session();
    parent.good("x = 1");
    let fork = parent.fork();
    fork.good("import subprocess; child = subprocess.Popen(['/bin/sleep', '600'])");
    let slow = parent.run(Cell::new("while True: pass").timeout(Duration::from_millis(300)));
    assert_eq!(slow.status, Status::Timeout);
    assert_eq!(fork.value("child.poll(), x"), "(None, 1)");
    let slow = fork.run(Cell::new("while True: pass").timeout(Duration::from_millis(300)));
    assert_eq!(
        (slow.status, slow.state.outcome),
        (Status::Timeout, StateOutcome::Restored)
    );
    assert_eq!(parent.value("x"), "1");
}

#[test]
fn running_out_of_memory_in_one_is_not_noticed_in_the_other() {
    let limits = Limits {
        memory: 256 << 20,
        ..Limits::default()
    };
    let parent = open(builder().limits(limits));
    parent.good("x = 1");
    let fork = parent.fork();
    // Out of reach of the limit of one process: several share the blame.
    let hog = "import os\nfor _ in range(4):\n    if os.fork() == 0:\n        held = bytearray(200 << 20)\n        import time; time.sleep(60)\nimport time; time.sleep(60)";
    for (hungry, other) in [(&fork, &parent), (&parent, &fork)] {
        let mut running = other.start("print('go', flush=True); import time; time.sleep(1); x");
        running.until("go");
        let result = hungry.run(Cell::new(hog).timeout(Duration::from_secs(3)));
        assert_eq!(result.state.outcome, StateOutcome::Restored, "{result:?}");
        assert_eq!(running.result().status, Status::Success);
        assert_eq!(hungry.value("x"), "1");
    }
}

#[test]
fn a_fork_bomb_in_one_leaves_the_other_its_processes() {
    // Running the bomb again would take the processes again.
    let parent = open(builder().replay(false));
    parent.good("import os, time");
    let fork = parent.fork();
    let bomb = "started = 0\nwhile True:\n    try:\n        if os.fork() == 0: time.sleep(60); os._exit(0)\n        started += 1\n    except OSError: break\nstarted";
    let in_fork: u32 = fork.value(bomb).parse().unwrap();
    assert!((40..120).contains(&in_fork), "{in_fork} processes");
    let in_parent: u32 = parent.value(bomb).parse().unwrap();
    assert!((40..120).contains(&in_parent), "{in_parent} processes");
    fork.run(Cell::new("while True: pass").timeout(Duration::from_millis(100)));
    assert!(fork.value(bomb).parse::<u32>().unwrap() >= 40);
}

#[test]
fn fifty_crashes_in_a_fork_in_a_row() {
    let parent = session();
    parent.good("import os; x = 1");
    let fork = parent.fork();
    for n in 0..50 {
        fork.good(&format!("x = {n}"));
        assert_eq!(
            fork.run("x = None; os._exit(3)").state.outcome,
            StateOutcome::Restored
        );
        assert_eq!(fork.value("x"), n.to_string());
    }
    assert_eq!(parent.value("x"), "1");
}

#[test]
fn the_end_of_the_last_handle_is_the_end_of_a_fork() {
    let parent = session();
    let fork = parent.fork();
    let mark = "cellblock-fork-mark";
    fork.good(&format!(
        "import subprocess; subprocess.Popen(['/bin/sh', '-c', 'sleep 600; true', '{mark}'])"
    ));
    eventually("its program runs", || {
        crate::support::processes_with(mark) > 0
    });
    drop(fork);
    eventually("its processes are gone", || {
        crate::support::processes_with(mark) == 0
    });
    assert_eq!(parent.value("1 + 1"), "2");
}
