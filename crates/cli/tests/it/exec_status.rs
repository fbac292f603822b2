//! W7: the exit status of `cellblock exec`.

use crate::support::{Place, signal};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

fn status(code: &str, arguments: &[&str]) -> i32 {
    Place::new().exec(code, arguments).status
}

#[test]
fn success_is_0_and_failure_is_1() {
    assert_eq!(status("1 + 1", &[]), 0);
    assert_eq!(status("", &[]), 0);
    assert_eq!(status("raise ValueError('no')", &[]), 1);
    assert_eq!(status("this is no python", &[]), 1);
    assert_eq!(status("import sys; sys.exit(3)", &[]), 1);
    assert_eq!(status("import sys; sys.exit(0)", &[]), 0);
}

#[test]
fn a_time_out_is_124() {
    let code = "print('started', flush=True)\nwhile True: pass";
    let arguments = ["exec", "--stdlib", "-c", code, "--timeout", "500ms"];
    insta::assert_snapshot!(Place::new().transcript(arguments));
}

#[test]
fn a_crash_is_128_and_the_signal() {
    let code = "print('before', flush=True)\nimport os; os.kill(os.getpid(), 11)";
    insta::assert_snapshot!(Place::new().transcript(["exec", "--stdlib", "-c", code]));
    assert_eq!(status("import os; os.abort()", &[]), 128 + 6);
}

#[test]
fn an_interpreter_that_ends_itself_hands_its_code_on() {
    assert_eq!(status("import os; os._exit(7)", &[]), 7);
    assert_eq!(status("import os; os._exit(139)", &[]), 139);
    assert_eq!(status("import os; os._exit(0)", &[]), 1);
}

#[test]
fn an_interrupt_is_130() {
    let place = Place::new();
    let mut child = started(
        &place,
        "print('started', flush=True)\nimport time\ntime.sleep(60)",
    );
    signal(&child, "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn a_second_interrupt_ends_what_does_not_listen() {
    let place = Place::new();
    let code = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('started', flush=True)\nwhile True: pass";
    let mut child = started(&place, code);
    signal(&child, "INT");
    signal(&child, "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn a_termination_is_143() {
    let place = Place::new();
    let mut child = started(&place, "print('started', flush=True)\nwhile True: pass");
    signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

/// Stops the host for twice the time of the cell, and lets it go on. The code must have said that it started.
fn suspended(code: &str) -> std::process::Output {
    let place = Place::new();
    let mut command = place.command(["exec", "--stdlib", "--timeout", "2", "-c", code]);
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "started\n");
    signal(&child, "STOP");
    std::thread::sleep(std::time::Duration::from_secs(4));
    signal(&child, "CONT");
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut output, &mut rest).unwrap();
    let mut ended = child.wait_with_output().unwrap();
    ended.stdout = rest.into_bytes();
    ended
}

#[test]
fn while_the_host_is_suspended_the_clock_of_a_cell_stands_still() {
    // The code waits for somebody who reads what it prints.
    let printing = "print('started', flush=True)\nimport time\nfor _ in range(5):\n    time.sleep(0.1)\n    print('x' * 200_000)\nprint('done')";
    // The code goes on, and takes less time than it has.
    let waiting = "print('started', flush=True)\nimport time\ntime.sleep(0.5)\nprint('done')";
    // The code is at work when the host comes back.
    let working = "print('started', flush=True)\nimport time\nend = time.monotonic() + 4.5\nwhile time.monotonic() < end: pass\nprint('done')";
    for code in [printing, waiting, working] {
        let ended = suspended(code);
        let error = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(0), "{code}\n{error}");
        assert!(ended.stdout.ends_with(b"done\n"), "{code}");
    }
}

#[test]
fn a_cell_that_never_ends_has_no_more_time_than_its_own_when_the_host_was_suspended() {
    let ended = suspended("print('started', flush=True)\nwhile True: pass");
    assert_eq!(ended.status.code(), Some(124));
}

#[test]
fn code_that_is_too_long_is_refused() {
    let place = Place::new();
    fs::write(place.path().join("long.py"), vec![b'#'; 16_000_001]).unwrap();
    let ended = place.run(["exec", "long.py"]);
    let message = "error: long.py is too long: a cell has at most 16000000 bytes\n";
    assert_eq!((ended.status, &ended.stderr[..]), (2, message));
}

/// A snippet that has said `started`.
fn started(place: &Place, code: &str) -> Child {
    let mut command = place.command(["exec", "--stdlib", "-c", code]);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "started\n");
    child
}
