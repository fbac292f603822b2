//! Start, input, output, signals, terminals and the end of one process.

use crate::common::{builder, open, run, wait};
use cellblock_protocol::{ProcessStatus, ProcessStream, Spawn, TerminalSize};
use cellblock_session::{Process, ProcessEvent, Session};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) fn spawn(session: &Session, spawn: Spawn) -> Process {
    wait(session.spawn(spawn)).unwrap()
}

/// What a line of the shell writes to its standard output, and its exit code.
pub(crate) fn shell(session: &Session, line: &str) -> (String, Option<i32>) {
    let process = spawn(session, Spawn::shell(line));
    let output = wait(process.output());
    let text = String::from_utf8(output.stdout).unwrap();
    (text, output.end.exit_code)
}

/// Waits until a process has written this.
pub(crate) fn wait_for_output(process: &Process, wanted: &str) {
    wait(async {
        let mut events = process.attach(0);
        let mut seen = String::new();
        while !seen.contains(wanted) {
            match events.next().await {
                Some(ProcessEvent::Output { bytes, .. }) => {
                    seen.push_str(&String::from_utf8_lossy(&bytes));
                }
                other => panic!("{other:?} instead of {wanted:?}, after {seen:?}"),
            }
        }
    });
}

const TERMINAL: TerminalSize = TerminalSize { cols: 80, rows: 24 };

#[test]
fn a_process_runs_beside_the_interpreter_in_the_workspace() {
    let session = open(builder());
    run(&session, "open('a.txt', 'w').write('from a cell')");
    let process = spawn(&session, Spawn::new(["cat", "a.txt"]).tag("reader"));
    let output = wait(process.output());
    assert_eq!(output.stdout, b"from a cell");
    assert_eq!((output.end.exit_code, output.end.signal), (Some(0), None));
    assert_eq!(output.end.status, ProcessStatus::Exited);
    assert_eq!(process.info().tag.as_deref(), Some("reader"));
    assert_eq!(
        shell(&session, "echo x; echo y >&2; exit 3"),
        ("x\n".to_owned(), Some(3))
    );
}

#[test]
fn input_is_read_until_it_is_closed() {
    let session = open(builder());
    let process = spawn(&session, Spawn::new(["sort", "-n"]).with_input());
    wait(process.write(b"10\n9\n")).unwrap();
    wait(process.close_input()).unwrap();
    assert_eq!(wait(process.output()).stdout, b"9\n10\n");
    let refused = wait(process.write(b"more")).unwrap_err();
    assert!(refused.to_string().contains("closed input"), "{refused}");
    let silent = wait(spawn(&session, Spawn::new(["cat"])).output());
    assert_eq!(silent.stdout, b"");
}

#[test]
fn variables_and_directories_are_those_that_were_asked_for() {
    let session = open(builder());
    run(&session, "import os; os.mkdir('below')");
    let process = Spawn::shell("echo $ANSWER; pwd; echo $HOME").variable("ANSWER", "42");
    let output = wait(spawn(&session, process.current_directory("below")).output());
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "42");
    assert!(lines[1].ends_with("/below"), "{text}");
    assert!(!lines[2].is_empty());
    let nowhere = Spawn::new(["true"]).current_directory("/nowhere");
    let error = wait(session.spawn(nowhere)).unwrap_err();
    assert_eq!(error.code(), "not_found");
    let unknown = wait(session.spawn(Spawn::new(["no-such-program"]))).unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "there is no program `no-such-program` in the session"
    );
    run(&session, "open('plain.txt', 'w').write('no program')");
    let refused = wait(session.spawn(Spawn::new(["./plain.txt"]))).unwrap_err();
    assert!(
        refused.to_string().contains("cannot be executed"),
        "{refused}"
    );
}

#[test]
fn a_process_starts_speaks_and_ends_while_a_cell_runs() {
    let session = open(builder());
    let mut running = session.start("print('begun')\nopen('go').read() if False else None\nimport time, os\nwhile not os.path.exists('go'): time.sleep(0.01)\n'done'").unwrap();
    wait(running.next()).unwrap();
    assert_eq!(
        shell(&session, "echo beside"),
        ("beside\n".to_owned(), Some(0))
    );
    assert_eq!(shell(&session, "touch go"), (String::new(), Some(0)));
    let result = wait(running.result()).unwrap();
    assert_eq!(result.repr(), Some("'done'"));
}

