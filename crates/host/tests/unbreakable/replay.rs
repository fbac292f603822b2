//! Where the newest checkpoint is behind, the kept cells since then are run again after a crash.

use crate::support::{Python, builder, host, next_log, open, session, tool, wait};
use cellblock_protocol::{
    Arming, Cell, CellResult, CheckpointStatus, Event, Limits, Replay, SessionOptions,
    StateOutcome, Status,
};
use serde_json::{Map, json};
use std::io::Write as _;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const SEGFAULT: &str = "import ctypes; ctypes.string_at(0)";

/// A thread that no checkpoint can carry: it blocks every signal. The session is behind from here on.
const DEAF: &str = "
import ctypes, os, signal, threading, time
ready = threading.Event()
def deaf():
    ctypes.CDLL(None).syscall(14, 0, ctypes.byref(ctypes.c_uint64(-1)), None, 8)
    ctypes.CDLL(None).prctl(15, b'deaf', 0, 0, 0)
    ready.set()
    time.sleep(600)
threading.Thread(target=deaf, daemon=True).start()
ready.wait()
";

fn crash(session: &Python) -> CellResult {
    let result = session.run(SEGFAULT);
    assert_eq!((result.status, result.signal), (Status::Crashed, Some(11)));
    assert_eq!(result.state.outcome, StateOutcome::Restored, "{result:?}");
    assert_eq!(result.state.checkpoint.status, CheckpointStatus::Behind);
    result
}

/// `(cells that ran again, cells that are lost)`
fn cells(result: &CellResult) -> (&[u64], &[u64]) {
    (&result.state.replayed, &result.state.lost)
}

#[test]
fn kept_cells_since_an_older_checkpoint_are_run_again_after_a_crash() {
    let session = session();
    session.good("base = 'from the checkpoint'");
    session.good(DEAF);
    session.good("x = [1, 2]; y = x; open('a.txt', 'w').write('one')");
    session.good("x.append(3); print(len(x)); open('a.txt', 'a').write(' two')");
    session.good("def area(r): return r * r");
    let result = crash(&session);
    assert_eq!(cells(&result), (&[2, 3, 4, 5][..], &[][..]), "{result:?}");
    assert_eq!(result.state.differed, [""; 0]);
    assert_eq!(result.state.not_restored, [""; 0]);
    assert!(result.state.replay_time.is_some());
    assert!(result.state.has_variables_of_before());
    assert_eq!(
        session.value("base, x, y is x, area(3), open('a.txt').read()"),
        "('from the checkpoint', [1, 2, 3], True, 9, 'one two')"
    );
    // The thread was started again, so the next crash is made up for in the same way, and counts the cell in between.
    let result = crash(&session);
    assert_eq!(cells(&result), (&[2, 3, 4, 5, 7][..], &[][..]));
    assert_eq!(session.value("x"), "[1, 2, 3]");
}

#[test]
fn a_time_out_and_a_memory_kill_are_made_up_for_too() {
    let limits = Limits {
        memory: 256 << 20,
        ..Limits::default()
    };
    let session = open(builder().limits(limits));
    session.good(DEAF);
    session.good("x = 7");
    let endless = session.run(Cell::new("while True: pass").timeout(Duration::from_millis(300)));
    assert_eq!(endless.status, Status::Timeout);
    assert_eq!(cells(&endless), (&[1, 2][..], &[][..]), "{endless:?}");
    assert_eq!(session.value("x"), "7");
    // Shared memory is not the process's own, so no MemoryError comes before the limit does.
    let too_much = "import mmap\nhoard = []\nwhile True:\n    part = mmap.mmap(-1, 1 << 24)\n    part.write(b'x' * (1 << 24))\n    hoard.append(part)";
    let greedy = session.run(too_much);
    assert_eq!(greedy.status, Status::Crashed);
    assert_eq!(cells(&greedy), (&[1, 2, 4][..], &[][..]), "{greedy:?}");
    assert_eq!(session.value("x"), "7");
}

#[test]
fn variables_that_were_bound_between_cells_are_bound_again() {
    let session = session();
    session.good(DEAF);
    wait(session.seed(Map::from_iter([("n".to_owned(), json!(20))]))).unwrap();
    session.good("m = n + 1");
    assert_eq!(cells(&crash(&session)), (&[1, 2][..], &[][..]));
    assert_eq!(session.value("n, m"), "(20, 21)");
}

