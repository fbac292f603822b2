//! Threads are carried by checkpoints: after a crash, a time-out or an undo they run on from where they were.

use crate::support::{session, wait};
use crate::working_threads::{POOL_AND_COUNTER, TALKING_THREAD, assert_all_work, assert_talks};
use cellblock_protocol::{Cell, CheckpointState, CheckpointStatus, StateOutcome, Status};
use std::time::Duration;

/// The main thread, four workers and the counter.
const THREADS: usize = 6;
const SEGFAULT: &str = "import ctypes; ctypes.string_at(0)";

#[test]
fn a_pool_of_threads_and_a_thread_that_runs_survive_each_kind_of_end() {
    let session = session();
    session.good(POOL_AND_COUNTER);
    let endings = [
        (Cell::new(SEGFAULT), Status::Crashed),
        (Cell::new("os._exit(3)"), Status::Crashed),
        (
            Cell::new("while True: pass").timeout(Duration::from_millis(300)),
            Status::Timeout,
        ),
    ];
    for (cell, status) in endings {
        let result = session.run(cell);
        assert_eq!(result.status, status);
        assert_eq!(result.state.outcome, StateOutcome::Restored);
        assert_eq!(result.state.checkpoint, CheckpointState::armed());
        assert_all_work(&session, THREADS);
    }
}

#[test]
fn threads_are_as_they_were_after_an_undo() {
    let session = session();
    session.good(POOL_AND_COUNTER);
    session.good("stop.set(); counter.join(); counter.is_alive()");
    assert_eq!(wait(session.undo(1)).unwrap().cell, 1);
    assert_all_work(&session, THREADS);
}

#[test]
fn a_restored_thread_can_be_joined_and_a_pool_shut_down() {
    let session = session();
    session.good(POOL_AND_COUNTER);
    session.run(SEGFAULT);
    let ended = "stop.set(); counter.join(5); pool.shutdown(); counter.is_alive(), threading.active_count()";
    assert_eq!(session.value(ended), "(False, 1)");
}

#[test]
fn a_lock_that_a_thread_held_is_held_by_it_after_a_crash_and_can_be_released() {
    let session = session();
    session.good(
        "import threading
lock, held, release = threading.RLock(), threading.Event(), threading.Event()
def hold():
    with lock:
        held.set()
        release.wait()
holder = threading.Thread(target=hold)
holder.start()
held.wait()",
    );
    session.run(SEGFAULT);
    assert_eq!(
        session.value("lock.acquire(blocking=False), release.set(), lock.acquire(timeout=5)"),
        "(False, None, True)"
    );
}

#[test]
fn thread_local_variables_and_names_are_kept() {
    let session = session();
    session.good(
        "import ctypes, queue, threading
questions, answers, local = queue.Queue(), queue.Queue(), threading.local()
def serve():
    ctypes.CDLL(None).prctl(15, b'a name', 0, 0, 0)
    local.text = 'kept'
    while questions.get():
        answers.put((local.text, threading.current_thread().name, open(f'/proc/self/task/{threading.get_native_id()}/comm').read()))
threading.Thread(target=serve, name='server', daemon=True).start()
questions.put(1); answers.get()",
    );
    session.run(SEGFAULT);
    assert_eq!(
        session.value("questions.put(1); answers.get(timeout=5)"),
        r"('kept', 'server', 'a name\n')"
    );
}

/// The head that dies has read on, and both have the same offset. A thread runs as soon as it is copied, before Python's own code does.
#[test]
fn a_thread_that_reads_a_file_reads_on_where_it_was_after_each_crash() {
    let session = session();
    session.good(
        r"import os, threading, time
with open('numbers', 'wb') as numbers:
    for number in range(200_000):
        numbers.write(b'%07d\n' % number)
file = os.open('numbers', os.O_RDONLY)
count, jumps = 0, []
def read():
    global count
    expected = 0
    while True:
        line = os.read(file, 8)
        if not line:
            os.lseek(file, expected := 0, os.SEEK_SET)
            continue
        if int(line) != expected:
            jumps.append((expected, int(line)))
        expected = int(line) + 1
        count += 1
threading.Thread(target=read, daemon=True).start()",
    );
    for _ in 0..5 {
        session.run("before = count\nwhile count < before + 1000: time.sleep(0.001)\nos._exit(3)");
        session.good("before = count\nwhile count < before + 1000: time.sleep(0.001)");
        assert_eq!(session.value("jumps"), "[]");
    }
}

