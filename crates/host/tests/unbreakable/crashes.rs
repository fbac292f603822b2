//! What is still there after the head died.

use crate::support::{Python, builder, host, open, packages, session, wait};
use cellblock_protocol::{
    Arming, Cell, CellResult, CheckpointState, Limits, SessionOptions, StateOutcome, Status,
};
use std::time::Duration;

const SEGFAULT: &str = "import ctypes; ctypes.string_at(0)";

fn restored(result: &CellResult) {
    assert_eq!(result.state.outcome, StateOutcome::Restored, "{result:?}");
}

fn crash(session: &Python) {
    let result = session.run(SEGFAULT);
    assert_eq!((result.status, result.signal), (Status::Crashed, Some(11)));
    restored(&result);
}

#[test]
fn a_segfault_loses_no_variable() {
    let session = session();
    session.good("x = [1, 2]; y = x");
    crash(&session);
    assert_eq!(session.value("x, y is x"), "([1, 2], True)");
}

#[test]
fn a_crash_is_told_by_the_signal_that_it_was() {
    let session = session();
    session.good("import os, signal; x = 7");
    for (name, number) in [
        ("SIGILL", 4),
        ("SIGABRT", 6),
        ("SIGBUS", 7),
        ("SIGFPE", 8),
        ("SIGSEGV", 11),
    ] {
        let result = session.run(format!("x = 8; os.kill(os.getpid(), signal.{name})").as_str());
        assert_eq!(
            (result.status, result.signal),
            (Status::Crashed, Some(number))
        );
        restored(&result);
        assert_eq!(session.value("x"), "7");
    }
}

#[test]
fn a_crash_in_a_thread_or_without_a_stack_loses_no_variable() {
    let session = session();
    session.good("import ctypes, threading; x = 7");
    let in_thread =
        "threading.Thread(target=ctypes.string_at, args=(0,)).start()\nimport time; time.sleep(60)";
    // libc's own recursion, which no limit of Python's ends before the stack does.
    let endless =
        "ctypes.CDLL(None).regcomp(ctypes.create_string_buffer(256), b'(' * 10_000_000, 1)";
    for code in [in_thread, endless] {
        let result = session.run(code);
        assert_eq!((result.status, result.signal), (Status::Crashed, Some(11)));
        restored(&result);
        assert_eq!(session.value("x"), "7");
    }
}

/// From Python 3.13 on, a thread that has ended keeps a record of libc's until it is joined or forgotten.
#[test]
fn threads_that_have_ended_can_be_joined_and_forgotten_after_a_crash() {
    let session = session();
    session.good(
        "import threading, time
def ended(count):
    threads = [threading.Thread(target=int) for _ in range(count)]
    for thread in threads: thread.start()
    while any(thread.is_alive() for thread in threads): time.sleep(0.001)
    return threads
joined, forgotten = ended(8), ended(8)",
    );
    for _ in 0..3 {
        crash(&session);
        // New threads take the stacks of those that have ended.
        session
            .good("forgotten = ended(8)\nfor thread in joined: thread.join()\njoined = ended(8)");
    }
    assert_eq!(session.value("len(joined), len(forgotten)"), "(8, 8)");
}

#[test]
fn a_child_that_crashes_dies_as_ever() {
    let session = session();
    session.good("import ctypes, os, signal, subprocess, sys");
    let code = "child = os.fork()
if child == 0:
    ctypes.string_at(0)
by_itself = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
child = os.fork()
if child == 0:
    signal.pause()
os.kill(child, signal.SIGABRT)
by_a_signal = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
program = subprocess.run([sys.executable, '-c', 'import ctypes; ctypes.string_at(0)']).returncode
by_itself, by_a_signal, program";
    assert_eq!(session.value(code), "(-11, -6, -11)");
}

