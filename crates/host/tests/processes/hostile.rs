//! Processes that flood, that have no reader, that fork away, and that take too much.

use crate::basics::{others, shell, spawn, wait_for_output};
use crate::common::{builder, open, run, wait};
use cellblock_protocol::{Limits, ProcessStatus, Spawn, StateOutcome, TerminalSize};
use cellblock_session::{Cgroups, Process, ProcessEvent};
use std::time::Duration;

#[test]
fn a_reader_loses_nothing_of_a_flood() {
    let session = open(builder());
    let line = "head -c 20000000 /dev/zero | tr '\\0' x; echo end";
    let mut events = wait(session.spawn_attached(Spawn::shell(line)))
        .unwrap()
        .events;
    let (mut read, mut last) = (0, Vec::new());
    while let Some(event) = wait(events.next()) {
        match event {
            ProcessEvent::Output { offset, bytes, .. } => {
                assert_eq!(offset, read);
                read += bytes.len() as u64;
                last = bytes;
            }
            ProcessEvent::Dropped { .. } => panic!("something was lost"),
            ProcessEvent::End(end) => assert_eq!(end.exit_code, Some(0)),
        }
    }
    assert_eq!(read, 20_000_004);
    assert!(last.ends_with(b"end\n"));
}

#[test]
fn a_flood_that_nobody_reads_is_counted_and_holds_up_neither_process_nor_cells() {
    let session = open(builder());
    let process = spawn(
        &session,
        Spawn::shell("head -c 30000000 /dev/zero; echo end"),
    );
    assert_eq!(run(&session, "1 + 1").repr(), Some("2"));
    assert_eq!(wait(process.wait()).exit_code, Some(0));
    let mut events = process.attach(0);
    let mut dropped = 0;
    let mut read = 0;
    while let Some(event) = wait(events.next()) {
        match event {
            ProcessEvent::Output { bytes, .. } => read += bytes.len() as u64,
            ProcessEvent::Dropped { bytes } => dropped += bytes,
            ProcessEvent::End(_) => {}
        }
    }
    assert_eq!(dropped + read, 30_000_004);
    assert!(read <= 1 << 20, "{read}");
}

#[test]
fn a_reader_that_stops_holds_the_process_up_until_it_goes() {
    let session = open(builder());
    let process = spawn(
        &session,
        Spawn::shell("head -c 5000000 /dev/zero; echo end"),
    );
    let events = process.attach(0);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(process.end(), None);
    drop(events);
    assert_eq!(wait(process.wait()).exit_code, Some(0));
}

#[test]
fn a_terminal_that_nobody_reads_hangs_nothing() {
    let session = open(builder());
    let size = TerminalSize { cols: 80, rows: 24 };
    let process = spawn(&session, Spawn::new(["yes"]).with_terminal(size));
    let events = process.attach(0);
    // Long enough that the process waits for the reader.
    let cell = "import time\ntime.sleep(2)\n1 + 1";
    assert_eq!(run(&session, cell).repr(), Some("2"));
    wait(process.kill());
    assert_eq!(wait(process.wait()).status, ProcessStatus::Killed);
    drop(events);
    let unread = spawn(&session, Spawn::new(["yes"]).with_terminal(size));
    let _events = unread.attach(0);
    wait(session.close());
    assert_eq!(wait(unread.wait()).status, ProcessStatus::SessionEnded);
}

#[test]
fn many_processes_end_at_the_limit_and_go_on_after_it() {
    let limits = Limits {
        processes: 16,
        ..Limits::default()
    };
    let session = open(builder().limits(limits));
    let mut processes = Vec::new();
    let error = loop {
        match wait(session.spawn(Spawn::new(["sleep", "1000"]))) {
            Ok(process) => processes.push(process),
            Err(error) => break error,
        }
        // Without a user namespace the kernel counts from what the user has, with room for what else comes.
        assert!(processes.len() < 400, "there is no limit");
    };
    assert!(error.to_string().contains("processes"), "{error}");
    assert!(processes.len() >= 4, "{}", processes.len());
    for process in &processes {
        wait(process.kill());
    }
    assert_eq!(
        shell(&session, "echo again"),
        ("again\n".to_owned(), Some(0))
    );
    assert_eq!(run(&session, "1 + 1").repr(), Some("2"));
}