/// Runs a cell and answers its calls with 1, 2, 3, … Returns the result and how often a tool was called.
fn run_with_tools(session: &Python, code: &str, answer_calls: bool) -> (CellResult, u64) {
    let mut running = session.start(code);
    let mut calls = 0;
    while let Some(event) = running.next() {
        match event {
            Event::ToolCall { call, .. } => {
                calls += 1;
                if answer_calls {
                    running.0.tool_result(&call, Ok(json!(calls)));
                }
            }
            Event::Result { result } => return (*result, calls),
            _ => {}
        }
    }
    panic!("the cell had no result");
}

fn offer_pay(session: &Python) {
    session.offer([tool("pay", "Pays", &["amount"])]);
}

#[test]
fn a_tool_is_called_once_and_its_answer_is_given_again() {
    let session = session();
    offer_pay(&session);
    session.good(DEAF);
    let (_, calls) = run_with_tools(&session, "receipts = [pay('5'), pay('5')]", true);
    assert_eq!(calls, 2);
    let (crashed, calls) = run_with_tools(&session, SEGFAULT, true);
    assert_eq!(cells(&crashed), (&[1, 2][..], &[][..]), "{crashed:?}");
    assert_eq!(calls, 0);
    assert_eq!(session.value("receipts"), "[1, 2]");
}

#[test]
fn a_cell_that_calls_something_else_when_it_runs_again_is_lost_and_calls_nothing() {
    let session = session();
    offer_pay(&session);
    session.good(DEAF);
    session.good("x = 1");
    run_with_tools(&session, "y = pay(str(time.time_ns()))", true);
    let (crashed, calls) = run_with_tools(&session, SEGFAULT, true);
    assert_eq!(calls, 0);
    assert_eq!(cells(&crashed), (&[1, 2][..], &[3][..]), "{crashed:?}");
    let named = crashed.state.not_restored.concat();
    assert!(
        named.starts_with(
            "the effects of cell 3: cell 3: run again, no call of pay with {\"amount\":"
        ),
        "{named}"
    );
    assert_eq!(session.value("x, 'y' in globals()"), "(1, False)");
}

#[test]
fn a_cell_whose_call_has_no_recorded_answer_is_not_run_again() {
    let session = session();
    offer_pay(&session);
    session.good(DEAF);
    session.good("x = 1");
    let unanswered =
        "threading.Thread(target=pay, args=('5',), daemon=True).start(); time.sleep(0.2); y = 2";
    run_with_tools(&session, unanswered, false);
    session.good("z = 3");
    let result = crash(&session);
    assert_eq!(cells(&result), (&[1, 2][..], &[3, 4][..]), "{result:?}");
    assert_eq!(
        result.state.not_restored,
        [
            "the effects of cells 3 and 4: cell 3: it called the tool pay, and the answer is not recorded",
            "the tool `pay`: what it did outside the session",
        ]
    );
    assert!(!result.state.has_variables_of_before());
    assert_eq!(session.value("x, 'z' in globals()"), "(1, False)");
}

#[test]
fn what_is_typed_is_given_again() {
    let session = session();
    session.good(DEAF);
    let mut running = session.start("name = input('Who? ')");
    while let Some(event) = running.next() {
        if let Event::InputRequest { call, .. } = event {
            running.0.input(&call, Ok("Ada".to_owned()));
        }
    }
    assert_eq!(cells(&crash(&session)), (&[1, 2][..], &[][..]));
    assert_eq!(session.value("name"), "'Ada'");
}

#[test]
fn a_cell_that_does_not_do_the_same_again_is_named() {
    let session = session();
    session.good(DEAF);
    session.good("now = time.time_ns()\nprint(now)");
    session.good("same = 1");
    let result = crash(&session);
    assert_eq!(cells(&result), (&[1, 2, 3][..], &[][..]), "{result:?}");
    let differed = &result.state.differed;
    assert!(
        differed.iter().all(|text| text.starts_with("cell 2: ")),
        "{differed:?}"
    );
    assert!(
        differed
            .iter()
            .any(|text| text.starts_with("cell 2: stdout was ")),
        "{differed:?}"
    );
    assert!(
        differed
            .iter()
            .any(|text| text.starts_with("cell 2: variable now was ")),
        "{differed:?}"
    );
    assert!(!result.state.has_variables_of_before());
}

