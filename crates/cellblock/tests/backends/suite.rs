//! What every backend does.

use super::ground::Ground;
use super::sessions::{host, open, run};
use cellblock::agent::{Executor as _, ExecutorOptions, WorkspaceChoice, executor};
use cellblock::tools::{Approval, Registry};
use cellblock::{
    Cell, CellResult, Event, Limits, Locale, Session, SessionOptions, StateOutcome, Status,
    ToolSpec,
};
use cellblock_test_support::wait;
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::thread;
use std::time::{Duration, Instant};

fn value(session: &Session, code: &str) -> String {
    let result = run(session, code);
    let shown = format!("{result:?}");
    result.value.unwrap_or_else(|| panic!("{shown}")).repr
}

/// What becomes of the session after a cell whose process ended.
fn assert_survived(test_directory: &Ground, session: &Session, result: &CellResult) {
    if test_directory.has_checkpoints() {
        assert_eq!(result.state.outcome, StateOutcome::Restored, "{result:?}");
        assert_eq!(value(session, "x"), "1");
        return;
    }
    assert_eq!(result.state.outcome, StateOutcome::Ended, "{result:?}");
    let message = wait(session.run("x")).unwrap_err().to_string();
    assert!(message.contains("has ended"), "{message}");
}

pub(crate) fn variables_live_from_cell_to_cell(test_directory: Ground) {
    let session = test_directory.session();
    run(&session, "x = 20\ndef twice(n): return 2 * n");
    assert_eq!(value(&session, "twice(x) + 2"), "42");
    let result = run(&session, "import sys; sys.version_info[0]");
    assert_eq!((result.cell, result.status), (3, Status::Success));
}

pub(crate) fn output_comes_in_order_and_as_it_is_written(test_directory: Ground) {
    let session = test_directory.session();
    let code = "import sys
for n in range(3):
    print('out', n)
    print('err', n, file=sys.stderr)";
    let result = run(&session, code);
    assert_eq!(result.stdout, "out 0\nout 1\nout 2\n");
    assert_eq!(result.stderr, "err 0\nerr 1\nerr 2\n");
    let result = run(&session, "print('x' * 3_000_000)");
    assert_eq!(result.usage.stdout_bytes, 3_000_001);
    assert!(result.stdout.len() < 1_100_000);
}

pub(crate) fn an_exception_is_a_failure_and_the_session_goes_on(test_directory: Ground) {
    let session = test_directory.session();
    let result = run(&session, "x = 1\nx / 0");
    assert_eq!(result.status, Status::Failure);
    let error = result.error.unwrap();
    assert_eq!(error.type_, "ZeroDivisionError");
    assert!(
        error.traceback.contains("<cell 1>\", line 2"),
        "{}",
        error.traceback
    );
    assert_eq!(value(&session, "x"), "1");
}

pub(crate) fn files_of_the_workspace_are_the_hosts_files(test_directory: Ground) {
    let session = test_directory.session();
    wait(session.put_file("given/a.txt", b"from the host".to_vec())).unwrap();
    let code = "import os
text = open('given/a.txt').read()
open('b.txt', 'w').write('from inside')
os.getcwd(), text";
    assert_eq!(value(&session, code), "('/workspace', 'from the host')");
    let file = wait(session.get_file("b.txt")).unwrap();
    assert_eq!(file, b"from inside");
    let written = session.workspace().join("b.txt").metadata().unwrap();
    let owner = session.workspace().metadata().unwrap();
    assert_eq!((written.uid(), written.gid()), (owner.uid(), owner.gid()));
}

pub(crate) fn a_result_names_what_changed(test_directory: Ground) {
    let session = test_directory.session();
    run(&session, "a = 1\nb = 2");
    let result = run(
        &session,
        "del a\nb = 3\nc = 4\nopen('new.txt', 'w').write('x')",
    );
    let names = |changes: &[cellblock::VariableChange]| -> Vec<String> {
        changes.iter().map(|change| change.name.clone()).collect()
    };
    assert_eq!(names(&result.variables.added), ["c"]);
    assert_eq!(names(&result.variables.changed), ["b"]);
    assert_eq!(names(&result.variables.removed), ["a"]);
    assert_eq!(result.files.created[0].path, "new.txt");
}

