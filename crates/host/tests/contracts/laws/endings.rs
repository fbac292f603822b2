//! R8, R16 to R19, R28: the ways in which a cell ends.

use super::failure;
use crate::support::{builder, eventually, open, processes_with, session};
use cellblock_protocol::{Cell, Limits, StateOutcome, Status, Strategy};
use std::time::Duration;

#[test]
fn r8_the_users_interrupt_ends_the_cell_and_nothing_else() {
    let session = session();
    session.good("x = 1");
    let mut running = session.start("x = 2\nprint('begun')\nwhile True: pass");
    running.until("begun\n");
    session.interrupt();
    let result = running.result();
    assert_eq!(
        (result.status, result.exit_code, result.signal),
        (Status::Interrupted, None, None)
    );
    assert_eq!(session.value("x"), "2");
}

#[test]
fn r8_an_interrupt_wakes_a_cell_that_sleeps() {
    let session = session();
    let mut running = session.start("import time\nprint('begun')\ntime.sleep(1000)");
    running.until("begun\n");
    session.interrupt();
    assert_eq!(running.result().status, Status::Interrupted);
}

#[test]
fn r8_an_interrupt_that_comes_just_before_a_long_wait_is_heard() {
    let session = session();
    // Python looks for signals between its own steps: here there is none between a long computation and a long wait.
    let code = "import time, itertools, collections
print('on', flush=True)
collections.deque(map(time.sleep, map(min, [itertools.repeat(60, 8_000_000)])), maxlen=0)";
    let mut running = session.start(code);
    running.until("on\n");
    session.interrupt();
    let result = running.result();
    assert_eq!((result.status, result.signal), (Status::Interrupted, None));
    assert_eq!(result.state.outcome, StateOutcome::Kept);
}

#[test]
fn r8_a_keyboard_interrupt_of_the_code_itself_is_a_failure() {
    assert_eq!(
        failure(session().run("raise KeyboardInterrupt")),
        (Status::Failure, "KeyboardInterrupt".into())
    );
}

#[test]
fn r8_a_cell_that_does_not_listen_to_the_interrupt_is_ended_all_the_same() {
    let session = session();
    let code = "import time
while True:
    try:
        print('begun')
        time.sleep(1000)
    except KeyboardInterrupt:
        print('no')";
    let mut running = session.start(code);
    running.until("begun\n");
    session.interrupt();
    let result = running.result();
    assert_eq!(
        (
            result.status,
            result.exit_code,
            result.signal,
            result.stdout.as_str()
        ),
        (Status::Interrupted, None, Some(9), "begun\nno\nbegun\n")
    );
}

#[test]
fn r8_an_interrupt_that_comes_before_the_code_has_begun_is_heard_at_once() {
    let session = session();
    for _ in 0..20 {
        let running = session.start("import time\ntime.sleep(1000)");
        session.interrupt();
        let result = running.result();
        assert_eq!(
            (result.status, result.signal),
            (Status::Interrupted, None),
            "it was heard, and not only ended in the end"
        );
    }
}

#[test]
fn r8_an_interrupt_that_comes_too_late_does_not_hit_the_next_cell() {
    let session = session();
    session.good("1");
    session.interrupt();
    assert_eq!(session.value("sum(range(100000))"), "4999950000");
}

#[test]
fn r16_exit_is_a_failure_and_the_session_lives_on() {
    let session = session();
    let result = session.run("x = 5\nimport sys\nsys.exit(3)");
    assert_eq!((result.exit_code, result.signal), (None, None));
    assert_eq!(result.error.as_ref().unwrap().repr, "SystemExit(3)");
    assert_eq!(failure(result), (Status::Failure, "SystemExit".into()));
    assert_eq!(
        failure(session.run("exit()")),
        (Status::Failure, "SystemExit".into())
    );
    assert_eq!(session.value("x"), "5");
}

#[test]
fn r17_infinite_recursion_is_a_failure() {
    let session = session();
    let endless = [
        "def f(): f()\nf()",
        "class A:\n    def __repr__(self): return repr(self)\nrepr(A())",
        "class B:\n    def __getattr__(self, name): return getattr(self, name)\nB().x",
        "x = []\nfor _ in range(100000): x = [x]\nimport json\njson.dumps(x)",
    ];
    for code in endless {
        assert_eq!(
            failure(session.run(code)),
            (Status::Failure, "RecursionError".into()),
            "{code}"
        );
    }
    assert_eq!(session.value("'alive'"), "'alive'");
}

#[test]
fn r18_a_process_that_ends_itself_is_crashed_with_its_exit_code() {
    let result = session().run("import os\nprint('before')\nos._exit(139)");
    assert_eq!(
        (
            result.status,
            result.exit_code,
            result.signal,
            result.stdout.as_str()
        ),
        (Status::Crashed, Some(139), None, "before\n")
    );
}