#[test]
fn a_cell_that_crashes_when_it_runs_again_is_lost_and_those_before_it_are_there() {
    let session = session();
    // A session that begins again from nothing has a new `/tmp`; one that goes back to a checkpoint has not.
    session.good("start = 1");
    session.good(DEAF);
    session.good("x = 1; open('a.txt', 'w').write('one')");
    // `/tmp` is not part of a checkpoint, so the second run finds the mark of the first.
    session.good("open('b.txt', 'w').write('two')\nif os.path.exists('/tmp/ran'): ctypes.string_at(0)\nopen('/tmp/ran', 'w').close()\ny = 2");
    session.good("z = 3");
    let result = crash(&session);
    assert_eq!(cells(&result), (&[2, 3][..], &[4, 5][..]), "{result:?}");
    assert_eq!(
        result.state.not_restored,
        ["the effects of cells 4 and 5: cell 4: run again, it crashed with SIGSEGV"]
    );
    assert_eq!(
        session.value("x, 'y' in globals(), sorted(os.listdir())"),
        "(1, False, ['a.txt'])"
    );
}

#[test]
fn a_cell_that_fails_when_it_runs_again_is_lost() {
    let session = session();
    // A session that begins again from nothing has a new `/tmp`; one that goes back to a checkpoint has not.
    session.good("start = 1");
    session.good(DEAF);
    session.good("os.mkdir('/tmp/once')");
    let result = crash(&session);
    assert_eq!(cells(&result), (&[2][..], &[3][..]), "{result:?}");
    let named = result.state.not_restored.concat();
    assert!(
        named.starts_with(
            "the effects of cell 3: cell 3: run again, it ended with failure (FileExistsError: "
        ),
        "{named}"
    );
}

#[test]
fn a_cell_that_failed_and_was_kept_fails_again_and_is_kept() {
    let session = session();
    session.good(DEAF);
    assert_eq!(session.run("a = 1\n1/0").status, Status::Failure);
    assert_eq!(cells(&crash(&session)), (&[1, 2][..], &[][..]));
    assert_eq!(session.value("a"), "1");
}

#[test]
fn as_many_cells_run_again_as_fit_into_the_time() {
    let session = open(builder().replay(Duration::from_secs(2)));
    session.good(DEAF);
    session.good("time.sleep(0.7); x = 1");
    session.good("time.sleep(2); y = 2");
    session.good("z = 3");
    let result = crash(&session);
    assert_eq!(cells(&result), (&[1, 2][..], &[3, 4][..]), "{result:?}");
    assert_eq!(
        result.state.not_restored,
        [
            "the effects of cells 3 and 4: cell 3: running it again does not fit into the 2 s of a replay"
        ]
    );
    assert_eq!(session.value("x, 'y' in globals()"), "(1, False)");
}

#[test]
fn a_cell_that_hangs_when_it_runs_again_is_stopped_within_the_time() {
    let session = open(builder().replay(Duration::from_secs(3)));
    // A session that begins again from nothing has a new `/tmp`; one that goes back to a checkpoint has not.
    session.good("start = 1");
    session.good(DEAF);
    session.good("x = 1");
    session.good("if os.path.exists('/tmp/ran'): time.sleep(600)\nopen('/tmp/ran', 'w').close()");
    let result = crash(&session);
    assert!(result.state.lost.contains(&4), "{result:?}");
    let named = result.state.not_restored.concat();
    assert!(
        named.ends_with("run again, it took too long") || named.ends_with("any more"),
        "{named}"
    );
    assert_eq!(session.value("6 * 7"), "42");
}

#[test]
fn without_replay_the_cells_are_lost_and_named() {
    let session = open(builder().replay(Replay::Off));
    session.good("base = 1");
    session.good(DEAF);
    session.good("x = 1");
    let result = crash(&session);
    assert_eq!(cells(&result), (&[][..], &[2, 3][..]), "{result:?}");
    assert_eq!(
        result.state.not_restored,
        ["the effects of cells 2 and 3: running them again is switched off"]
    );
    assert_eq!(session.value("base, 'x' in globals()"), "(1, False)");
}

#[test]
fn cells_that_ran_ahead_of_their_checkpoint_are_run_again() {
    let options = SessionOptions {
        arming: Arming::Lazy,
        ..SessionOptions::default()
    };
    let session = Python(wait(host().open(options)).unwrap());
    session.good("import os; x = 1");
    wait(session.checkpoints()).unwrap();
    let running: Vec<_> = ["y = 2", "z = 3"].map(|code| session.run(code)).into();
    assert!(
        running
            .iter()
            .all(|result| result.status == Status::Success)
    );
    let result = session.run("os._exit(1)");
    assert_eq!(result.state.lost, [0; 0], "{result:?}");
    assert_eq!(session.value("x, y, z"), "(1, 2, 3)");
}