#[test]
fn handlers_of_the_code_s_own_are_called_as_ever() {
    let session = session();
    session.good("import faulthandler, os, signal; caught = []");
    session.good("signal.signal(signal.SIGABRT, lambda number, _: caught.append(number))");
    session.good("os.kill(os.getpid(), signal.SIGABRT)");
    assert_eq!(session.value("caught"), "[6]");
    session.good("faulthandler.enable()");
    let result = session.run(SEGFAULT);
    assert_eq!((result.status, result.signal), (Status::Crashed, Some(11)));
    assert!(
        result.stderr.contains("Segmentation fault"),
        "{}",
        result.stderr
    );
    restored(&result);
}

#[test]
fn what_a_cell_used_is_known_although_it_was_ended() {
    let session = session();
    session.good("x = 7");
    let busy = "held = bytearray(b'x') * (64 << 20)\nwhile True: pass";
    let usage = session
        .run(Cell::new(busy).timeout(Duration::from_secs(3)))
        .usage;
    assert!(usage.cpu > Duration::from_millis(100), "{usage:?}");
    assert!(usage.peak_bytes > 64 << 20, "{usage:?}");
    let crash = "held = bytearray(b'x') * (64 << 20)\nimport ctypes; ctypes.string_at(0)";
    let usage = session.run(crash).usage;
    assert!(usage.cpu > Duration::from_millis(1), "{usage:?}");
    assert!(usage.peak_bytes > 64 << 20, "{usage:?}");
}

#[test]
fn a_time_out_in_a_c_loop_loses_no_variable() {
    let session = session();
    session.good("import re; x = 7");
    let result = session.run(
        Cell::new("x = 8; re.match(r'(a+)+$', 'a' * 40 + 'b')").timeout(Duration::from_millis(500)),
    );
    assert_eq!(
        (result.status, result.exit_code, result.signal),
        (Status::Timeout, None, Some(9))
    );
    restored(&result);
    assert_eq!(session.value("x"), "7");
}

#[test]
fn a_memory_kill_loses_no_variable() {
    let limits = Limits {
        memory: 256 << 20,
        ..Limits::default()
    };
    let session = open(builder().limits(limits));
    session.good("x = 7");
    // Shared memory is not the process's own, so no MemoryError comes before the limit does.
    let greedy = "import mmap\nhoard = []\nwhile True:\n    part = mmap.mmap(-1, 1 << 24)\n    part.write(b'x' * (1 << 24))\n    hoard.append(part)";
    let result = session.run(greedy);
    assert_eq!(result.status, Status::Crashed);
    assert_eq!(
        result.error.as_ref().map(|error| error.type_.as_str()),
        Some("MemoryLimit")
    );
    restored(&result);
    assert_eq!(session.value("x, 'hoard' in globals()"), "(7, False)");
}

/// After each one the interpreter gets a little more than the limit, to go on with. That must not add up: one day the memory would be there,
/// and the kernel would end the session in place of the clean error.
#[test]
fn a_memory_error_is_one_however_often_it_came_before() {
    let memory: u64 = 96 << 20;
    let limits = Limits {
        memory,
        ..Limits::default()
    };
    let session = open(builder().limits(limits));
    session.good("import resource");
    for round in 0..30 {
        let result = session.run("bytearray(1 << 30)");
        let error = result.error.as_ref().map(|error| error.type_.as_str());
        assert_eq!(
            (result.status, error, result.state.outcome),
            (Status::Failure, Some("MemoryError"), StateOutcome::Kept),
            "round {round}"
        );
    }
    let limit = session.value("resource.getrlimit(resource.RLIMIT_DATA)[0]");
    let limit: u64 = limit.parse().unwrap();
    assert!(limit < 2 * memory, "{limit}");
}

#[test]
fn an_exit_in_the_middle_of_a_cell_takes_its_assignments_back() {
    let session = session();
    session.good("x = 1");
    let result = session.run("x = 2; import os; os._exit(139)");
    assert_eq!(
        (result.status, result.exit_code),
        (Status::Crashed, Some(139))
    );
    assert_eq!(session.value("x"), "1");
}

