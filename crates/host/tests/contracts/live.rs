//! Events while a cell runs, interrupts, and the end of a session.

use crate::support::{builder, eventually, open, processes_with, session, tool, wait};
use cellblock_protocol::{Event, Limits, MimeBundle, Status};
use serde_json::json;
use std::time::Duration;

fn stdout(text: &str) -> Event {
    Event::Stdout { text: text.into() }
}

#[test]
fn events_come_in_the_order_in_which_things_happened() {
    let session = session();
    session.offer([tool("ask", "Asks.", &[])]);
    let code = "import sys
print('one')
print('two', file=sys.stderr)
display(3)
print('four')
ask()
print('six')";
    let mut running = session.start(code);
    let mut events: Vec<_> = (0..5).filter_map(|_| running.next()).collect();
    session.tool_result("c1", Ok(json!(null)));
    events.extend(running.rest());
    let Some(Event::Result { result }) = events.pop() else {
        panic!("no result came")
    };
    assert_eq!(result.status, Status::Success);
    assert_eq!(
        events,
        [
            stdout("one\n"),
            Event::Stderr {
                text: "two\n".into()
            },
            Event::Display(MimeBundle::new().with("text/plain", "3").into()),
            stdout("four\n"),
            Event::ToolCall {
                call: "c1".into(),
                name: "ask".into(),
                arguments: Default::default()
            },
            stdout("six\n"),
        ]
    );
}

#[test]
fn output_is_there_while_the_cell_still_runs() {
    let session = session();
    let mut running = session.start("print('working')\nname = input()");
    assert_eq!(running.next(), Some(stdout("working\n")));
    let Some(Event::InputRequest { call, .. }) = running.next() else {
        panic!("no question came")
    };
    session.input(&call, Ok(String::new()));
    assert_eq!(running.result().stdout, "working\n");
}

#[test]
fn a_progress_display_without_newlines_is_seen_live() {
    let session = session();
    let mut running = session.start(
        "import time
print('50 %', end='', flush=True)
print('\\r100 %', end='', flush=True)
time.sleep(0.2)",
    );
    running.until("50 %");
    assert_eq!(running.result().stdout, "50 %\r100 %");
}

#[test]
fn a_character_that_is_written_in_two_halves_arrives_whole() {
    let session = session();
    let code = "import os, time
os.write(1, b'\\xe4\\xb8')
time.sleep(0.2)
os.write(1, b'\\x96!')";
    let events = session.start(code).rest();
    assert_eq!(events[0], stdout("世!"), "{events:?}");
}

#[test]
fn a_reader_that_does_not_read_holds_the_cell_up_and_loses_nothing() {
    let session = session();
    let running = session.start("for n in range(200000): print(n)");
    std::thread::sleep(Duration::from_millis(300));
    let mut running = running;
    let mut seen = String::new();
    while let Some(event) = running.next() {
        if let Event::Stdout { text } = event {
            seen.push_str(&text);
        }
    }
    let expected: String = (0..200_000).map(|n| format!("{n}\n")).collect();
    assert!(
        seen == expected,
        "{} of {} bytes came",
        seen.len(),
        expected.len()
    );
}

#[test]
fn the_result_can_be_had_without_reading_the_events() {
    let result = session()
        .start("for n in range(100000): print(n)\n'done'")
        .result();
    assert_eq!(
        (result.status, result.value.unwrap().repr.as_str()),
        (Status::Success, "'done'")
    );
}

#[test]
fn after_the_result_there_are_no_more_events() {
    let mut running = session().start("1");
    assert!(matches!(running.next(), Some(Event::Result { .. })));
    assert_eq!((running.next(), running.next()), (None, None));
}

#[test]
fn a_cell_whose_events_nobody_reads_any_more_runs_on() {
    let session = session();
    drop(
        session.start(
            "import time\ntime.sleep(0.3)\nfor n in range(100000): print(n)\nx = 'finished'",
        ),
    );
    let value = loop {
        match session.attempt("x") {
            Ok(result) => break result.value.unwrap().repr,
            Err(error) => assert_eq!(error.code(), "busy"),
        }
    };
    assert_eq!(value, "'finished'");
}

