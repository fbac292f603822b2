//! Threads are carried into a fork: those of the code and those of libraries run on in both sessions.

use crate::support::{Python, open, packages, session, wait};
use crate::working_threads::{POOL_AND_COUNTER, TALKING_THREAD, assert_all_work, assert_talks};
use cellblock_protocol::StateOutcome;

/// A thread of C's that waits for a mutex.
const NATIVE_THREAD: &str = "
import ctypes
libc = ctypes.CDLL(None)
native, mutex = ctypes.c_ulong(), ctypes.create_string_buffer(64)
libc.pthread_mutex_lock(mutex)
libc.pthread_create(ctypes.byref(native), None, ctypes.cast(libc.pthread_mutex_lock, ctypes.c_void_p), mutex)
";
/// The main thread, four workers, the counter, and the thread of C's.
const THREADS: usize = 7;

/// A session with all these threads.
fn with_threads() -> Python {
    let parent = session();
    parent.good(POOL_AND_COUNTER);
    parent.good(NATIVE_THREAD);
    parent
}

#[test]
fn a_pool_a_running_thread_and_one_of_c_s_go_on_in_both() {
    let parent = with_threads();
    let fork = parent.fork();
    let second = fork.fork();
    for session in [&parent, &fork, &second] {
        assert_all_work(session, THREADS);
    }
    let ended = "stop.set(); counter.join(5); pool.shutdown(); counter.is_alive(), threading.active_count()";
    assert_eq!(fork.value(ended), "(False, 1)");
    for session in [&parent, &second] {
        assert_all_work(session, THREADS);
        assert_eq!(session.value("stop.is_set()"), "False");
    }
}

#[test]
fn the_threads_of_a_fork_survive_a_crash_of_either() {
    let parent = with_threads();
    let fork = parent.fork();
    for session in [&fork, &parent, &fork] {
        let crashed = session.run("import ctypes; ctypes.string_at(0)");
        assert_eq!(crashed.state.outcome, StateOutcome::Restored);
        assert_all_work(session, THREADS);
    }
    assert_all_work(&fork.fork(), THREADS);
}

#[test]
fn many_forks_lose_no_thread() {
    let parent = with_threads();
    for _ in 0..20 {
        assert_all_work(&parent.fork(), THREADS);
    }
    assert_all_work(&parent, THREADS);
}

/// A fork has no channel to the host for a moment, and its threads run already.
#[test]
fn a_thread_that_talks_to_the_host_without_a_pause_goes_on_in_forks() {
    let parent = session();
    parent.good(TALKING_THREAD);
    for _ in 0..10 {
        let fork = parent.fork();
        assert_talks(&fork);
        let crashed = fork.run("import ctypes; ctypes.string_at(0)");
        assert_eq!(crashed.state.outcome, StateOutcome::Restored);
        assert_talks(&fork);
        assert_talks(&parent);
    }
}

/// The manager of a pool finds its workers gone and sends signals to their numbers, which no process of the fork may have.
#[test]
fn a_pool_of_processes_does_not_end_the_fork_that_it_is_copied_into() {
    let parent = session();
    parent.good(
        "import os, signal, time
from concurrent.futures import ProcessPoolExecutor
pool = ProcessPoolExecutor(2)
list(pool.map(abs, range(4)))
workers = list(pool._processes)
semaphore = pool._call_queue._sem._semlock
free = semaphore._get_value()
x = 7",
    );
    for _ in 0..5 {
        let fork = parent.fork();
        let signalled = "
def reached(worker):
    try:
        os.kill(worker, 0)
    except ProcessLookupError:
        return False
    return True
time.sleep(0.1)
x, os.getpid() > max(workers), [reached(worker) for worker in workers]";
        assert_eq!(fork.value(signalled), "(7, True, [False, False])");
        let crashed = fork.run("os._exit(3)");
        assert_eq!(crashed.state.outcome, StateOutcome::Restored);
        assert_eq!(fork.value("x"), "7");
    }
    // The threads of the copies have not taken what is the parent's.
    assert_eq!(parent.value("semaphore._get_value() == free"), "True");
    assert_eq!(parent.value("list(pool.map(abs, [-1]))"), "[1]");
}

#[test]
fn with_threads_too_generators_are_kept_or_refreshed() {
    let parent = with_threads();
    parent.good("import random");
    let next = "[random.random() for _ in range(3)]";
    assert_ne!(parent.fork().value(next), parent.value(next));
    parent.good("random.seed(42)");
    assert_eq!(parent.fork().value(next), parent.value(next));
}

#[test]
fn the_threads_of_numpy_compute_in_both() {
    let parent = open(packages().import("np"));
    parent.good(
        "import glob, ctypes, os
path = glob.glob(os.path.join(os.path.dirname(np.__file__), '..', 'numpy.libs', '*openblas*'))[0]
blas = ctypes.CDLL(path)
symbol = next(name for name in ('scipy_openblas_set_num_threads64_', 'openblas_set_num_threads64_') if hasattr(blas, name))
getattr(blas, symbol)(4)
a = np.ones((400, 400))
(a @ a).sum()",
    );
    let threads = parent.value("len(os.listdir('/proc/self/task'))");
    assert_eq!(threads, "4");
    let fork = parent.fork();
    for session in [&fork, &parent] {
        let work = "float((a @ a).sum()), len(os.listdir('/proc/self/task'))";
        assert_eq!(session.value(work), "(64000000.0, 4)");
    }
}

/// Landlock's rules are those of a thread, and the parent is parted from its forks by them.
#[test]
fn a_thread_from_before_a_fork_cannot_look_into_it() {
    let parent = session();
    parent.good("import os\nfrom concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(1)\npool.submit(abs, 1).result()");
    let fork = parent.fork();
    fork.good("secret = 1");
    let look = "
def readable():
    found = []
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{pid}/mem', 'rb'):
                found.append(int(pid) == os.getpid())
        except OSError:
            pass
    return found
readable(), pool.submit(readable).result()";
    assert_eq!(parent.value(look), "([True], [True])");
}

#[test]
fn a_thread_that_blocks_every_signal_is_named_and_the_session_goes_on() {
    let parent = session();
    parent.good(
        "import ctypes, signal, threading
stop, ready = threading.Event(), threading.Event()
def deaf():
    ctypes.CDLL(None).syscall(14, 0, ctypes.byref(ctypes.c_uint64(-1)), None, 8)
    ctypes.CDLL(None).prctl(15, b'deaf', 0, 0, 0)
    ready.set()
    stop.wait()
thread = threading.Thread(target=deaf)
thread.start()
ready.wait()",
    );
    let error = wait(parent.0.fork()).unwrap_err();
    assert_eq!(error.code(), "refused");
    assert!(error.to_string().contains("(deaf)"), "{error}");
    parent.good("stop.set(); thread.join(); x = 1");
    assert_eq!(parent.fork().value("x"), "1");
}