pub(crate) fn a_cell_that_takes_too_long_is_stopped(test_directory: Ground) {
    let session = test_directory.session();
    run(&session, "x = 1");
    let begun = Instant::now();
    let result = run(
        &session,
        Cell::new("print('begun', flush=True)\nx = 2\nwhile True: pass")
            .timeout(Duration::from_millis(500)),
    );
    assert_eq!(result.status, Status::Timeout);
    assert_eq!(result.stdout, "begun\n");
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_survived(&test_directory, &session, &result);
}

pub(crate) fn an_interrupted_cell_leaves_the_variables_alone(test_directory: Ground) {
    let session = test_directory.session();
    run(&session, "x = 1");
    let result = interrupted(
        &session,
        "import time\nprint('begun', flush=True)\ntime.sleep(60)",
    );
    assert_eq!(result.status, Status::Interrupted, "{result:?}");
    assert_eq!(result.state.outcome, StateOutcome::Kept);
    assert_eq!(value(&session, "x"), "1");
}

pub(crate) fn a_cell_that_does_not_listen_to_an_interrupt_is_ended(test_directory: Ground) {
    let session = test_directory.session();
    run(&session, "x = 1");
    let result = interrupted(
        &session,
        "import signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
print('begun', flush=True)
time.sleep(60)",
    );
    assert_eq!(result.status, Status::Interrupted, "{result:?}");
    assert_survived(&test_directory, &session, &result);
}

/// Interrupts a cell once it has printed something.
fn interrupted(session: &Session, code: &str) -> CellResult {
    wait(async {
        let mut running = session.start(code).unwrap();
        loop {
            match running.next().await.unwrap() {
                Event::Stdout { .. } => session.interrupt(),
                Event::Result { result } => return *result,
                _ => {}
            }
        }
    })
}

pub(crate) fn a_crash_is_told_with_its_signal(test_directory: Ground) {
    let session = test_directory.session();
    run(&session, "x = 1");
    let result = run(&session, "import ctypes; ctypes.string_at(0)");
    assert_eq!((result.status, result.signal), (Status::Crashed, Some(11)));
    assert_survived(&test_directory, &session, &result);
}

pub(crate) fn an_exit_is_told_with_its_code(test_directory: Ground) {
    let session = test_directory.session();
    run(&session, "x = 1");
    let result = run(&session, "import os; os._exit(7)");
    assert_eq!(
        (result.status, result.exit_code),
        (Status::Crashed, Some(7))
    );
    assert_survived(&test_directory, &session, &result);
}

pub(crate) fn more_memory_than_allowed_is_a_clean_error_or_a_clear_end(test_directory: Ground) {
    let limits = Limits {
        memory: 256 << 20,
        ..Limits::default()
    };
    let session = open(test_directory.builder().limits(limits));
    run(&session, "x = 1");
    let result = run(&session, "large = bytearray(1 << 30)");
    assert_eq!(result.error.unwrap().type_, "MemoryError");
    assert_eq!(value(&session, "x"), "1");
    let hoard = "import mmap
hoard = []
while True:
    part = mmap.mmap(-1, 1 << 22)
    part.write(b'x' * (1 << 22))
    hoard.append(part)";
    let result = run(&session, hoard);
    assert_eq!(result.status, Status::Crashed, "{result:?}");
    assert_eq!(result.error.as_ref().unwrap().type_, "MemoryLimit");
    assert_survived(&test_directory, &session, &result);
}

pub(crate) fn processes_are_counted(test_directory: Ground) {
    let limits = Limits {
        processes: 10,
        ..Limits::default()
    };
    let session = open(test_directory.builder().limits(limits));
    let code = "import os, time
children = []
try:
    for _ in range(200):
        child = os.fork()
        if child == 0:
            time.sleep(60)
        children.append(child)
except OSError as error:
    print(type(error).__name__)
for child in children:
    os.kill(child, 9); os.waitpid(child, 0)
print(len(children) < 40)";
    assert_eq!(run(&session, code).stdout, "BlockingIOError\nTrue\n");
}

