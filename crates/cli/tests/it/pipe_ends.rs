//! `cellblock pipe`: how it ends.

use crate::pipe_calls::with_tool;
use crate::support::{Place, signal};
use serde_json::{Value, json};

#[test]
fn at_the_end_of_input_what_was_asked_is_finished_and_calls_are_refused() {
    let place = Place::new();
    let mut pipe = with_tool(&place);
    pipe.send(json!({"id": 1, "op": "run", "code": "import time; time.sleep(0.5); x = 1"}));
    pipe.send(json!({"id": 2, "op": "run", "code": "tools.lookup(query='x')"}));
    pipe.send(json!({"id": 3, "op": "run", "code": "x"}));
    let (lines, status) = pipe.end();
    let told: Vec<(&Value, &Value)> = lines
        .iter()
        .map(|line| (&line["id"], &line["event"]))
        .collect();
    let [one, two, three] = [json!(1), json!(2), json!(3)];
    let (called, result) = (json!("tool_call"), json!("result"));
    assert_eq!(
        told,
        [
            (&one, &result),
            (&two, &called),
            (&two, &result),
            (&three, &result)
        ]
    );
    assert_eq!(
        lines[2]["result"]["error"]["value"],
        "no client can answer: the input of the pipe has ended"
    );
    assert_eq!(
        (&lines[3]["result"]["value"]["repr"], status),
        (&json!("1"), Some(0))
    );
}

#[test]
fn a_pipe_that_ends_soon_leaves_no_workspace_behind() {
    let crash = json!({"id": 2, "op": "run", "code": "import os; os._exit(3)"});
    let crash = format!(
        "{}\n{crash}\n",
        json!({"id": 1, "op": "open", "strategy": "direct"})
    );
    let value = format!("{}\n", json!({"id": 1, "op": "run", "code": "1"}));
    let place = Place::new();
    for input in ["", "", &value, &crash, &value, "", &crash] {
        let ended = place.run_with(["pipe", "--stdlib"], input.as_bytes());
        assert_eq!(ended.status, 0, "{}", ended.stderr);
        let left = std::fs::read_dir(place.path().join("state/cellblock/workspaces"));
        let left = left.map(|entries| entries.flatten().map(|entry| entry.file_name()).collect());
        let left: Vec<_> = left.unwrap_or_default();
        assert!(left.is_empty(), "after {input:?}: {left:?}");
    }
}

#[test]
fn a_signal_closes_every_session() {
    let place = Place::new();
    let mut pipe = place.pipe();
    let code = "print('started', flush=True)\nwhile True: pass";
    pipe.send(json!({"id": 1, "op": "run", "code": code}));
    pipe.send(json!({"id": 2, "op": "run", "code": "print('not begun')"}));
    pipe.wait_for_output("started\n");
    signal(&pipe.child, "TERM");
    let (lines, status) = pipe.end();
    let last = lines
        .last()
        .map(|line| (line["id"].clone(), line["result"]["status"].clone()));
    assert_eq!(
        (last, status),
        (Some((json!(1), json!("interrupted"))), Some(143))
    );
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let place = Place::new();
    let mut pipe = place.pipe();
    pipe.send(json!({"id": 1, "op": "run", "code": "print('started', flush=True)\nwhile True: print('x' * 1000)"}));
    assert_eq!(
        pipe.next()["text"].as_str().unwrap().lines().next(),
        Some("started")
    );
    drop(pipe.output);
    assert_eq!(pipe.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_signal_after_the_end_of_input_ends_what_still_runs() {
    let place = Place::new();
    let mut pipe = place.pipe();
    let code = "print('started', flush=True)\nwhile True: pass";
    pipe.send(json!({"id": 1, "op": "run", "code": code}));
    drop(pipe.input.take());
    pipe.wait_for_output("started\n");
    signal(&pipe.child, "TERM");
    let (lines, status) = pipe.end();
    let last = lines.last().map(|line| line["result"]["status"].clone());
    assert_eq!((last, status), (Some(json!("interrupted")), Some(143)));
}