#[test]
fn a_fork_bomb_in_a_process_is_ended_with_it() {
    let session = open(builder());
    let bomb = spawn(
        &session,
        Spawn::shell("echo up; while :; do (sleep 1000 &) ; done 2>/dev/null"),
    );
    wait_for_output(&bomb, "up");
    std::thread::sleep(Duration::from_millis(300));
    wait(bomb.kill());
    assert_eq!(others(&session), Vec::<String>::new());
    assert_eq!(
        shell(&session, "echo again"),
        ("again\n".to_owned(), Some(0))
    );
}

#[test]
fn a_process_that_takes_too_much_memory_loses_it_and_python_goes_on() {
    let limits = Limits {
        memory: 300 << 20,
        ..Limits::default()
    };
    let session = open(builder().limits(limits));
    run(&session, "x = 1");
    let hog = "import subprocess, sys, time
code = 'import time; x = bytearray(200 << 20); time.sleep(1000)'
children = [subprocess.Popen([sys.executable, '-c', code]) for _ in range(8)]
time.sleep(1000)";
    let process = spawn(
        &session,
        Spawn::new(["python3", "-c", hog]).timeout(Duration::from_secs(50)),
    );
    // The kernel may take a child of the process instead: then the process goes on without it.
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while process.end().is_none() && std::time::Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
    let result = run(&session, "x + 1");
    assert_eq!(
        (result.repr(), &result.state.outcome),
        (Some("2"), &StateOutcome::Kept)
    );
    assert!(result.state.not_restored.is_empty());
    wait(process.kill());
}

/// Where a cgroup counts memory, init looks at such connections, and cannot tell whose they are.
#[test]
fn all_processes_end_before_python_does_for_data_in_connections_that_are_not_accepted() {
    const BEFORE: usize = 260;
    if Cgroups::detect().is_none() {
        return;
    }
    let limits = Limits {
        memory: 128 << 20,
        processes: 1000,
        ..Limits::default()
    };
    let session = open(builder().limits(limits));
    run(&session, "x = 1");
    let spawn = |argv: [&str; 3]| {
        let spawn = Spawn::new(argv).timeout(Duration::from_secs(100));
        wait(session.spawn(spawn)).unwrap()
    };
    let mut processes: Vec<Process> = (0..BEFORE)
        .map(|_| spawn(["sleep", "500", "500"]))
        .collect();
    let hoard = "import socket
listener = socket.create_server(('127.0.0.1', 0), backlog=4096)
while True:
    with socket.create_connection(listener.getsockname()) as sender:
        sender.setblocking(False)
        sender.send(bytes(60000))";
    processes.push(spawn(["python3", "-c", hoard]));
    for process in processes {
        assert_eq!(wait(process.wait()).status, ProcessStatus::Signaled);
    }
    let result = run(&session, "x + 1");
    assert_eq!(
        (result.repr(), &result.state.outcome),
        (Some("2"), &StateOutcome::Kept)
    );
}

#[test]
fn a_process_that_fills_the_disk_does_not_outlive_the_session_s_limit() {
    let limits = Limits {
        disk: 20 << 20,
        ..Limits::default()
    };
    let session = open(builder().limits(limits));
    run(&session, "x = 1");
    let line = "i=0; while :; do i=$((i+1)); head -c 1000000 /dev/zero > file$i; done";
    let process = spawn(&session, Spawn::shell(line));
    let end = wait(process.wait());
    assert_eq!(end.status, ProcessStatus::SessionEnded);
    // The process is killed first, and the session judges afterwards.
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    let reason = loop {
        if let Some(reason) = session.end() {
            break reason;
        }
        assert!(std::time::Instant::now() < deadline, "the session goes on");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(reason.contains("20 MiB"), "{reason}");
}
