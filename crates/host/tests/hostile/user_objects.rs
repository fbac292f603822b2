//! What the kernel counts for each user. The user of a session may be the host's own, and must be left enough.

use super::common::{behind, python, run, short, wait};
use super::scene::Scene;
use cellblock_protocol::Status::{Crashed, Failure, Success};
use cellblock_protocol::{Cell, Isolation, Limits, Rung};
use serde_json::Map;
use std::process::Command;
use std::time::Duration;

/// Both sides begin with this.
const CALLS: &str = r"
import ctypes, fcntl, os, signal, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def count(attempt, most):
    done = 0
    while done < most:
        try:
            if not attempt():
                break
        except OSError:
            break
        done += 1
    return done
class Event(ctypes.Structure):
    _fields_ = [('value', ctypes.c_void_p), ('signal', ctypes.c_int), ('how', ctypes.c_int), ('rest', ctypes.c_char * 48)]
def timer():
    event, number = Event(None, 40, 0, b''), ctypes.c_int()
    return libc.syscall(222, 1, ctypes.byref(event), ctypes.byref(number)) == 0
def pending_signal():
    signal.pthread_sigmask(signal.SIG_BLOCK, {40})
    told = (ctypes.c_int * 32)(40, 0, -1)
    return libc.syscall(129, os.getpid(), 40, told) == 0
kept = []
def pipe():
    kept.append(os.pipe())
    return True
def inotify():
    return libc.inotify_init() >= 0
def locked_segment():
    kept.append(libc.shmget(0, 1 << 20, 0o1600))
    return kept[-1] >= 0 and libc.shmctl(kept[-1], 11, None) == 0
";

/// Takes as much as there is in a session of its own, and looks what is left for this user outside.
fn is_left_for_the_host(attack: &str, look: &str) {
    let scene = Scene::new();
    let mut sessions = vec![(scene.session.clone(), "full")];
    let bare = behind(
        Isolation::on(Rung::Landlock),
        Limits::default(),
        &Map::new(),
    );
    sessions.push((bare.clone(), "landlock"));
    for (session, rung) in sessions {
        let cell = Cell::new(format!("{CALLS}{attack}")).timeout(Duration::from_secs(20));
        let result = run(&session, cell);
        assert!(
            [Success, Failure].contains(&result.status),
            "{rung}: {}",
            short(&result)
        );
        println!("{rung}: {}", result.stdout);
        let script = format!("{CALLS}{look}");
        let seen = Command::new(python()).args(["-I", "-c", &script]).output();
        let seen = seen.unwrap();
        assert!(
            seen.status.success(),
            "after a session on the rung {rung} took {}: {}{}",
            result.stdout.trim(),
            String::from_utf8_lossy(&seen.stdout),
            String::from_utf8_lossy(&seen.stderr),
        );
    }
    wait(bare.close());
    scene.goes_on_or_has_ended();
    scene.ends_clean();
}

#[test]
fn timers() {
    is_left_for_the_host(
        "print(count(timer, 1 << 20))",
        "got = count(timer, 500); sys.exit(None if got == 500 else f'only {got} timers')",
    );
}

#[test]
fn signals_that_wait() {
    is_left_for_the_host(
        "print(count(pending_signal, 1 << 20))",
        "got = count(pending_signal, 500); sys.exit(None if got == 500 else f'only {got} signals')",
    );
}

#[test]
fn locked_memory() {
    is_left_for_the_host(
        "print(count(locked_segment, 64))",
        r"
got = count(locked_segment, 4)
for number in kept:
    libc.shmctl(number, 0, None)
sys.exit(None if got == 4 else f'only {got} MiB')
",
    );
}

#[test]
fn instances_of_inotify() {
    is_left_for_the_host(
        "print(count(inotify, 1000))",
        "got = count(inotify, 20); sys.exit(None if got == 20 else f'only {got} instances')",
    );
}

#[test]
fn pages_of_pipes() {
    // A user has 16 384 on most machines; beyond that, a new pipe has two instead of sixteen.
    let attack = r"
for _ in range(8):
    if os.fork() == 0:
        count(pipe, 2000)
        time.sleep(15)
        os._exit(0)
time.sleep(3)
print(count(pipe, 2000))
";
    is_left_for_the_host(
        attack,
        "size = fcntl.fcntl(os.pipe()[0], 1032); sys.exit(None if size == 65536 else f'a pipe of {size}')",
    );
}

#[test]
fn pages_of_pipes_with_a_name() {
    let attack = r"
def named():
    path = f'fifo{len(kept)}'
    os.mkfifo(path)
    kept.append(os.open(path, os.O_RDWR))
    return True
for _ in range(8):
    if os.fork() == 0:
        os.mkdir(str(os.getpid()))
        os.chdir(str(os.getpid()))
        count(named, 2000)
        time.sleep(15)
        os._exit(0)
time.sleep(3)
print('taken')
";
    is_left_for_the_host(
        attack,
        "size = fcntl.fcntl(os.pipe()[0], 1032); sys.exit(None if size == 65536 else f'a pipe of {size}')",
    );
}

#[test]
fn pages_of_large_pipes() {
    let attack = r"
def large():
    pipe()
    return fcntl.fcntl(kept[-1][1], 1031, 1 << 20) > 0
print(count(large, 100), count(pipe, 100))
";
    is_left_for_the_host(
        attack,
        "size = fcntl.fcntl(os.pipe()[0], 1032); sys.exit(None if size == 65536 else f'a pipe of {size}')",
    );
}

#[test]
fn watches_of_epoll() {
    let code = r"
import os, select, time
watching = select.epoll()
for _ in range(100):
    watched = os.eventfd(0)
    for number in range(400, 1000):
        os.dup2(watched, number)
        watching.register(number)
time.sleep(3)
";
    let scene = Scene::new();
    let result = scene.run_for(20.0, code);
    // Started by root, the session has a user of its own.
    let is_own = super::common::is_root() && result.status == Success;
    assert!(is_own || result.status == Crashed, "{}", short(&result));
    scene.goes_on();
    scene.ends_clean();
}
