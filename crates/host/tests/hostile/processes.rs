//! Processes and signals: parents, children, daemons, bombs.

use super::common::{behind, run, short, wait, within};
use super::scene::{Scene, harmless};
use cellblock_protocol::Status::{Crashed, Failure, Interrupted, Success, Timeout};
use cellblock_protocol::{Isolation, Limits, Rung};
use serde_json::Map;
use std::time::Duration;

#[test]
fn its_own_parent_killed() {
    for code in [
        "import os; os.kill(1, 9)",
        "import os; os.kill(os.getppid(), 9)",
        "import os; os.kill(1, 15)",
    ] {
        let scene = Scene::new();
        assert_eq!(scene.run(code).status, Failure, "{code}");
        scene.goes_on();
        scene.ends_clean();
    }
}

#[test]
fn everyone_killed() {
    let result = harmless("import os; os.kill(-1, 9)", &[Failure]);
    assert_eq!(result.error.unwrap().type_, "PermissionError");
}

#[test]
fn its_own_group_killed() {
    let result = harmless("import os; os.killpg(0, 9)", &[Crashed]);
    assert_eq!(result.signal, Some(9));
}

#[test]
fn itself_killed_in_every_way() {
    for signal in [4, 6, 7, 8, 9, 11, 15, 24, 25, 31] {
        let scene = Scene::new();
        let result = scene.run(&format!("import os, signal; signal.signal({signal}, signal.SIG_DFL) if {signal} != 9 else 0; os.kill(os.getpid(), {signal})"));
        assert_eq!(
            (result.status, result.signal, result.exit_code),
            (Crashed, Some(signal), None),
            "{}",
            short(&result)
        );
        scene.goes_on_or_has_ended();
        scene.ends_clean();
    }
}

#[test]
fn itself_stopped() {
    let scene = Scene::new();
    let result = scene.run_for(
        1.0,
        "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
    );
    assert_eq!((result.status, result.signal), (Timeout, Some(9)));
    scene.goes_on_or_has_ended();
    scene.ends_clean();
}

#[test]
fn another_program_in_its_place() {
    let scene = Scene::new();
    let result = scene.run_for(1.0, "import os; os.execv('/bin/sleep', ['sleep', '600'])");
    assert!(
        [Timeout, Crashed].contains(&result.status),
        "{}",
        short(&result)
    );
    scene.goes_on_or_has_ended();
    scene.ends_clean();
}

#[test]
fn a_fork_bomb() {
    let code = r"
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
";
    let scene = Scene::with(Limits {
        processes: 32,
        ..Limits::default()
    });
    let result = scene.run_for(2.0, code);
    assert_eq!(result.status, Timeout, "{}", short(&result));
    // Nothing of the bomb, whatever became of the session: at most init, the head and the standbys.
    assert!(
        within(Duration::from_secs(2), || scene.processes() < 16),
        "{} processes",
        scene.processes()
    );
    scene.goes_on_or_has_ended();
    scene.ends_clean();
}

#[test]
fn a_bomb_of_processes_that_leave_and_hide() {
    let code = r"
import ctypes, os
libc = ctypes.CDLL(None)
while True:
    try:
        if os.fork() == 0:
            os.setsid()
            libc.prctl(4, 0, 0, 0, 0)  # nobody may look into us
            if os.fork():
                os._exit(0)
    except OSError:
        pass
";
    let scene = Scene::with(Limits {
        processes: 32,
        ..Limits::default()
    });
    assert_eq!(scene.run_for(2.0, code).status, Timeout);
    assert!(
        within(Duration::from_secs(2), || scene.processes() < 16),
        "{} processes",
        scene.processes()
    );
    scene.goes_on_or_has_ended();
    scene.ends_clean();
}

#[test]
fn daemons_left_behind_die_with_the_cell_that_crashes() {
    let code = r"
import os
for _ in range(5):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 100)
            os.execv('/bin/sleep', ['sleep', '86399'])
        os._exit(0)
    os.wait()
";
    let scene = Scene::new();
    assert_eq!(scene.run(code).status, Success);
    let sleepers = || super::common::in_process_namespace_named(&scene.namespace, "sleep");
    assert!(
        within(Duration::from_secs(2), || sleepers() == 5),
        "{} daemons",
        sleepers()
    );
    let result = scene.run("import os; os.abort()");
    assert_eq!((result.status, result.signal), (Crashed, Some(6)));
    assert_eq!(sleepers(), 0);
    scene.goes_on_or_has_ended();
    scene.ends_clean();
}