#[test]
fn a_signal_reaches_the_group_and_its_number_is_told() {
    let session = open(builder());
    let process = spawn(&session, Spawn::shell("sleep 1000 & echo up; wait"));
    wait_for_output(&process, "up");
    wait(process.signal(15)).unwrap();
    let end = wait(process.wait());
    assert_eq!((end.exit_code, end.signal), (None, Some(15)));
    assert_eq!(end.status, ProcessStatus::Signaled);
    assert!(wait(process.signal(15)).is_err());
    assert!(wait(process.signal(0)).is_err());
    assert!(wait(process.signal(65)).is_err());
}

#[test]
fn the_end_of_a_program_that_setsid_starts_is_told() {
    let session = open(builder());
    let line = "sleep 0.2; echo late; exit 7";
    let process = spawn(&session, Spawn::new(["setsid", "sh", "-c", line]));
    let output = wait(process.output());
    assert_eq!(
        (output.stdout, output.end.exit_code),
        (b"late\n".to_vec(), Some(7))
    );
    // A signal reaches it in its new session.
    let line = "echo up; sleep 1000 & wait";
    let process = spawn(&session, Spawn::new(["setsid", "sh", "-c", line]));
    wait_for_output(&process, "up");
    wait(process.signal(15)).unwrap();
    assert_eq!(wait(process.wait()).signal, Some(15));
}

#[test]
fn a_process_is_in_a_group_of_its_own_that_it_does_not_lead() {
    let session = open(builder());
    let ids = "import os; print(os.getpid(), os.getpgid(0), os.getsid(0), os.getppid())";
    let groups = [(), ()].map(|()| {
        let output = wait(spawn(&session, Spawn::new(["python3", "-c", ids])).output());
        let text = String::from_utf8(output.stdout).unwrap();
        let ids: Vec<i32> = text
            .split_whitespace()
            .map(|id| id.parse().unwrap())
            .collect();
        let [pid, group, leader, parent] = ids[..] else {
            panic!("{text}");
        };
        assert_ne!(pid, group);
        assert_eq!(group, leader);
        // Its parent does not change: a program may ask to be ended with it.
        assert_ne!(parent, leader);
        group
    });
    assert_ne!(groups[0], groups[1]);
}

#[test]
fn a_process_that_ignores_signals_is_killed_with_all_that_left_its_group() {
    let session = open(builder());
    let line = "trap '' TERM INT HUP; (setsid setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' &) ; echo up; while :; do sleep 1; done";
    let process = spawn(&session, Spawn::shell(line));
    wait_for_output(&process, "up");
    wait(process.signal(15)).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(process.end(), None);
    wait(process.kill());
    assert_eq!(wait(process.wait()).status, ProcessStatus::Killed);
    assert_eq!(others(&session), Vec::<String>::new());
}

/// The names of shells and the like that work in the workspace of a session, sorted; seen from the host, for cells do not see all of them.
pub(crate) fn others(session: &Session) -> Vec<String> {
    const NAMES: [&str; 6] = ["sh", "sleep", "setsid", "yes", "cat", "bash"];
    let names = host_pids(session)
        .into_iter()
        .filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/stat")).ok())
        .filter_map(|stat| {
            let (name, rest) = stat.split_once('(')?.1.rsplit_once(") ")?;
            (!rest.starts_with('Z')).then(|| name.to_owned())
        });
    let mut names: Vec<String> = names
        .filter(|name| NAMES.contains(&name.as_str()))
        .collect();
    names.sort();
    names
}

/// The processes that work in the workspace of a session, by their ids on the host.
pub(crate) fn host_pids(session: &Session) -> Vec<u32> {
    let place = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino()));
    let workspace = place(session.workspace()).unwrap();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            place(Path::new(&format!("/proc/{pid}/cwd"))).is_ok_and(|found| found == workspace)
        })
        .collect()
}

