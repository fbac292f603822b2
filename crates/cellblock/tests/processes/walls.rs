//! A spawned process is behind the same walls as what a cell starts.

use crate::basics::{shell, spawn};
use crate::common::{builder, open, run, wait};
use cellblock::{Session, Spawn};

/// What a process is, in the kernel's words.
const LOOK: &str = r"
import os
wanted = ('Cap', 'NoNewPrivs', 'Seccomp', 'Uid', 'Gid', 'Groups')
for line in open('/proc/self/status'):
    if line.startswith(wanted):
        print(line.strip())
for name in sorted(os.listdir('/proc/self/ns')):
    print(name, os.readlink('/proc/self/ns/' + name))
for line in open('/proc/self/limits'):
    print(line.strip())
print(open('/proc/self/cgroup').read())
print(open('/proc/self/oom_score_adj').read())
print(os.umask(0o22))
print(sorted(os.listdir('/proc/self/fd')))
";

fn by_cell(session: &Session) -> String {
    let code = "import subprocess, sys
process = subprocess.run([sys.executable, '-I', '-c', look], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
print(process.stdout, end='')";
    let seed = std::iter::once(("look".to_owned(), LOOK.into())).collect();
    wait(session.seed(seed)).unwrap();
    run(session, code).stdout
}

fn by_spawn(session: &Session) -> String {
    let python = session.python().display().to_string();
    let process = spawn(session, Spawn::new([python.as_str(), "-I", "-c", LOOK]));
    let (output, end) = wait(process.output());
    assert_eq!(end.exit_code, Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_spawned_process_has_the_walls_of_a_cell_s_child() {
    let session = open(builder());
    let cell = by_cell(&session);
    assert!(cell.contains("Seccomp:"), "{cell}");
    assert_eq!(by_spawn(&session), cell);
    if let Ok(fork) = wait(session.fork()) {
        assert_eq!(by_spawn(&fork), by_cell(&fork));
    }
}

#[test]
fn a_spawned_process_reaches_neither_the_head_nor_our_own_processes() {
    let session = open(builder());
    run(&session, "secret = 'c0ffee' * 4; import os; pid = os.getpid()");
    let pid = run(&session, "pid").repr().unwrap().to_owned();
    let (text, _) = shell(&session, &format!("kill -9 {pid} 2>&1; cat /proc/{pid}/environ 2>&1; head -c 1 /proc/{pid}/mem 2>&1"));
    assert!(text.contains("ermitted") || text.contains("ermission") || text.contains("No such"), "{text}");
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
    let (output, end) = wait(process.output());
    assert_eq!((&output.stdout[..], end.exit_code), (&b"alive True\n"[..], Some(0)));
    assert_eq!(shell(&session, "echo on"), ("on\n".to_owned(), Some(0)));
    assert_eq!(run(&session, "secret[:6]").repr(), Some("'c0ffee'"));
}