#[test]
fn r18_what_was_printed_without_a_newline_is_kept_too() {
    let result = session().run("import os\nprint('half a line', end='')\nos._exit(1)");
    assert_eq!(
        (result.status, result.stdout.as_str()),
        (Status::Crashed, "half a line")
    );
}

#[test]
fn r18_a_segmentation_fault_is_crashed_with_signal_11() {
    let result = session().run("import ctypes\nprint('before')\nctypes.string_at(0)");
    assert_eq!(
        (
            result.status,
            result.exit_code,
            result.signal,
            result.stdout.as_str()
        ),
        (Status::Crashed, None, Some(11), "before\n")
    );
}

#[test]
fn r18_even_exit_code_0_is_a_crash() {
    let result = session().run("import os\nos._exit(0)");
    assert_eq!(
        (result.status, result.exit_code, result.signal),
        (Status::Crashed, Some(0), None)
    );
}

#[test]
fn r19_a_cell_that_ignores_signals_still_ends_at_its_time_out() {
    let code = "import signal, time
for n in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM):
    signal.signal(n, signal.SIG_IGN)
print('deaf')
while True: time.sleep(1)";
    let result = session().run(Cell::new(code).timeout(Duration::from_millis(700)));
    assert_eq!(
        (
            result.status,
            result.exit_code,
            result.signal,
            result.stdout.as_str()
        ),
        (Status::Timeout, None, Some(9), "deaf\n")
    );
}

#[test]
fn r19_everything_that_a_cell_spawned_dies_with_it() {
    let mark = "86400.0719";
    let code = format!(
        "import os, subprocess, time
subprocess.Popen(['sleep', '{mark}'])
subprocess.Popen(['sleep', '{mark}'], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp('sleep', ['sleep', '{mark}'])
    os._exit(0)
print('spawned')
time.sleep(1000)"
    );
    let session = session();
    let mut running = session.start(Cell::new(code).timeout(Duration::from_secs(3)));
    running.until("spawned\n");
    eventually("three processes", || processes_with(mark) == 3);
    assert_eq!(running.result().status, Status::Timeout);
    assert_eq!(processes_with(mark), 0);
}

#[test]
fn r28_the_default_time_out_is_30_seconds() {
    assert_eq!(Limits::default().wall, Duration::from_secs(30));
}

#[test]
fn r28_a_time_out_that_is_no_positive_number_is_refused_before_anything_runs() {
    let session = session();
    for (bad, seconds) in [
        (Duration::ZERO, "0"),
        (Duration::from_secs(604_801), "604801"),
        (Duration::from_secs(1_000_000_000_000), "1000000000000"),
    ] {
        let error = session
            .attempt(Cell::new("ran = True").timeout(bad))
            .unwrap_err();
        assert_eq!(
            (error.code(), error.to_string()),
            (
                "invalid",
                format!(
                    "`timeout`: expected a positive number of seconds, at most 604800 (7 days), got {seconds}"
                )
            )
        );
    }
    let result = session.run("'ran' in globals()");
    assert_eq!(
        (result.cell, result.value.unwrap().repr.as_str()),
        (1, "False")
    );
}

#[test]
fn r18_what_was_printed_of_an_incomplete_line_is_kept_however_the_cell_ends() {
    let session = session();
    session.good("x = 1");
    let printed = "import ctypes, os, sys\nprint('one')\nprint('two', 'three', end='')\nsys.stderr.write('four')\n";
    let endings = [
        Cell::new(format!("{printed}os._exit(3)")),
        Cell::new(format!("{printed}ctypes.string_at(0)")),
        Cell::new(format!("{printed}os.kill(os.getpid(), 9)")),
        Cell::new(format!("{printed}while True: pass")).timeout(Duration::from_millis(500)),
    ];
    for cell in endings {
        let result = session.run(cell);
        assert_eq!(
            (result.stdout.as_str(), result.stderr.as_str()),
            ("one\ntwo three", "four"),
            "{result:?}"
        );
    }
    assert_eq!(session.stdout("print('next')"), "next\n");
}

#[test]
fn r18_a_child_process_prints_its_own_incomplete_line_and_not_the_parents() {
    let session = session();
    session.good("x = 1");
    let code = "import os\nprint('parent', end='')\nif os.fork() == 0:\n    print('child')\n    os._exit(0)\nos.wait()\nprint('!')";
    assert_eq!(session.stdout(code), "parentchild\nparent!\n");
}

#[test]
fn r18_what_the_first_cell_printed_of_an_incomplete_line_is_kept_too() {
    let cell = Cell::new("print('one', end='')\nwhile True: pass");
    let result = session().run(cell.timeout(Duration::from_millis(500)));
    assert_eq!(result.stdout, "one");
}

#[test]
fn r18_without_checkpoints_an_incomplete_line_is_kept_too() {
    let session = open(builder().strategy(Strategy::Direct));
    let cell = Cell::new("print('one', end='')\nwhile True: pass");
    let result = session.run(cell.timeout(Duration::from_millis(500)));
    assert_eq!(result.stdout, "one");
}