#[test]
fn a_crash_between_two_cells_is_made_up_for_and_told() {
    let session = session();
    session.good(DEAF);
    session.good("x = 7");
    let mut logs = session.logs();
    session.good("threading.Timer(0.3, os.abort).start()");
    assert_eq!(
        next_log(&mut logs),
        "the session went back to a checkpoint, and cells 1, 2 and 3 ran again\n"
    );
}

#[test]
fn what_is_asked_while_cells_run_again_waits_for_them() {
    let session = session();
    session.good(DEAF);
    session.good("time.sleep(0.5); x = 7");
    let (crashed, value) = wait(async {
        let crashing = session.0.run(SEGFAULT);
        let asking = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            session.0.run("x").await
        };
        tokio::join!(crashing, asking)
    });
    assert_eq!(crashed.unwrap().state.replayed, [1, 2]);
    assert_eq!(value.unwrap().value.unwrap().repr, "7");
}

#[test]
fn child_processes_that_a_restore_ends_are_named() {
    let session = session();
    session.good("import subprocess; child = subprocess.Popen(['/bin/sleep', '600'])");
    let result = session.run(SEGFAULT);
    assert_eq!(result.state.checkpoint.status, CheckpointStatus::Armed);
    let named = result.state.not_restored.concat();
    assert!(named.starts_with("the process /bin/sleep 600 ("), "{named}");
    // They are gone now, so the next restore does not end them.
    assert_eq!(session.run(SEGFAULT).state.not_restored, [""; 0]);
}

#[test]
fn a_child_that_ended_before_the_checkpoint_is_not_named() {
    let session = session();
    session.good(
        "import os, subprocess, time; child = subprocess.Popen(['/bin/true']); time.sleep(0.3)",
    );
    assert_eq!(session.run(SEGFAULT).state.not_restored, [""; 0]);
}

/// A server on this machine that says `hello` on each connection, and how many it had.
fn server() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let served = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&served);
    std::thread::spawn(move || {
        for client in listener.incoming() {
            count.fetch_add(1, Ordering::SeqCst);
            let _ = client.and_then(|mut client| client.write_all(b"hello"));
        }
    });
    (port, served)
}

#[test]
fn a_cell_that_reached_the_network_is_not_run_again_and_is_named() {
    let (port, served) = server();
    let rule = format!("tcp://localhost:{port}").parse().unwrap();
    let session = open(builder().allow_net(rule));
    session.good(DEAF);
    session.good("x = 1");
    let ask = "import socket\nwith socket.create_connection(('localhost', PORT)) as s: y = s.recv(5)\ntime.sleep(0.3)";
    session.good(&ask.replace("PORT", &port.to_string()));
    session.good("z = 3");
    let result = crash(&session);
    assert_eq!(cells(&result), (&[1, 2][..], &[3, 4][..]), "{result:?}");
    assert_eq!(
        result.state.not_restored,
        ["the effects of cells 3 and 4: cell 3: it reached the network"]
    );
    assert_eq!(served.load(Ordering::SeqCst), 1);
    assert_eq!(session.value("x, 'y' in globals()"), "(1, False)");
    // The replay is over, and the way is open again.
    assert_eq!(
        session.value(&format!("{}\ny", ask.replace("PORT", &port.to_string()))),
        "b'hello'"
    );
}

#[test]
fn a_cell_that_tries_the_network_only_when_it_runs_again_reaches_nothing_and_is_lost() {
    let (port, served) = server();
    let rule = format!("tcp://localhost:{port}").parse().unwrap();
    let session = open(builder().allow_net(rule));
    session.good(DEAF);
    let ask = "if os.path.exists('/tmp/ran'):\n    import socket\n    try: socket.create_connection(('localhost', PORT)).recv(5)\n    except OSError: pass\nopen('/tmp/ran', 'w').close()";
    session.good(&ask.replace("PORT", &port.to_string()));
    let result = crash(&session);
    assert_eq!(cells(&result), (&[1][..], &[2][..]), "{result:?}");
    assert_eq!(
        result.state.not_restored,
        ["the effects of cell 2: cell 2: run again, it tried to reach the network"]
    );
    assert_eq!(served.load(Ordering::SeqCst), 0);
}