#[test]
fn functions_classes_generators_and_modules_live_on() {
    let session = session();
    session.good(
        "import math\nclass Point:\n    def __init__(self, x): self.x = x\ndef double(n): return 2 * n\n\
         def count():\n    n = 0\n    while True:\n        n += 1\n        yield n\nnumbers = count(); next(numbers); point = Point(3)",
    );
    crash(&session);
    assert_eq!(
        session.value("next(numbers), double(point.x), math.floor(2.5), isinstance(point, Point)"),
        "(2, 6, 2, True)"
    );
}

#[test]
fn an_open_file_stands_where_it_stood() {
    let session = session();
    session.good("open('lines', 'w').writelines(f'{n}\\n' for n in range(9999))");
    session.good("file = open('lines'); [file.readline() for _ in range(3)]");
    let result = session.run(format!("file.read(); {SEGFAULT}"));
    restored(&result);
    // All of it: the next lines alone would come from Python's own buffer, wherever the file stands.
    assert_eq!(
        session.value("[int(line) for line in file] == list(range(3, 9999))"),
        "True"
    );
}

#[test]
fn a_cursor_on_a_database_in_memory_goes_on() {
    let session = session();
    session.good(
        "import sqlite3\nbase = sqlite3.connect(':memory:')\nbase.execute('create table t(n)')\n\
         base.executemany('insert into t values (?)', [(n,) for n in range(5)])\ncursor = base.execute('select n from t order by n')\ncursor.fetchone()",
    );
    let result = session.run(format!("base.execute('delete from t'); {SEGFAULT}"));
    restored(&result);
    assert_eq!(
        session.value("cursor.fetchone(), base.execute('select count(*) from t').fetchone()"),
        "((1,), (5,))"
    );
}

/// What goes on is the session, not a child of it: Python is told nothing of a fork.
#[test]
fn what_goes_on_is_not_told_that_it_was_forked() {
    let session = session();
    session.good(
        "import concurrent.futures, logging, multiprocessing, os, subprocess, threading
told, lock = [], threading.RLock()
os.register_at_fork(after_in_child=lambda: told.append('child'))
lock.acquire()",
    );
    crash(&session);
    let result = session.good(
        "lock.release()
logging.getLogger().error('still here')
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    squares = list(pool.map(lambda n: n * n, range(4)))
main = threading.main_thread()
knows_itself = main is threading.current_thread() and main.native_id == threading.get_native_id()
echo = subprocess.run(['/bin/echo', 'a'], capture_output=True).stdout
with multiprocessing.get_context('fork').Pool(1) as pool:
    total = pool.apply(sum, ([1, 2],))
squares, knows_itself, echo, total, told",
    );
    assert_eq!(
        result.value.unwrap().repr,
        "([0, 1, 4, 9], True, b'a\\n', 3, [])"
    );
    assert!(result.stderr.contains("still here"));
}

#[test]
fn a_seeded_generator_goes_on_exactly() {
    let plain = session();
    plain.good("import random; random.seed(42)");
    let expected = plain.value("[random.random() for _ in range(3)]");
    let crashed = session();
    crashed.good("import random; random.seed(42)");
    crash(&crashed);
    assert_eq!(
        crashed.value("[random.random() for _ in range(3)]"),
        expected
    );
}

#[test]
fn with_packages_a_fitted_model_predicts_and_fits_again() {
    let session = open(packages());
    session.good(
        "import numpy as np\nfrom sklearn.cluster import KMeans\nfrom sklearn.ensemble import HistGradientBoostingClassifier\n\
         data = np.random.default_rng(0).normal(size=(200, 3)); labels = (data[:, 0] > 0).astype(int)\n\
         clusters = KMeans(3, n_init=1, random_state=0).fit(data); trees = HistGradientBoostingClassifier(max_iter=5).fit(data, labels)",
    );
    let before =
        session.value("clusters.predict(data[:5]).tolist(), trees.predict(data[:5]).tolist()");
    crash(&session);
    assert_eq!(
        session.value("clusters.predict(data[:5]).tolist(), trees.predict(data[:5]).tolist()"),
        before
    );
    session.good("KMeans(2, n_init=1).fit(data); HistGradientBoostingClassifier(max_iter=5).fit(data, labels); data @ data.T");
}

