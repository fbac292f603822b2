//! R11, R23: cells that wait for somebody.

use crate::support::tool;
use crate::support::{session, wait};
use cellblock_protocol::{Cell, Event, Status};
use serde_json::json;
use std::time::Duration;

#[test]
fn r11_while_a_cell_waits_in_a_tool_call_other_sessions_run_and_its_own_is_busy() {
    let (one, other) = (session(), session());
    one.offer([tool("ask", "Asks.", &["what"])]);
    let mut running = one.start("x = ask('why?')\nx");
    let Some(Event::ToolCall { call, .. }) = running.next() else {
        panic!("no call came")
    };

    assert_eq!(other.value("6 * 7"), "42");
    let busy = "is busy: a cell is running in it; wait for its result or interrupt it";
    for error in [
        one.attempt("1").unwrap_err(),
        wait(one.compute("1", "one")).unwrap_err(),
        wait(one.reset()).unwrap_err(),
    ] {
        assert_eq!(
            (error.code(), error.to_string()),
            ("busy", format!("session `{}` {busy}", one.id()))
        );
    }

    // Looking is not running.
    assert_eq!(wait(one.vars()).unwrap(), []);

    one.tool_result(&call, Ok(json!("because")));
    let result = running.result();
    assert_eq!(
        (result.cell, result.value.unwrap().repr.as_str()),
        (1, "'because'")
    );
    assert_eq!(one.run("x").cell, 2, "what was refused took no number");
}

#[test]
fn r23_input_asks_the_host() {
    let session = session();
    let mut running = session.start("name = input('Your name? ')\nprint('Hello', name)\nname");
    let Some(Event::InputRequest { call, prompt, .. }) = running.next() else {
        panic!("no question came")
    };
    assert_eq!(prompt, "Your name? ");
    session.input(&call, Ok("Ada Łovelace".into()));
    let result = running.result();
    assert_eq!(
        (result.stdout.as_str(), result.value.unwrap().repr.as_str()),
        ("Hello Ada Łovelace\n", "'Ada Łovelace'")
    );
}

#[test]
fn r23_standard_input_is_answered_line_by_line() {
    let session = session();
    let mut running = session.start("import sys\nsys.stdin.readline(), input()");
    for line in ["one", "two"] {
        let Some(Event::InputRequest { call, .. }) = running.next() else {
            panic!("no question came")
        };
        session.input(&call, Ok(line.into()));
    }
    assert_eq!(running.result().value.unwrap().repr, r"('one\n', 'two')");
}

#[test]
fn r23_where_no_one_can_answer_input_fails_at_once_and_says_so() {
    let error = session().run("input('Your name? ')").error.unwrap();
    assert_eq!(
        (error.type_.as_str(), error.value.as_str()),
        (
            "EOFError",
            "input() cannot be answered: no person can type here; pass the value in as a variable"
        )
    );
}

#[test]
fn a_thread_that_waits_for_an_answer_buys_no_time_for_one_that_computes() {
    let session = session();
    let code =
        "import threading\nthreading.Thread(target=input, daemon=True).start()\nwhile True: pass";
    let mut running = session.start(Cell::new(code).timeout(Duration::from_secs(1)));
    assert!(matches!(running.next(), Some(Event::InputRequest { .. })));
    let result = running.result();
    assert_eq!(result.status, Status::Timeout);
    assert!(
        result.usage.wall < Duration::from_secs(4),
        "{:?}",
        result.usage
    );
}

#[test]
fn a_cell_that_only_waits_for_an_answer_has_all_the_time_it_needs() {
    let session = session();
    let mut running = session.start(Cell::new("input()").timeout(Duration::from_millis(500)));
    let Some(Event::InputRequest { call, .. }) = running.next() else {
        panic!("no question came")
    };
    std::thread::sleep(Duration::from_millis(1500));
    session.input(&call, Ok("late".into()));
    assert_eq!(running.result().value.unwrap().repr, "'late'");
}

#[test]
fn r23_a_question_can_be_refused() {
    let session = session();
    let mut running = session.start("input()");
    let Some(Event::InputRequest { call, .. }) = running.next() else {
        panic!("no question came")
    };
    session.input(&call, Err("the user went home".into()));
    assert_eq!(
        running.result().error.unwrap().repr,
        "EOFError('the user went home')"
    );
}