#[test]
fn many_crashes_in_a_row_lose_no_thread() {
    let session = session();
    session.good(POOL_AND_COUNTER);
    for _ in 0..30 {
        assert_eq!(session.run(SEGFAULT).state.outcome, StateOutcome::Restored);
    }
    assert_all_work(&session, THREADS);
}

/// A standby that is woken has no channel to the host for a moment, and its threads run already.
#[test]
fn a_thread_that_talks_to_the_host_without_a_pause_costs_no_checkpoint() {
    let session = session();
    session.good(TALKING_THREAD);
    for kept in 0..20 {
        session.good(&format!("kept = {kept}"));
        let crashed = session.run(SEGFAULT);
        assert_eq!(crashed.state.checkpoint, CheckpointState::armed());
        assert_eq!(crashed.state.outcome, StateOutcome::Restored);
        assert_eq!(crashed.state.lost, Vec::<u64>::new());
        assert_eq!(session.value("kept"), kept.to_string());
        assert_talks(&session);
    }
}

/// Workers of numexpr and background threads of jemalloc block every signal. libc leaves out the signals that it uses itself.
#[test]
fn a_thread_that_has_libc_block_every_signal_is_carried() {
    let session = session();
    session.good(
        "import os, queue, signal, threading
questions, answers = queue.Queue(), queue.Queue()
def answer():
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
    while True:
        answers.put(questions.get() + 1)
threading.Thread(target=answer, daemon=True).start()
questions.put(1); answers.get(timeout=5)",
    );
    for _ in 0..3 {
        let crashed = session.run(SEGFAULT);
        assert_eq!(crashed.state.checkpoint.status, CheckpointStatus::Armed);
        assert_eq!(crashed.state.outcome, StateOutcome::Restored);
        assert_eq!(
            session.value("questions.put(1); answers.get(timeout=5)"),
            "2"
        );
    }
}

/// libc blocks every signal in a thread that starts a program, until the program has begun. On a busy machine that takes long.
#[test]
fn a_thread_that_starts_a_program_is_waited_for() {
    let session = session();
    // The new process opens a named pipe before its program begins, so another process says when.
    session.good(
        "import ctypes, os, subprocess, threading, time
os.mkfifo('gate')
opener = subprocess.Popen(['/bin/sh', '-c', 'sleep 0.6; : > gate'])
libc = ctypes.CDLL(None)
actions, pid = ctypes.create_string_buffer(256), ctypes.c_int()
libc.posix_spawn_file_actions_init(actions)
libc.posix_spawn_file_actions_addopen(actions, 0, b'gate', os.O_RDONLY, 0)
words, nothing = (ctypes.c_char_p * 2)(b'true', None), (ctypes.c_char_p * 1)(None)
thread = threading.Thread(target=libc.posix_spawn, args=(ctypes.byref(pid), b'/bin/true', actions, None, words, nothing))
thread.start()
time.sleep(0.1)
kept = thread.is_alive()",
    );
    let result = session.run("kept, thread.join(5), os.waitpid(pid.value, 0)[1]");
    assert_eq!(result.state.checkpoint, CheckpointState::armed());
    assert_eq!(result.value.unwrap().repr, "(True, None, 0)");
}

/// The workers end with the process that crashed, and one of them holds the lock of the queue of tasks.
#[test]
fn a_pool_of_processes_starts_new_workers_after_each_crash() {
    for method in ["fork", "spawn"] {
        let session = session();
        session.good(&format!(
            "import multiprocessing, os, time
context = multiprocessing.get_context('{method}')
pool = context.Pool(2)
lone = context.Process(target=time.sleep, args=(1000,))
lone.start()"
        ));
        for _ in 0..3 {
            let used = "pool.map_async(abs, range(-3, 0)).get(20)";
            assert_eq!(session.value(used), "[3, 2, 1]", "{method}");
            let crashed = session.run("os._exit(3)");
            assert_eq!(crashed.state.checkpoint, CheckpointState::armed());
            assert_eq!(crashed.state.outcome, StateOutcome::Restored);
        }
        let ended = "lone.exitcode, pool.terminate(), pool.join()";
        assert_eq!(session.value(ended), "(-9, None, None)", "{method}");
    }
}