pub(crate) fn what_is_written_is_counted_with_and_without_a_name(test_directory: Ground) {
    let limits = Limits {
        disk: 16 << 20,
        ..Limits::default()
    };
    for nameless in ["", "os.unlink('large')"] {
        let session = open(test_directory.builder().limits(limits.clone()));
        run(&session, "x = 1");
        let code = format!(
            "import os, time
file = open('large', 'wb')
{nameless}
for _ in range(8):
    file.write(bytes(8 << 20)); file.flush()
time.sleep(20)"
        );
        let result = run(&session, code.as_str());
        assert_ne!(result.status, Status::Success, "{result:?}");
        let error = result.error.as_ref().unwrap();
        // As one file it may hit the limit of a single file first.
        assert!(
            error.type_ == "DiskLimit" || error.type_ == "OSError",
            "{error:?}"
        );
    }
}

pub(crate) fn there_is_no_network(test_directory: Ground) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let session = test_directory.session();
    let code = format!("import socket; socket.create_connection(('127.0.0.1', {port}), timeout=3)");
    let error = run(&session, code.as_str()).error.unwrap();
    assert!(error.type_.contains("Error"), "{error:?}");
    let code = "import socket; socket.create_connection(('10.1.1.1', 80), timeout=3)";
    let error = run(&session, code).error.unwrap();
    assert!(
        error.traceback.contains("this session has no network"),
        "{}",
        error.traceback
    );
}

pub(crate) fn what_was_allowed_on_the_network_is_reached(test_directory: Ground) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let _ = client.read(&mut [0; 4096]);
            let _ = client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\na page");
        }
    });
    let fetch = format!(
        "from urllib.request import urlopen\nprint(urlopen('http://localhost:{port}/', timeout=10).read())"
    );
    let rule = format!("localhost:{port}").parse().unwrap();
    let session = open(test_directory.builder().allow_net(rule));
    assert_eq!(run(&session, fetch.as_str()).stdout, "b'a page'\n");
    let refused = run(&session, fetch.replace("localhost", "example.org").as_str());
    let message = refused.error.unwrap().traceback;
    assert!(message.contains("may not reach example.org"), "{message}");
    let rule = format!("tcp://localhost:{port}").parse().unwrap();
    let session = open(test_directory.builder().allow_net(rule));
    let raw = format!(
        "import socket
with socket.create_connection(('localhost', {port}), timeout=10) as connection:
    connection.sendall(b'hello')
    print(connection.recv(15))"
    );
    assert_eq!(run(&session, raw.as_str()).stdout, "b'HTTP/1.1 200 OK'\n");
}

pub(crate) fn only_the_workspace_and_tmp_can_be_changed(test_directory: Ground) {
    let session = test_directory.session();
    let code = "import os
def attempt(path):
    try:
        open(path, 'w').close()
        return 'written'
    except OSError as error:
        return type(error).__name__
[attempt(path) for path in ['/workspace/a', '/tmp/a', '/etc/a', '/usr/a', '/a', '/proc/sys/kernel/hostname']]";
    let found = value(&session, code);
    assert!(found.starts_with("['written', 'written', "), "{found}");
    assert_eq!(found.matches("written").count(), 2, "{found}");
}

pub(crate) fn seeds_imports_and_setup_come_before_the_first_cell(test_directory: Ground) {
    let builder = test_directory
        .builder()
        .variable("n", 9)
        .import("math")
        .setup("root = math.sqrt(n)");
    let session = open(builder);
    assert_eq!(value(&session, "root"), "3.0");
    let broken = test_directory.builder().setup("1/0");
    let message = wait(broken.start()).unwrap_err().to_string();
    assert!(message.contains("ZeroDivisionError"), "{message}");
}