#[test]
fn the_end_is_told_when_the_program_ends_although_its_child_holds_the_output() {
    let session = open(builder());
    let begin = Instant::now();
    let process = spawn(&session, Spawn::shell("sleep 1000 & echo done"));
    let output = wait(process.output());
    assert_eq!(
        (output.stdout, output.end.exit_code),
        (b"done\n".to_vec(), Some(0))
    );
    assert!(begin.elapsed() < Duration::from_secs(30));
    assert_eq!(others(&session), ["sleep"]);
    wait(process.kill());
    assert_eq!(others(&session), Vec::<String>::new());
}

#[test]
fn time_that_is_over_ends_a_process_with_all_that_it_started() {
    let session = open(builder());
    let line = Spawn::shell("(setsid sleep 1000 &); sleep 1000");
    let process = spawn(&session, line.timeout(Duration::from_millis(200)));
    let end = wait(process.wait());
    assert_eq!((end.status, end.signal), (ProcessStatus::Timeout, Some(9)));
    assert_eq!(others(&session), Vec::<String>::new());
}

#[test]
fn a_terminal_has_job_control_an_interrupt_key_and_a_size() {
    let session = open(builder());
    let process = spawn(
        &session,
        Spawn::new(["sh", "-i"])
            .with_terminal(TERMINAL)
            .variable("PS1", "ready> "),
    );
    wait_for_output(&process, "ready> ");
    wait(process.write(b"stty size; tty -s && echo is-a-terminal\n")).unwrap();
    wait_for_output(&process, "24 80\r\n");
    wait_for_output(&process, "is-a-terminal\r\n");
    process
        .resize(TerminalSize {
            cols: 100,
            rows: 30,
        })
        .unwrap();
    wait(process.write(b"stty size\n")).unwrap();
    wait_for_output(&process, "30 100\r\n");
    wait(process.write(b"sleep 1000; echo after=$?\n")).unwrap();
    wait_for_output(&process, "echo after=$?\r\n");
    std::thread::sleep(Duration::from_millis(300));
    wait(process.write(b"\x03")).unwrap();
    wait_for_output(&process, "^C");
    wait(process.write(b"sleep 1000\n")).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    wait(process.write(b"\x1a")).unwrap();
    wait_for_output(&process, "Stopped");
    wait(process.write(b"kill %1; exit 5\n")).unwrap();
    wait(process.write(b"exit 5\n")).ok();
    assert_eq!(wait(process.wait()).exit_code, Some(5));
    assert!(process.resize(TERMINAL).is_err());
}

#[test]
fn pipes_have_no_size_and_output_says_its_stream() {
    let session = open(builder());
    let process = spawn(&session, Spawn::shell("echo out; sleep 0.2; echo err >&2"));
    assert!(process.resize(TERMINAL).is_err());
    let mut events = process.attach(0);
    let mut seen = Vec::new();
    while let Some(event) = wait(events.next()) {
        if let ProcessEvent::Output {
            stream,
            offset,
            bytes,
        } = event
        {
            seen.push((stream, offset, String::from_utf8(bytes).unwrap()));
        }
    }
    assert_eq!(
        seen,
        [
            (ProcessStream::Stdout, 0, "out\n".to_owned()),
            (ProcessStream::Stderr, 4, "err\n".to_owned())
        ]
    );
}

#[test]
fn processes_are_listed_found_again_and_read_from_an_offset() {
    let session = open(builder());
    assert_eq!(session.processes(), []);
    let process = spawn(
        &session,
        Spawn::shell("echo 0123456789; exec sleep 1000").tag("t"),
    );
    wait_for_output(&process, "9\n");
    let listed = session.processes();
    assert_eq!(listed, [process.info().clone()]);
    let again = session.process(&listed[0].proc).unwrap();
    let mut events = again.attach(7);
    let Some(ProcessEvent::Output { offset, bytes, .. }) = wait(events.next()) else {
        panic!("no output")
    };
    assert_eq!((offset, &bytes[..]), (7, &b"789\n"[..]));
    wait(again.kill());
    assert_eq!(session.processes(), []);
    assert_eq!(session.process("p99").unwrap_err().code(), "not_found");
    wait(session.close());
    assert_eq!(
        wait(session.spawn(Spawn::new(["true"])))
            .unwrap_err()
            .code(),
        "ended"
    );
}