/// libc makes every thread change its user by the signal that threads are stopped with.
#[test]
fn a_change_of_user_in_all_threads_works_beside_checkpoints() {
    let session = session();
    session.good(POOL_AND_COUNTER);
    session.good("import os; os.setuid(os.getuid()); os.setgid(os.getgid())");
    assert_eq!(session.run(SEGFAULT).state.outcome, StateOutcome::Restored);
    session.good("os.setuid(os.getuid()); os.setgid(os.getgid())");
    assert_all_work(&session, THREADS);
}

#[test]
fn a_thread_that_blocks_every_signal_is_named_and_the_session_is_behind() {
    let session = session();
    session.good(
        "import ctypes, signal, threading, time
def deaf():
    ctypes.CDLL(None).syscall(14, 0, ctypes.byref(ctypes.c_uint64(-1)), None, 8)
    ctypes.CDLL(None).prctl(15, b'deaf', 0, 0, 0)
    time.sleep(60)
threading.Thread(target=deaf, daemon=True).start()
time.sleep(0.1)",
    );
    std::thread::sleep(Duration::from_millis(50));
    let checkpoint = session.good("x = 1").state.checkpoint;
    assert_eq!(checkpoint.status, CheckpointStatus::Behind);
    assert_eq!(
        checkpoint.reason.as_deref(),
        Some("a thread cannot be copied (deaf): it blocks all signals")
    );
}

/// The threads of the head that is being ended count against the limit until they are reaped.
#[test]
fn a_session_that_is_near_its_limit_of_threads_goes_back_as_any_other() {
    let session = session();
    session.good(
        "import os, threading
stop = threading.Event()
threads = [threading.Thread(target=stop.wait, daemon=True) for _ in range(60)]
for thread in threads: thread.start()",
    );
    for number in 0..20 {
        session.good(format!("x = {number}").as_str());
        wait(session.undo(1)).unwrap();
        let state = "sum(thread.is_alive() for thread in threads), len(os.listdir('/proc/self/task')), 'x' in globals()";
        assert_eq!(
            session.value(state),
            "(60, 61, False)",
            "after undo {number}"
        );
        let crashed = session.run("os._exit(3)");
        assert_eq!(crashed.state.outcome, StateOutcome::Restored);
    }
}

/// Older states are processes too: they go, so that the newest state has a checkpoint.
#[test]
fn a_session_at_its_limit_of_processes_gives_up_history_or_names_the_limit() {
    let session = session();
    session.good(
        "import os, signal, threading
for number in range(3): last = number",
    );
    for number in 0..6 {
        session.good(format!("x = int({number})").as_str());
    }
    session.good(
        "stop = threading.Event()
started = 0
try:
    while True:
        threading.Thread(target=stop.wait, daemon=True).start()
        started += 1
except RuntimeError:
    pass",
    );
    let crashed = session.run("x = 'lost'; os._exit(3)");
    assert_eq!(crashed.state.outcome, StateOutcome::Restored);
    assert_eq!(
        session.value("x, threading.active_count() == started + 1"),
        "(5, True)"
    );
    assert_eq!(
        session.good("y = 1").state.checkpoint,
        CheckpointState::armed()
    );
}

#[test]
fn a_thread_that_cannot_be_stopped_has_the_name_that_the_code_gave_it() {
    let session = session();
    session.good(
        "import ctypes, threading
ready = threading.Event()
def deaf():
    ctypes.CDLL(None).syscall(14, 0, ctypes.byref(ctypes.c_uint64(-1)), None, 8)
    ready.set()
    threading.Event().wait()
threading.Thread(target=deaf, name='the watcher', daemon=True).start()
ready.wait()",
    );
    assert_eq!(
        session.good("1").state.checkpoint.reason.as_deref(),
        Some("a thread cannot be copied (the watcher): it blocks all signals")
    );
}
