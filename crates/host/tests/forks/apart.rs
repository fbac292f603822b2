//! Nothing that a fork does reaches its parent, from the first moment of the fork on: threads of the fork run before any cell of it does.

use crate::support::{Python, open, packages, session};

/// A thread that acts as soon as it finds itself in a fork, and sleeps in the kernel until then. `act` is one line of Python.
fn with_thread_that_acts_in_forks(setup: &str, act: &str) -> Python {
    let parent = session();
    parent.good(
        format!(
            "import mmap, multiprocessing, os, socket, threading, time
home = os.getpid()
{setup}
def act_in_a_fork():
    while os.getpid() == home:
        time.sleep(0.0002)
    for _ in range(5):
        {act}
threads = [threading.Thread(target=act_in_a_fork, daemon=True) for _ in range(4)]
for thread in threads: thread.start()"
        )
        .as_str(),
    );
    parent
}

/// What the parent finds after each of some forks.
fn assert_never_changes(setup: &str, act: &str, look: &str, wanted: &str) {
    let parent = with_thread_that_acts_in_forks(setup, act);
    for number in 0..6 {
        let fork = parent.fork();
        assert_eq!(
            fork.value("[thread.join(5) or thread.is_alive() for thread in threads]"),
            "[False, False, False, False]",
            "{act}"
        );
        assert_eq!(parent.value(look), wanted, "{act}, after fork {number}");
    }
}

#[test]
fn a_thread_of_a_fork_writes_to_no_pipe_or_socket_of_its_parent() {
    assert_never_changes(
        "reader, writer = os.pipe(); os.set_blocking(reader, False)
def waiting():
    try:
        return os.read(reader, 100)
    except BlockingIOError:
        return b''",
        "os.write(writer, b'x')",
        "waiting()",
        "b''",
    );
    assert_never_changes(
        "near, far = socket.socketpair(); near.setblocking(False)
def waiting():
    try:
        return near.recv(100)
    except BlockingIOError:
        return b''",
        "far.send(b'x')",
        "waiting()",
        "b''",
    );
}

#[test]
fn a_thread_of_a_fork_reads_nothing_that_its_parent_waits_for() {
    assert_never_changes(
        "reader, writer = os.pipe(); os.write(writer, b'for the parent'); os.set_blocking(reader, False)
def take():
    try:
        os.read(reader, 1)
    except BlockingIOError:
        pass
def all_that_waits():
    got = os.read(reader, 100); os.write(writer, got); return got",
        "take()",
        "all_that_waits()",
        "b'for the parent'",
    );
}

#[test]
fn a_thread_of_a_fork_changes_no_shared_memory_of_its_parent() {
    for (setup, act, look, wanted) in [
        (
            "semaphore = multiprocessing.Semaphore(0)",
            "semaphore.release()",
            "semaphore.get_value()",
            "0",
        ),
        (
            "held = multiprocessing.Lock(); held.acquire()",
            "held._semlock._is_zero() and held.release()",
            "held.acquire(False)",
            "False",
        ),
        (
            "shared = mmap.mmap(-1, 3 * mmap.PAGESIZE)",
            "shared[mmap.PAGESIZE] += 1",
            "shared[mmap.PAGESIZE]",
            "0",
        ),
        (
            "queue = multiprocessing.Queue()",
            "queue.put(1)",
            "time.sleep(0.02), queue.empty(), queue._sem._semlock._get_value() == queue._maxsize",
            "(None, True, True)",
        ),
    ] {
        assert_never_changes(setup, act, look, wanted);
    }
}

#[test]
fn a_thread_of_a_fork_writes_to_no_open_file_of_its_parent() {
    assert_never_changes(
        "file = open('notes', 'wb+', buffering=0); file.write(b'ours')",
        "file.write(b'theirs')",
        "file.tell(), os.pread(file.fileno(), 100, 0)",
        "(4, b'ours')",
    );
}

/// What a thread did between the start of the fork and its first cell is there in the fork.
#[test]
fn what_a_thread_of_a_fork_does_at_once_is_not_lost_in_the_fork() {
    for (setup, act, look, wanted) in [
        (
            "semaphore = multiprocessing.Semaphore(0)",
            "semaphore.release()",
            "semaphore.get_value()",
            "20",
        ),
        (
            "reader, writer = os.pipe()",
            "os.write(writer, b'x')",
            "len(os.read(reader, 100))",
            "20",
        ),
        (
            "near, far = socket.socketpair()",
            "far.send(b'x')",
            "len(near.recv(100))",
            "20",
        ),
    ] {
        let parent = with_thread_that_acts_in_forks(setup, act);
        for _ in 0..3 {
            let fork = parent.fork();
            fork.good("for thread in threads: thread.join(5)");
            assert_eq!(fork.value(look), wanted, "{act}");
            // The fork of a fork knows the pair of sockets as well.
            assert_eq!(fork.fork().value("1"), "1");
        }
    }
}

#[test]
fn a_lock_that_a_thread_waits_for_is_given_to_one_thread_on_each_side() {
    let parent = session();
    parent.good(
        "import multiprocessing, threading
lock, taken = multiprocessing.Lock(), []
lock.acquire()
thread = threading.Thread(target=lambda: taken.append(lock.acquire(timeout=60)), daemon=True)
thread.start()",
    );
    let forks: Vec<Python> = (0..5).map(|_| parent.fork()).collect();
    for one in forks.iter().chain([&parent]) {
        assert_eq!(one.value("taken, thread.is_alive()"), "([], True)");
        // In one cell: before the next one, a checkpoint interrupts the thread, which looks at the lock anew.
        one.good("lock.release(); thread.join(5); assert taken == [True]");
        assert_eq!(one.value("taken, lock.acquire(False)"), "([True], False)");
    }
}

/// Without its executor, the thread that joblib keeps for its processes tells them to end, through queues and semaphores.
#[test]
fn the_processes_of_joblib_work_for_the_parent_and_anew_in_each_fork() {
    let parent = open(packages());
    parent.good(
        "import joblib
run = lambda: joblib.Parallel(2)(joblib.delayed(abs)(number) for number in range(-4, 2))
first = run()
from joblib.externals.loky import reusable_executor
workers = sorted(reusable_executor._executor._processes)",
    );
    for number in 0..12 {
        let fork = parent.fork();
        assert_eq!(
            parent.value("run() == first"),
            "True",
            "after fork {number}"
        );
        let same = "sorted(reusable_executor._executor._processes) == workers";
        assert_eq!(parent.value(same), "True", "after fork {number}");
        if number % 6 == 0 {
            assert_eq!(fork.value("run() == first"), "True");
        }
    }
}
