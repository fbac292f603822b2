//! Programs that end, hang, write without end, or leave descendants.

use std::path::Path;

use super::*;

fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]);
    command
}

fn lines_of(script: &str) -> (Result<EndedProgram, ProgramStopped>, Vec<(Stream, String)>) {
    let mut lines = Vec::new();
    let result = run(
        shell(script),
        Some(Duration::from_secs(20)),
        &Cancel::new(),
        &mut |stream, line| lines.push((stream, line.to_owned())),
    );
    (result, lines)
}

#[test]
fn lines_come_with_their_stream_and_the_last_ones_are_kept() {
    let (ended, lines) = lines_of("echo one; sleep 0.1; echo two >&2; exit 3");
    let ended = ended.unwrap();
    assert_eq!(
        lines,
        [
            (Stream::Stdout, "one".to_owned()),
            (Stream::Stderr, "two".to_owned())
        ]
    );
    assert_eq!(ended.status.code(), Some(3));
    assert_eq!(ended.tail, ["one", "two"]);
}

#[test]
fn a_flood_leaves_a_bounded_tail() {
    let (ended, lines) = lines_of("seq 1 5000; head -c 100000 /dev/zero | tr '\\0' x");
    assert!(lines.len() > 5000);
    let tail = ended.unwrap().tail;
    assert_eq!(tail.len(), TAIL_LINES);
    assert!(tail.iter().all(|line| line.len() <= MAX_TAIL_LINE_CHARS));
}

#[test]
fn a_descendant_that_keeps_the_pipes_open_is_killed_and_not_waited_for() {
    let started = Instant::now();
    let (ended, lines) = lines_of("sleep 1000 & echo $!");
    assert!(ended.unwrap().status.success());
    assert!(started.elapsed() < Duration::from_secs(10));
    let sleeper = Path::new("/proc").join(&lines[0].1).join("cmdline");
    // A zombie that is not reaped yet has an empty command line.
    while !std::fs::read(&sleeper).unwrap_or_default().is_empty() {
        assert!(
            started.elapsed() < Duration::from_secs(10),
            "the descendant is still running"
        );
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_deadline_and_a_cancellation_end_it() {
    let late = run(
        shell("sleep 1000"),
        Some(Duration::from_millis(100)),
        &Cancel::new(),
        &mut |_, _| {},
    );
    assert!(matches!(late, Err(ProgramStopped::TimedOut)));

    let cancel = Cancel::new();
    let guard = cancel.on_drop();
    let waiter = thread::spawn(move || {
        run(
            shell("trap '' TERM; sleep 1000"),
            None,
            &cancel,
            &mut |_, _| {},
        )
    });
    drop(guard);
    assert!(matches!(
        waiter.join().unwrap(),
        Err(ProgramStopped::Cancelled)
    ));
}

#[test]
fn a_password_in_an_address_is_not_repeated() {
    assert_eq!(
        clean("\u{1b}[31merror: https://me:secret@index.example/simple/ and http://a.b/c@d"),
        "[31merror: https://****@index.example/simple/ and http://a.b/c@d"
    );
}
