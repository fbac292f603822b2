//! Processes and pools of `multiprocessing`: their processes end when a session goes back, and the objects that stand for them know it.

use crate::support::{Python, session, wait};

const METHODS: [&str; 3] = ["fork", "spawn", "forkserver"];

fn with_pool(method: &str, workers: usize) -> Python {
    let session = session();
    session.good(
        format!(
            "import math, multiprocessing, os, time
context = multiprocessing.get_context('{method}')
pool = context.Pool({workers})
def roots():
    return pool.map_async(math.sqrt, [0, 1, 4, 9]).get(20)
roots()"
        )
        .as_str(),
    );
    session
}

/// A pool divides its work by the number of its workers. The second crash finds what the first one renewed.
#[test]
fn a_pool_works_after_crashes_with_every_start_method() {
    for method in METHODS {
        for workers in [1, 3] {
            let session = with_pool(method, workers);
            for _ in 0..3 {
                // Threads of the pool read and write its pipes between cells, which the result names.
                let lost = session.run("os._exit(3)").state.not_restored;
                let has_error = lost.iter().any(|lost| lost.starts_with("multiprocessing"));
                assert!(!has_error, "{lost:?}");
                let roots = session.value("roots()");
                assert_eq!(roots, "[0.0, 1.0, 2.0, 3.0]", "{method}, {workers}");
            }
            let workers_left = session.value("pool.close(), pool.join(), pool._pool[0].exitcode");
            assert_eq!(workers_left, "(None, None, 0)", "{method}, {workers}");
        }
    }
}

#[test]
fn a_pool_works_in_a_fork_of_its_session_with_every_start_method() {
    for method in METHODS {
        let session = with_pool(method, 2);
        let fork = session.fork();
        for one in [&fork, &session, &fork] {
            assert_eq!(one.value("roots()"), "[0.0, 1.0, 2.0, 3.0]", "{method}");
            one.run("os._exit(3)");
        }
        assert_eq!(fork.value("roots()"), "[0.0, 1.0, 2.0, 3.0]", "{method}");
    }
}

/// The pool of `concurrent.futures`: it starts its workers when it gets work.
#[test]
fn an_executor_works_after_crashes_an_undo_and_in_forks() {
    for method in METHODS {
        let session = session();
        session.good(
            format!(
                "import concurrent.futures, math, multiprocessing, os
executor = concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context('{method}'))
def roots():
    return [future.result(20) for future in [executor.submit(math.sqrt, number) for number in (0, 1, 4, 9)]]
roots()"
            )
            .as_str(),
        );
        let works = |one: &Python| {
            assert_eq!(one.value("roots()"), "[0.0, 1.0, 2.0, 3.0]", "{method}");
        };
        for _ in 0..3 {
            let crashed = session.run("os._exit(3)");
            assert_eq!(crashed.output, "", "{method}");
            works(&session);
        }
        session.good("taken_back = 1");
        wait(session.undo(1)).unwrap();
        works(&session);
        let fork = session.fork();
        works(&fork);
        fork.run("os._exit(3)");
        works(&fork);
        works(&session);
        session.good("executor.shutdown()");
    }
}

#[test]
fn an_executor_that_had_work_says_that_it_is_broken() {
    let session = session();
    session.good(
        "import concurrent.futures, os, time
executor = concurrent.futures.ProcessPoolExecutor(1)
future = executor.submit(time.sleep, 1000)
while not future.running(): time.sleep(0.01)",
    );
    session.run("os._exit(3)");
    assert_eq!(
        session.value("type(future.exception(20)).__name__"),
        "'BrokenProcessPool'"
    );
}

#[test]
fn a_process_has_ended_after_every_crash_and_in_a_fork() {
    for method in METHODS {
        let session = session();
        session.good(
            format!(
                "import multiprocessing, os, time
context = multiprocessing.get_context('{method}')
process = context.Process(target=time.sleep, args=(1000,))
process.start()
later = context.Process(target=time.sleep, args=(0,))"
            )
            .as_str(),
        );
        for _ in 0..3 {
            session.run("os._exit(3)");
            let state = "process.is_alive(), process.exitcode, process.join(1), later.is_alive()";
            assert_eq!(session.value(state), "(False, -9, None, False)", "{method}");
        }
        session.good("later.start(); later.join(20)");
        assert_eq!(session.value("later.exitcode"), "0", "{method}");
    }
    let session = with_pool("fork", 1);
    session.good("process = context.Process(target=time.sleep, args=(1000,)); process.start()");
    let fork = session.fork();
    assert_eq!(
        fork.value("process.is_alive(), process.exitcode"),
        "(False, -9)"
    );
    assert_eq!(session.value("process.is_alive()"), "True");
}

/// A thread that sees a worker end too early, by a status that is no worker's own, is what a pool must not meet: its thread ends then, and
/// `join` waits for ever.
#[test]
fn a_thread_that_looks_at_a_process_all_the_time_sees_one_end_of_it() {
    let session = session();
    session.good(
        "import multiprocessing, os, threading, time
context = multiprocessing.get_context('forkserver')
process, looked_at, seen = None, None, []
def look():
    while True:
        code = looked_at and looked_at.exitcode
        if seen[-1:] != [code]:
            seen.append(code)
threading.Thread(target=look, daemon=True).start()",
    );
    for _ in 0..6 {
        session.good("process = context.Process(target=time.sleep, args=(1000,)); process.start()");
        session.good("looked_at = process; seen.clear()\nwhile not seen: time.sleep(0.01)");
        session.run("os._exit(3)");
        session.good("while -9 not in seen: time.sleep(0.01)");
        let codes = session.value("sorted({str(code) for code in seen})");
        assert_eq!(codes, "['-9', 'None']");
    }
}

#[test]
fn what_goes_wrong_with_the_objects_of_processes_is_named() {
    let session = session();
    session.good("import multiprocessing.process, os; multiprocessing.process._dangling = None");
    let lost = session.run("os._exit(3)").state.not_restored;
    assert_eq!(
        lost,
        [
            "multiprocessing: what it knows of its processes and pools (TypeError(\"'NoneType' object is not iterable\"))"
        ]
    );
}
