//! `cellblock pipe`: processes beside the interpreter.

use crate::support::{Pipe, Place};
use serde_json::{Value, json};

/// Sends a request and returns what comes for it, up to this event or an error.
fn until(pipe: &mut Pipe, request: Value, last: &str) -> Vec<Value> {
    let id = request["id"].clone();
    pipe.send(request);
    let mut lines = Vec::new();
    loop {
        let mut line = pipe.next_as_it_is();
        if line["id"] != id {
            continue;
        }
        let event = line["event"].as_str().unwrap_or_default().to_owned();
        let fields = line.as_object_mut().unwrap();
        for changing in ["id", "session", "cpu_ms", "peak_bytes"] {
            fields.remove(changing);
        }
        lines.push(line);
        if event == last || event == "error" {
            return lines;
        }
    }
}

fn output(proc: &str, offset: u64, base64: &str) -> Value {
    json!({"event": "proc_output", "proc": proc, "stream": "stdout", "offset": offset, "base64": base64})
}

fn exited(proc: &str, code: i32) -> Value {
    json!({"event": "proc_end", "proc": proc, "exit_code": code, "signal": null, "status": "exited"})
}

#[test]
fn a_process_is_answered_at_once_and_tells_its_output_and_its_end() {
    let place = Place::new();
    let mut pipe = place.pipe();
    let mut lines = until(
        &mut pipe,
        json!({"id": 1, "op": "spawn", "argv": ["printf", "hi"]}),
        "proc_end",
    );
    assert!(
        lines[0]["answer"]["pid"]
            .as_u64()
            .is_some_and(|pid| pid > 1)
    );
    lines[0]["answer"]["pid"] = json!(0);
    let answer = json!({"event": "answer", "answer": {"proc": "p1", "pid": 0}});
    assert_eq!(lines, [answer, output("p1", 0, "aGk="), exited("p1", 0)]);
    let again = until(
        &mut pipe,
        json!({"id": 2, "op": "proc_attach", "proc": "p1", "after": 1}),
        "proc_end",
    );
    let answer = json!({"event": "answer", "answer": {}});
    assert_eq!(again, [answer, output("p1", 1, "aQ=="), exited("p1", 0)]);
    assert_eq!(pipe.end(), (vec![], Some(0)));
}

#[test]
fn processes_are_written_to_listed_and_ended_while_a_cell_runs() {
    let place = Place::new();
    let mut pipe = place.pipe();
    pipe.ask(json!({"id": 1, "op": "open"}));
    pipe.send(json!({"id": 2, "op": "run", "code": "import time, os\nwhile not os.path.exists('go'): time.sleep(0.01)\n'over'"}));
    let spawned = until(
        &mut pipe,
        json!({"id": 3, "op": "spawn", "shell": "cat > go.tmp; mv go.tmp go; exec sleep 1000", "stdin": true, "tag": "t"}),
        "answer",
    );
    assert_eq!(spawned[0]["answer"]["proc"], "p1");
    let listed = until(&mut pipe, json!({"id": 4, "op": "procs"}), "answer");
    let first = &listed[0]["answer"][0];
    assert_eq!(
        (&first["proc"], &first["tag"], &first["cwd"]),
        (&json!("p1"), &json!("t"), &json!("/workspace"))
    );
    for (id, request) in [
        json!({"op": "proc_input", "proc": "p1", "base64": "aGk="}),
        json!({"op": "proc_close", "proc": "p1"}),
    ]
    .into_iter()
    .enumerate()
    {
        let mut request = request;
        request["id"] = json!(10 + id);
        assert_eq!(until(&mut pipe, request, "answer")[0]["answer"], json!({}));
    }
    loop {
        let line = pipe.next();
        if line["event"] == "result" {
            break assert_eq!(line["result"]["value"]["repr"], "'over'");
        }
    }
    pipe.send(json!({"id": 20, "op": "proc_signal", "proc": "p1", "signal": 15}));
    loop {
        let line = pipe.next();
        if line["event"] == "proc_end" {
            break assert_eq!(
                (&line["signal"], &line["status"]),
                (&json!(15), &json!("signaled"))
            );
        }
    }
}

#[test]
fn what_is_wrong_about_a_process_is_said() {
    let place = Place::new();
    let mut pipe = place.pipe();
    let mut error = |request: Value| {
        let line = pipe.ask(request);
        assert_eq!(line["event"], "error", "{line}");
        (
            line["code"].as_str().unwrap().to_owned(),
            line["message"].as_str().unwrap().to_owned(),
        )
    };
    let refused = error(json!({"id": 1, "op": "spawn", "argv": ["no-such-program"]}));
    assert_eq!(
        refused,
        (
            "not_found".to_owned(),
            "there is no program `no-such-program` in the session".to_owned()
        )
    );
    assert_eq!(error(json!({"id": 2, "op": "spawn"})).0, "invalid");
    assert_eq!(
        error(json!({"id": 3, "op": "proc_signal", "proc": "p1", "signal": 65})).0,
        "invalid"
    );
    assert_eq!(
        error(json!({"id": 4, "op": "proc_resize", "proc": "p1", "cols": 0, "rows": 1})).0,
        "invalid"
    );
    assert_eq!(
        error(json!({"id": 5, "op": "proc_input", "proc": "p9", "base64": ""})).0,
        "not_found"
    );
    assert_eq!(
        error(json!({"id": 6, "op": "proc_attach", "proc": "p9"})).0,
        "not_found"
    );
}

#[test]
fn the_end_of_the_input_ends_processes_and_tells_it() {
    let place = Place::new();
    let mut pipe = place.pipe();
    let spawned = until(
        &mut pipe,
        json!({"id": 1, "op": "spawn", "argv": ["sleep", "1000"]}),
        "answer",
    );
    assert_eq!(spawned[0]["answer"]["proc"], "p1");
    let (lines, status) = pipe.end();
    let end = lines
        .iter()
        .find(|line| line["event"] == "proc_end")
        .unwrap();
    assert_eq!((&end["status"], status), (&json!("session_ended"), Some(0)));
}