#[test]
fn a_question_that_nobody_can_answer_any_more_is_refused() {
    let session = session();
    drop(
        session.start("import time\ntime.sleep(0.3)\ntry: input()\nexcept EOFError: x = 'refused'"),
    );
    let asked = async {
        loop {
            match session.0.run("x").await {
                Ok(result) => break result.value.unwrap().repr,
                Err(error) => assert_eq!(error.code(), "busy"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let value = wait(async { tokio::time::timeout(Duration::from_secs(10), asked).await });
    assert_eq!(value.expect("the cell waits for ever"), "'refused'");
}

#[test]
fn an_interrupt_reaches_a_cell_that_waits_for_an_answer() {
    let session = session();
    let mut running = session.start("try: input()\nfinally: print('left')");
    assert!(matches!(running.next(), Some(Event::InputRequest { .. })));
    session.interrupt();
    let result = running.result();
    assert_eq!(
        (result.status, result.signal, result.stdout.as_str()),
        (Status::Interrupted, None, "left\n")
    );
    assert_eq!(session.value("1"), "1");
}

#[test]
fn a_cell_that_finishes_in_spite_of_the_interrupt_is_a_success() {
    let session = session();
    let mut running = session.start(
        "import time
try:
    print('begun')
    time.sleep(100)
except KeyboardInterrupt:
    x = 'saved'
x",
    );
    running.until("begun\n");
    session.interrupt();
    let result = running.result();
    assert_eq!(
        (result.status, result.value.unwrap().repr.as_str()),
        (Status::Success, "'saved'")
    );
}

#[test]
fn an_idle_session_ends_and_says_why() {
    let idle = Duration::from_secs(1);
    let session = open(builder().name("sleepy").limits(Limits {
        idle,
        ..Limits::default()
    }));
    session.good("import time\ntime.sleep(1.2)");
    session.good("1");
    std::thread::sleep(idle + Duration::from_millis(500));
    let error = session.attempt("1").unwrap_err();
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        ("ended", "session `sleepy` has ended: it was idle for 1 s")
    );
}

#[test]
fn a_closed_session_says_so() {
    let session = open(builder().name("done"));
    session.good("x = 1");
    wait(session.close());
    for error in [
        session.attempt("x").unwrap_err(),
        wait(session.vars()).unwrap_err(),
        wait(session.read_output(1, cellblock_protocol::Stream::Output, 0, 1)).unwrap_err(),
    ] {
        assert_eq!(
            (error.code(), error.to_string().as_str()),
            ("ended", "session `done` has ended: it was closed")
        );
    }
    wait(session.close());
}

#[test]
fn close_waits_until_nothing_of_the_session_is_left() {
    let mark = "86400.0723";
    let session = session();
    session.good(&format!(
        "import subprocess
child = subprocess.Popen(['sleep', '{mark}'], start_new_session=True)"
    ));
    eventually("the child", || processes_with(mark) == 1);
    wait(session.close());
    assert_eq!(processes_with(mark), 0);
}

#[test]
fn close_ends_a_cell_that_runs_and_waits_for_that_too() {
    let mark = "86400.0727";
    let session = session();
    let mut running = session.start(format!(
        "import subprocess\nprint('begun')\nsubprocess.run(['sleep', '{mark}'])"
    ));
    running.until("begun\n");
    eventually("the child", || processes_with(mark) == 1);
    wait(session.close());
    assert_eq!(processes_with(mark), 0);
    let last = running.rest().pop();
    assert!(
        matches!(last, Some(Event::Result { .. } | Event::Error { .. })),
        "{last:?}"
    );
}

#[test]
fn dropping_the_last_handle_ends_the_session() {
    let mark = "86400.0731";
    let session = session();
    session.good(&format!(
        "import subprocess\nchild = subprocess.Popen(['sleep', '{mark}'])"
    ));
    eventually("the child", || processes_with(mark) == 1);
    drop(session);
    eventually("the child is gone", || processes_with(mark) == 0);
}
