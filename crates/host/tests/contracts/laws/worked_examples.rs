//! The worked examples of the contract, which must give exactly this.

use super::failure;
use crate::support::{eventually, session, wait};
use cellblock_protocol::{Cell, Status};
use std::time::Duration;

#[test]
fn three_cells_build_on_each_other() {
    let session = session();
    session.good("x = 10");
    session.good("y = x * 2");
    session.good("import math; z = math.sqrt(y)");
    assert_eq!(
        session.value("z, math.__name__"),
        "(4.47213595499958, 'math')"
    );
}

#[test]
fn a_division_by_zero_keeps_what_was_bound_before_it() {
    let session = session();
    let result = session.run("a = 123\nb = 0\nc = a/b");
    assert_eq!(
        (result.status, result.error.unwrap().repr.as_str()),
        (Status::Failure, "ZeroDivisionError('division by zero')")
    );
    assert_eq!(session.value("a, b, 'c' in globals()"), "(123, 0, False)");
}

#[test]
fn a_sleep_that_is_too_long_times_out_with_what_was_printed() {
    let result = session().run(
        Cell::new(r#"print("Start sleeping...", flush=True); import time; time.sleep(10)"#)
            .timeout(Duration::from_secs(3)),
    );
    assert_eq!(
        (
            result.status,
            result.exit_code,
            result.signal,
            result.stdout.as_str()
        ),
        (Status::Timeout, None, Some(9), "Start sleeping...\n")
    );
}

#[test]
fn endless_python_endless_c_and_a_joined_thread_all_time_out() {
    let endless = [
        "while True: pass",
        "import re\nre.match(r'(a+)+$', 'a'*40 + 'b')",
        "import threading, time
thread = threading.Thread(target=time.sleep, args=[1000])
thread.start()
thread.join()",
    ];
    for code in endless {
        assert_eq!(
            session()
                .run(Cell::new(code).timeout(Duration::from_millis(500)))
                .status,
            Status::Timeout,
            "{code}"
        );
    }
}

#[test]
fn a_time_out_names_the_line_that_it_was_in() {
    let endless = [
        ("x = 1\nwhile True: x += 1", 2),
        ("import re\nre.match(r'(a+)+$', 'a'*40 + 'b')", 2),
        ("def f():\n    import time\n    time.sleep(1000)\nf()", 3),
    ];
    for (code, line) in endless {
        // On a busy machine the answer may come too late to be waited for.
        eventually(code, || {
            let cell = Cell::new(code).timeout(Duration::from_millis(500));
            let result = session().run(cell);
            assert_eq!(
                (
                    result.status,
                    result.stdout.as_str(),
                    result.stderr.as_str()
                ),
                (Status::Timeout, "", "")
            );
            result.stopped_at == Some(format!("line {line} of <cell 1>"))
        });
    }
}

#[test]
fn infinite_recursion_that_prints_its_cause_and_goes_on_is_a_failure() {
    let session = session();
    let result = session.run(
        "def f(n):
    return f(n + 1)
try:
    f(0)
except RecursionError as error:
    print(error)
    raise",
    );
    assert!(
        result
            .stdout
            .starts_with("maximum recursion depth exceeded"),
        "{}",
        result.stdout
    );
    assert_eq!(failure(result), (Status::Failure, "RecursionError".into()));
}

#[test]
fn a_file_in_the_wrong_encoding_is_a_failure_and_the_rest_is_kept() {
    let session = session();
    wait(session.put_file("data.json", b"{\"k\": \"\x94\"}".to_vec())).unwrap();
    session.good("before = 1");
    let result = session.run(
        "import json
handle = open('data.json', encoding='gbk')
data = json.load(handle)",
    );
    assert_eq!(
        failure(result),
        (Status::Failure, "UnicodeDecodeError".into())
    );
    assert_eq!(
        session.value("before, handle.closed, 'data' in globals()"),
        "(1, False, False)"
    );
}
