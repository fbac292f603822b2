//! What a fork does not have of its parent, it is told of.

use crate::support::{Python, session};

fn not_copied(fork: &Python) -> Vec<&str> {
    fork.0.not_copied().iter().map(String::as_str).collect()
}

#[test]
fn a_fork_that_has_everything_is_told_of_nothing() {
    let parent = session();
    parent.good(
        "import asyncio, concurrent.futures, os, socket, threading
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()
executor = concurrent.futures.ThreadPoolExecutor(2)
list(executor.map(abs, range(9)))
reader, writer = os.pipe()
near, far = socket.socketpair()
file = open('file', 'w')
saved = os.dup(1)",
    );
    let fork = parent.fork();
    assert_eq!(not_copied(&fork), [""; 0]);
    let works = "asyncio.run_coroutine_threadsafe(asyncio.sleep(0, 7), loop).result(20), list(executor.map(abs, [-1]))";
    assert_eq!(fork.value(works), "(7, [1])");
    assert_eq!(not_copied(&parent), [""; 0]);
}

#[test]
fn processes_and_pools_that_had_work_are_named() {
    let parent = session();
    parent.good(
        "import concurrent.futures, multiprocessing, subprocess, time
executor = concurrent.futures.ProcessPoolExecutor(1)
future = executor.submit(time.sleep, 1000)
while not future.running(): time.sleep(0.01)
pool = multiprocessing.Pool(1)
result = pool.apply_async(time.sleep, (1000,))
while pool._taskqueue.qsize(): time.sleep(0.01)
child = subprocess.Popen(['sleep', '1000'])",
    );
    let fork = parent.fork();
    let named = not_copied(&fork);
    let child = format!("the process sleep 1000 ({})", parent.value("child.pid"));
    for start in [
        child.as_str(),
        "an executor of processes (ProcessPoolExecutor)",
        "a pool of multiprocessing",
    ] {
        let is_named = named.iter().any(|what| what.starts_with(start));
        assert!(is_named, "{start}: {named:?}");
    }
    let broken = "type(future.exception(20)).__name__, child.poll()";
    assert_eq!(fork.value(broken), "('BrokenProcessPool', 0)");
    assert_eq!(
        parent.value("future.running(), child.poll()"),
        "(True, None)"
    );
}

/// The fork begins it anew when there is work, so nothing is lost but the processes.
#[test]
fn a_pool_without_work_is_not_named() {
    let parent = session();
    parent.good(
        "import concurrent.futures, multiprocessing
executor = concurrent.futures.ProcessPoolExecutor(1)
executor.submit(abs, -1).result()
pool = multiprocessing.Pool(1)
pool.map(abs, [-1])",
    );
    let fork = parent.fork();
    let named = not_copied(&fork);
    let is_of_process =
        |what: &&str| what.starts_with("the process ") || what.starts_with("a pipe ");
    assert!(named.iter().all(is_of_process), "{named:?}");
    let works = "executor.submit(abs, -2).result(20), pool.map(abs, [-3])";
    assert_eq!(fork.value(works), "(2, [3])");
}

#[test]
fn connections_timers_and_locks_are_named() {
    let parent = session();
    parent.good(
        "import fcntl, os, signal, socket
reader, writer = os.pipe()
mine = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
mine.bind(('127.0.0.1', 0))
watched = os.pidfd_open(os.getpid())
os.write(writer, b'x')
half, other = os.pipe()
os.close(other)
signal.setitimer(signal.ITIMER_REAL, 1000)
file = open('file', 'w')
fcntl.lockf(file, fcntl.LOCK_EX)",
    );
    let fork = parent.fork();
    let number = |name: &str| parent.value(name);
    let expected = [
        format!("a pipe (descriptor {}): what waits in it", number("reader")),
        format!(
            "a pipe (descriptor {}): it leads nowhere in a fork",
            number("half")
        ),
        format!(
            "a socket (descriptor {}): it leads nowhere in a fork",
            number("mine.fileno()")
        ),
        format!(
            "anon_inode:[pidfd] (descriptor {}): it leads nowhere in a fork",
            number("watched")
        ),
        "/workspace/file: a lock on it".to_owned(),
        "a timer of `signal`: it does not run in a fork".to_owned(),
    ];
    let mut named = not_copied(&fork);
    named.sort_unstable();
    let mut expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    expected.sort_unstable();
    assert_eq!(named, expected);
}