#[test]
fn fifty_crashes_in_a_row_lose_nothing() {
    let session = session();
    session.good("x = 0");
    for round in 1..=50 {
        session.good("x += 1");
        crash(&session);
        assert_eq!(session.value("x"), round.to_string());
    }
}

#[test]
fn the_next_head_has_a_checkpoint_before_any_caller_waits_for_one() {
    let options = SessionOptions {
        // So that no cell waits for a checkpoint to be made.
        arming: Arming::Lazy,
        ..SessionOptions::default()
    };
    let session = Python(wait(host().open(options)).unwrap());
    session.good("import os, ctypes; open('text', 'w').write('one two'); text = open('text', buffering=0, mode='rb'); x = 7");
    assert_eq!(
        wait(session.checkpoints()).unwrap().state,
        CheckpointState::armed()
    );
    for end in ["ctypes.string_at(0)", "os.abort()", "os._exit(3)"] {
        let deadly = format!("x = text.read(3); os.listdir('/proc'); {end}");
        let result = session.run(deadly);
        restored(&result);
        assert_eq!(result.state.checkpoint, CheckpointState::armed(), "{end}");
    }
    assert_eq!(session.value("x, text.read()"), "(7, b'one two')");
}

#[test]
fn a_checkpoint_that_cannot_go_on_is_passed_over_with_its_copy() {
    let session = session();
    session.good("import os; x = 7");
    session.good("first = os.getpid(); os.register_at_fork(after_in_parent=lambda: os.getpid() != first and os._exit(1)); x = 8");
    let result = session.run(SEGFAULT);
    restored(&result);
    assert_eq!(result.state.not_restored.len(), 1, "{result:?}");
    assert_eq!(session.value("x"), "7");
    crash(&session);
    assert_eq!(session.value("x"), "7");
}

#[test]
fn a_fork_bomb_is_swept_away_and_the_variables_stay() {
    let session = session();
    session.good("x = 7");
    let bomb =
        "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass";
    let result = session.run(Cell::new(bomb).timeout(Duration::from_secs(1)));
    assert_eq!(result.status, Status::Timeout);
    restored(&result);
    assert_eq!(session.value("x"), "7");
}

#[test]
fn a_cell_cannot_kill_its_own_checkpoint() {
    let session = session();
    session.good("import os; x = 7");
    let attack = "for pid in range(1, 300):\n    if pid != os.getpid():\n        try:\n            os.kill(pid, 9)\n        except OSError:\n            pass\nos.kill(os.getpid(), 9)";
    let result = session.run(attack);
    assert_eq!((result.status, result.signal), (Status::Crashed, Some(9)));
    restored(&result);
    assert_eq!(session.value("x"), "7");
}

#[test]
fn a_crash_in_a_tool_call_loses_nothing() {
    let session = session();
    session.good("x = 7");
    session.offer([crate::support::tool("lookup", "Looks up.", &[])]);
    let live = session.start("import threading, os\nthreading.Timer(0.1, lambda: os.kill(os.getpid(), 11)).start()\nlookup()");
    let result = live.result();
    assert_eq!((result.status, result.signal), (Status::Crashed, Some(11)));
    restored(&result);
    assert_eq!(session.value("x"), "7");
}

#[test]
fn a_head_that_dies_between_two_cells_is_replaced() {
    let session = session();
    session.good("x = 7");
    session.good("import threading, os, time\ndef later():\n    time.sleep(0.3)\n    os.kill(os.getpid(), 11)\nthreading.Thread(target=later, daemon=True).start()");
    std::thread::sleep(std::time::Duration::from_millis(800));
    // The thread forbade a newer checkpoint, so the state is the one before that cell.
    assert_eq!(session.value("x, 'later' in globals()"), "(7, False)");
}
