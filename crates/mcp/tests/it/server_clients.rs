//! Clients made with the official SDK.

use crate::support::{Listening, eventually};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::process::Child;
use std::time::{Duration, Instant};

#[test]
fn a_client_finds_everything() {
    let listening = Listening::new(|_| {});
    let Some(seen) = listening.seen_in("tour") else {
        return;
    };
    let expected = json!({
        "tools": [
            "execute_python_code", "compute", "recursive_plan_tree_todo", "file_reader", "list_files", "undo", "checkpoints", "fork",
            "variables", "write_file",
        ],
        "instructions": "This server is a Python ",
        "first": [
            "## Code execution succeeded\n### Value:\n21\n### New files:\nnote.txt (text/plain, 5 bytes)",
            "success",
            "workspace://main/note.txt",
        ],
        "second": "## Code execution succeeded\n### Value:\n22",
        "error": "## Code execution failed: an exception was raised; debug it from the error below",
        "picture": [["text", null], ["image", "image/png"]],
        "written": "## Code execution succeeded\n### Terminal output:\na,b\n1,2",
        "fork": {"session": "try"},
        "in the fork": "## Code execution succeeded\n### Value:\n'changed'",
        "in main": "## Code execution succeeded\n### Value:\n(20, 'hello')",
        "resources": [
            "workspace://main/data/in.csv", "workspace://main/note.txt", "workspace://try/data/in.csv", "workspace://try/note.txt",
        ],
        "resource": "hello",
        "computed": {"result": "1180591620717411303424", "error": null},
    });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&seen[key], value, "{key}");
    }
    assert!(seen["variables"].as_str().unwrap().contains("x (int): 20"));
    listening.stop();
}

#[test]
fn clients_share_nothing_and_leave_nothing() {
    let listening = Listening::new(|_| {});
    // The second one would not see the variables of the first, and the first is gone when it comes.
    for mode in ["tour-legacy", "tour-auto"] {
        let Some(seen) = listening.seen_in(mode) else {
            return;
        };
        assert_eq!(seen["first"][1], "success");
        eventually("its session is gone", || !listening.ours.has_sessions());
    }
    let runners = listening.ours.runners.lock().unwrap().len();
    assert!(runners >= 2, "{runners}");
    listening.stop();
}

#[test]
fn output_is_told_while_the_cell_runs() {
    let listening = Listening::new(|_| {});
    let Some(seen) = listening.seen_in("progress") else {
        return;
    };
    assert_eq!(
        seen,
        json!({"messages": ["one\n", "two\n"], "first was early": true})
    );
    listening.stop();
}

#[test]
fn a_call_that_is_cancelled_is_interrupted() {
    let listening = Listening::new(|_| {});
    let Some(seen) = listening.seen_in("cancel") else {
        return;
    };
    assert_eq!(seen["soon"], true);
    let after = seen["after"].as_str().unwrap();
    assert!(
        after.starts_with("## Code execution succeeded\n### Value:\n"),
        "{after}"
    );
    listening.stop();
}

#[test]
fn bad_input_is_answered_and_the_session_lives() {
    let listening = Listening::new(|_| {});
    let Some(seen) = listening.seen_in("bad") else {
        return;
    };
    let said = |key: &str| -> (bool, String) {
        let said: (bool, Value) = serde_json::from_value(seen[key].clone()).unwrap();
        (said.0, said.1.as_str().unwrap().to_owned())
    };
    for (key, part) in [
        (
            "unknown tool",
            "there is no tool `no_such_tool`; the tools are execute_python_code,",
        ),
        ("missing", "missing field `python_code_snippet`"),
        ("type", "unknown field `more`"),
        (
            "session",
            "there is no session `elsewhere`; the sessions are main",
        ),
        ("outside", "Tool call failed:"),
        ("base64", "is not base64"),
        ("forks", "there are 8 forks, and no more are possible"),
    ] {
        let (is_error, text) = said(key);
        assert!(is_error && text.contains(part), "{key}: {text}");
    }
    assert!(said("large").1.contains("ran"));
    for (uri, part) in [
        ("workspace://main/none.txt", "there is no resource"),
        ("workspace://main/../../etc/passwd", "there is no resource"),
        (
            "file:///etc/passwd",
            "addresses here begin with workspace://main/",
        ),
    ] {
        let text = seen[uri].as_str().unwrap();
        assert!(text.contains(part), "{uri}: {text}");
    }
    assert!(said("alive").1.ends_with("yes"));
    listening.stop();
}

/// A client whose cell runs and does not end.
fn hanging(listening: &Listening) -> Option<Child> {
    let mut child = listening.visit("hang")?;
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    assert_eq!(line.trim(), "\"running\"");
    assert!(listening.ours.has_sessions());
    Some(child)
}

#[test]
fn a_server_that_is_stopped_while_a_cell_runs_leaves_nothing() {
    let listening = Listening::new(|_| {});
    let Some(mut child) = hanging(&listening) else {
        return;
    };
    let begun = Instant::now();
    // It looks for sessions that are left.
    listening.stop();
    assert!(
        begun.elapsed() < Duration::from_secs(8),
        "{:?}",
        begun.elapsed()
    );
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_client_that_is_killed_while_a_cell_runs_leaves_nothing() {
    let listening = Listening::new(|options| options.grace = Duration::from_millis(300));
    let Some(mut child) = hanging(&listening) else {
        return;
    };
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("its session is gone", || !listening.ours.has_sessions());
    listening.stop();
}
