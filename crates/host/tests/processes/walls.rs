//! A spawned process is behind the same walls as what a cell starts.

use crate::basics::{host_pids, shell, spawn};
use crate::common::{builder, open, run, wait};
use cellblock_protocol::Spawn;
use cellblock_session::Session;
use std::fs;
use std::time::{Duration, Instant};

/// What a process is, in the kernel's words. Read on the host: some sessions do not see `/proc`.
fn described(session: &Session, argument: &str) -> Vec<String> {
    let command = format!("sleep\0{argument}\0").into_bytes();
    let is_it =
        |pid: &u32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line == command);
    let deadline = Instant::now() + Duration::from_secs(30);
    let pid = loop {
        match host_pids(session).into_iter().find(is_it) {
            Some(pid) => break pid,
            None => assert!(Instant::now() < deadline, "the process does not come"),
        }
    };
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap();
    let wanted = [
        "Cap",
        "NoNewPrivs",
        "Seccomp",
        "Uid",
        "Gid",
        "Groups",
        "Umask",
    ];
    let mut lines: Vec<String> = read("status")
        .lines()
        .filter(|line| wanted.iter().any(|wanted| line.starts_with(wanted)))
        .map(str::to_owned)
        .collect();
    for name in ["cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"] {
        let link = fs::read_link(format!("/proc/{pid}/ns/{name}")).unwrap();
        lines.push(link.display().to_string());
    }
    // Without a user namespace the limit of processes counts from those that the user has at that moment.
    let limits = read("limits");
    lines.extend(
        limits
            .lines()
            .filter(|line| !line.starts_with("Max processes"))
            .map(str::to_owned),
    );
    lines.extend(["cgroup", "oom_score_adj"].map(read));
    let mut open = open_descriptors(pid);
    for _ in 0..100 {
        if open == "0 1 2" {
            break;
        }
        // The program may be about to load its libraries.
        std::thread::sleep(Duration::from_millis(10));
        open = open_descriptors(pid);
    }
    lines.push(open);
    lines
}

fn open_descriptors(pid: u32) -> String {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).expect("a process");
    let mut open: Vec<_> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    open.sort();
    open.join(" ")
}

#[test]
fn a_spawned_process_has_the_walls_of_a_cell_s_child() {
    let compare = |session: &Session| {
        run(
            session,
            "import subprocess\nchild = subprocess.Popen(['sleep', '1001'], stdin=subprocess.DEVNULL)",
        );
        let process = spawn(session, Spawn::new(["sleep", "1002"]));
        let (cell, spawned) = (described(session, "1001"), described(session, "1002"));
        assert!(
            cell.iter().any(|line| line.starts_with("Seccomp:\t2")),
            "{cell:?}"
        );
        assert_eq!(spawned, cell);
        wait(process.kill());
        run(session, "child.kill(); _ = child.wait()");
    };
    let session = open(builder());
    compare(&session);
    if let Ok(fork) = wait(session.fork()) {
        compare(&fork);
    }
}

#[test]
fn a_spawned_process_reaches_neither_the_head_nor_our_own_processes() {
    let session = open(builder());
    run(
        &session,
        "secret = 'c0ffee' * 4; import os; pid = os.getpid()",
    );
    let pid = run(&session, "pid").repr().unwrap().to_owned();
    let (text, _) = shell(
        &session,
        &format!(
            "kill -9 {pid} 2>&1; cat /proc/{pid}/environ 2>&1; head -c 1 /proc/{pid}/mem 2>&1"
        ),
    );
    assert!(
        text.contains("ermitted") || text.contains("ermission") || text.contains("No such"),
        "{text}"
    );
    assert_eq!(run(&session, "secret[:6]").repr(), Some("'c0ffee'"));
    // Its parent is the supervisor, and the parent of that the spawner.
    let hit = "import os, signal
parent = os.getppid()
for pid in {parent, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10} - {os.getpid()}:
    for kill in (os.kill, os.killpg):
        try:
            kill(pid, signal.SIGKILL)
        except OSError:
            pass
try:
    os.kill(-1, signal.SIGKILL)
except OSError:
    pass
print('alive', os.getppid() == parent)";
    let process = spawn(&session, Spawn::new(["python3", "-c", hit]));
    let output = wait(process.output());
    assert_eq!(
        (&output.stdout[..], output.end.exit_code),
        (&b"alive True\n"[..], Some(0))
    );
    assert_eq!(shell(&session, "echo on"), ("on\n".to_owned(), Some(0)));
    assert_eq!(run(&session, "secret[:6]").repr(), Some("'c0ffee'"));
}