pub(crate) fn a_question_is_answered(test_directory: Ground) {
    let session = test_directory.session();
    let result = wait(async {
        let mut running = session.start("name = input('Who? ')\nname").unwrap();
        loop {
            match running.next().await.unwrap() {
                Event::InputRequest { call, .. } => session.input(&call, Ok("Ada".to_owned())),
                Event::Result { result } => return *result,
                _ => {}
            }
        }
    });
    assert_eq!(result.value.unwrap().repr, "'Ada'");
}

pub(crate) fn tools_can_be_called_from_code(test_directory: Ground) {
    let session = test_directory.session();
    let tool: ToolSpec = serde_json::from_value(json!({
        "name": "double",
        "description": "Twice as much.",
        "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    }))
    .unwrap();
    wait(session.set_tools(vec![tool])).unwrap();
    let result = wait(async {
        let mut running = session.start("double(n=21)").unwrap();
        loop {
            match running.next().await.unwrap() {
                Event::ToolCall {
                    call, arguments, ..
                } => {
                    let n = arguments.to_map()["n"].as_i64().unwrap();
                    session.tool_result(&call, Ok(json!(2 * n)));
                }
                Event::Result { result } => return *result,
                _ => {}
            }
        }
    });
    assert_eq!(result.value.unwrap().repr, "42");
}

pub(crate) fn an_expression_is_computed_beside_the_session(test_directory: Ground) {
    let session = test_directory.session();
    run(&session, "x = [1, 2]");
    let computed = wait(session.compute("x.append(3) or len(x)", "")).unwrap();
    assert!(format!("{computed:?}").contains('3'), "{computed:?}");
    assert_eq!(value(&session, "x"), "[1, 2]");
}

pub(crate) fn variables_can_be_listed_looked_at_and_forgotten(test_directory: Ground) {
    let session = test_directory.session();
    run(&session, "numbers = [1, 2, 3]");
    let names: Vec<String> = wait(session.vars())
        .unwrap()
        .into_iter()
        .map(|variable| variable.name)
        .collect();
    assert_eq!(names, ["numbers"]);
    assert!(wait(session.inspect("numbers")).is_ok());
    wait(session.reset()).unwrap();
    assert!(wait(session.vars()).unwrap().is_empty());
}

pub(crate) fn a_room_of_the_agents_executor_is_made_when_it_is_needed(test_directory: Ground) {
    let options = SessionOptions {
        container: test_directory.container(),
        ..SessionOptions::default()
    };
    let executor = executor(host().clone(), options, Vec::new());
    assert_eq!(executor.workspace_path(), "/workspace");
    let room = executor.open(ExecutorOptions {
        registry: Registry::builder().built_in().build().unwrap(),
        seed: [("readings".to_owned(), json!([1, 2, 3]))]
            .into_iter()
            .collect(),
        approval: Approval::default(),
        locale: Locale::En,
        workspace: WorkspaceChoice::Usual,
        replay: None,
        earlier: None,
    });
    assert_eq!(wait(room.session()), None);
    let ran = wait(room.run(Cell::new("total = sum(readings)\nprint(total)"), None));
    assert_eq!(ran.result.unwrap().stdout, "6\n");
    assert!(wait(room.session()).is_some());
    wait(room.put_file("a.txt", b"text".to_vec())).unwrap();
    assert_eq!(wait(room.get_file("a.txt")).unwrap(), b"text");
    // A cell that ends its process is told; the next one finds a session.
    let ran = wait(room.run(Cell::new("import os; os._exit(1)"), None));
    assert_eq!(ran.result.unwrap().status, Status::Crashed);
    let ran = wait(room.run(Cell::new("print(sum(readings))"), None));
    assert_eq!(ran.result.unwrap().stdout, "6\n");
    wait(room.close());
}

pub(crate) fn a_session_that_was_closed_says_so(test_directory: Ground) {
    let session = test_directory.session();
    run(&session, "x = 1");
    wait(session.close());
    let message = wait(session.run("x")).unwrap_err().to_string();
    assert!(message.contains("it was closed"), "{message}");
}