#[test]
fn daemons_left_behind_die_with_the_session() {
    let code = r"
import os, signal
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        for number in range(1, 65):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        os.closerange(0, 100)
        os.execv('/bin/sleep', ['sleep', '86399'])
";
    harmless(code, &[Success]);
}

#[test]
fn no_signal_is_listened_to() {
    let code = r"
import signal
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
while True:
    pass
";
    let scene = Scene::new();
    let result = scene.run_for(1.0, code);
    assert_eq!(
        (result.status, result.exit_code, result.signal),
        (Timeout, None, Some(9))
    );
    scene.goes_on_or_has_ended();
    scene.ends_clean();
}

#[test]
fn an_interrupt_that_is_ignored_still_ends_the_cell() {
    let scene = Scene::new();
    let mut running = scene.session.start("import signal; signal.signal(2, signal.SIG_IGN); print('on', flush=True)\nwhile True: pass").unwrap();
    wait(running.next()).unwrap();
    scene.session.interrupt();
    let result = wait(running.result()).unwrap();
    assert_eq!(result.status, Interrupted, "{}", short(&result));
    scene.goes_on_or_has_ended();
    scene.ends_clean();
}

#[test]
fn handlers_that_raise_at_any_time() {
    let code = r"
import signal
def raises(*_):
    raise SystemExit(3)
for number in (1, 2, 10, 12, 14, 15):
    signal.signal(number, raises)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
";
    let scene = Scene::new();
    scene.run(code);
    // Each cell fails, or does not get far enough; but none hangs.
    for code in [
        "import time; time.sleep(0.2)",
        "import signal; signal.setitimer(signal.ITIMER_REAL, 0)",
    ] {
        match wait(
            scene
                .session
                .run(cellblock_protocol::Cell::new(code).timeout(Duration::from_secs(5))),
        ) {
            Ok(result) => println!("{}", short(&result)),
            Err(error) => assert_eq!(error.code(), "ended", "{error}"),
        }
    }
    scene.ends_clean();
}

#[test]
fn a_session_and_a_group_of_its_own() {
    let code = r"
import os
try:
    os.setsid()
except OSError:
    pass
if os.fork() == 0:
    os.setsid()
    os.setpgid(0, 0)
    os.execv('/bin/sleep', ['sleep', '600'])
";
    harmless(code, &[Success]);
}

#[test]
fn hidden_from_everyone() {
    // With this no other process of the same user can look into it, not even to find it.
    let scene = Scene::new();
    let result = scene.run_for(
        1.0,
        "import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\nwhile True: pass",
    );
    assert_eq!(result.status, Timeout);
    scene.goes_on_or_has_ended();
    scene.ends_clean();
}

#[test]
fn a_name_that_looks_like_another_process() {
    let code = r"
import ctypes, os
ctypes.CDLL(None).prctl(15, b'x) R 1 1 1 (y', 0, 0, 0)
if os.fork() == 0:
    os.setsid()
    os.execv('/bin/sleep', ['sleep', '600'])
os.abort()
";
    harmless(code, &[Crashed]);
}

#[test]
fn a_filter_of_its_own_that_kills() {
    // A filter that ends the process at the next call.
    let code = r"
import ctypes
libc = ctypes.CDLL(None)
program = (ctypes.c_uint64 * 1)(0x8000000000000006)
class Filter(ctypes.Structure):
    _fields_ = [('length', ctypes.c_ushort), ('program', ctypes.c_void_p)]
libc.prctl(22, 2, ctypes.byref(Filter(1, ctypes.addressof(program))))
";
    let result = harmless(code, &[Crashed]);
    assert_eq!(result.signal, Some(31));
}

#[test]
fn everything_it_started_dies_also_where_there_is_no_namespace() {
    let session = behind(
        Isolation::on(Rung::Landlock),
        Limits::default(),
        &Map::new(),
    );
    let code = r"
import os, threading
def daemon():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execv('/bin/sleep', ['sleep', mark])
        os._exit(0)
mark = str(86000 + os.getpid() % 300)
daemon()
thread = threading.Thread(target=daemon)
thread.start()
thread.join()
print(mark, end='')
";
    let mark = run(&session, code).stdout;
    let sleepers = || {
        super::common::command_lines()
            .filter(|line| *line == format!("sleep\0{mark}\0"))
            .count()
    };
    assert!(
        within(Duration::from_secs(2), || sleepers() == 2),
        "{} daemons",
        sleepers()
    );
    wait(session.close());
    assert!(
        within(Duration::from_secs(2), || sleepers() == 0),
        "{} daemons are left",
        sleepers()
    );
}
