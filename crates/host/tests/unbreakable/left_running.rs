//! Processes and threads that a cell left running write files between cells. Going back says so.

use crate::support::{builder, is_root, open, session, wait};
use cellblock_protocol::{Isolation, Rung};
use std::thread::sleep;
use std::time::{Duration, Instant};

const PROCESS: &str = "if os.fork() == 0:\n    os.setsid(); work(); os._exit(0)";
const THREAD: &str = "threading.Thread(target=work, daemon=True).start()";
const TIMER: &str = "signal.signal(signal.SIGALRM, lambda *_: work()); _ = signal.setitimer(signal.ITIMER_REAL, 0.3)";

/// Waits until something that runs on between cells has made a file.
fn wait_for(path: &std::path::Path) {
    let begun = Instant::now();
    while !path.exists() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{path:?}");
        sleep(Duration::from_millis(20));
    }
    sleep(Duration::from_millis(100));
}

fn named(not_restored: &[String]) -> Vec<&str> {
    let is_clear = "it was changed between cells, maybe by a process or thread that a cell left running, and was left alone";
    let mut names: Vec<&str> = not_restored
        .iter()
        .filter_map(|text| text.strip_suffix(is_clear)?.strip_suffix(": "))
        .collect();
    names.sort_unstable();
    names
}

#[test]
fn what_was_left_running_and_changed_files_between_cells_is_named_by_undo() {
    for (rung, start) in [
        (Rung::Full, PROCESS),
        (Rung::Full, THREAD),
        (Rung::Full, TIMER),
        (Rung::Landlock, PROCESS),
    ] {
        if rung == Rung::Landlock && is_root() {
            // The session's user may not read the Python of these tests.
            continue;
        }
        let session = open(builder().isolation(Isolation::on(rung)));
        session.good("import os, time, threading, signal\nopen('f', 'w').write('original')");
        session.good(&format!("def work():\n    time.sleep(.3); open('f', 'w').write('later'); os.chmod('f', 0o600); open('new', 'w').close(); time.sleep(.1)\n{start}"));
        wait_for(&session.workspace().join("new"));
        let undone = wait(session.undo(1)).unwrap();
        assert_eq!(
            named(&undone.not_restored),
            ["f", "new"],
            "{rung:?} {start}: {undone:?}"
        );
    }
}

#[test]
fn a_process_that_has_ended_before_anyone_looked_is_named_too() {
    let session = session();
    session.good("import os, time\nopen('f', 'w').write('original')");
    session.good("if os.fork() == 0:\n    time.sleep(.2); open('f', 'w').write('later'); open('new', 'w').close(); os._exit(0)");
    wait_for(&session.workspace().join("new"));
    // The second of two cells does not take the blame, and going back past both names the files.
    session.good("x = 1");
    let undone = wait(session.undo(2)).unwrap();
    assert_eq!(named(&undone.not_restored), ["f", "new"], "{undone:?}");
}

#[test]
fn what_a_thread_writes_until_the_very_end_is_named() {
    let session = session();
    session.good("import os, time, threading");
    session.good("def work():\n    n = 0\n    while True:\n        n += 1; open(f'{n}', 'w').close(); time.sleep(.001)\nthreading.Thread(target=work, daemon=True).start()");
    sleep(Duration::from_millis(300));
    let undone = wait(session.undo(1)).unwrap();
    // The thread began after cell 1: what it made while its cell ran is gone, the rest is there and named.
    let mut left: Vec<String> = std::fs::read_dir(session.workspace())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort_unstable();
    assert_eq!(named(&undone.not_restored), left);
}

#[test]
fn where_nothing_was_left_running_the_user_s_files_are_not_named() {
    let session = session();
    session.good("import subprocess, threading\nx = 1");
    session.good("subprocess.run(['/bin/true']); thread = threading.Thread(target=print); thread.start(); thread.join()");
    std::fs::write(session.workspace().join("notes"), "by the user").unwrap();
    wait(session.put_file("given", b"by the host".to_vec())).unwrap();
    assert_eq!(wait(session.undo(1)).unwrap().not_restored, [""; 0]);
    assert!(session.workspace().join("notes").exists());
}
