//! `cellblock pipe`: conversations.

use crate::support::Place;
use serde_json::{Value, json};

fn error(id: Value, session: Value, code: &str, message: &str) -> Value {
    json!({"id": id, "session": session, "event": "error", "code": code, "message": message})
}

fn answer(id: u64, answer: Value) -> Value {
    json!({"id": id, "session": "default", "event": "answer", "answer": answer})
}

#[test]
fn a_run_gives_its_output_and_then_its_result() {
    let place = Place::new();
    let mut pipe = place.pipe();
    pipe.send(json!({"id": 1, "op": "open", "isolation": "full"}));
    assert_eq!(pipe.next(), answer(1, json!({"session": "default"})));
    pipe.send(json!({"id": "a", "op": "run", "code": "x = 2\nprint(x)\nx", "timeout": 5}));
    assert_eq!(
        pipe.next(),
        json!({"id": "a", "session": "default", "event": "stdout", "text": "2\n"})
    );
    let result = json!({
        "session": "default", "cell": 1, "status": "success", "exit_code": null, "signal": null,
        "stdout": "2\n", "stderr": "", "output": "2\n", "truncated": null,
        "value": {"repr": "2", "mime": {"text/plain": "2"}}, "displays": [], "error": null,
        "variables": {"added": [{"name": "x", "type": "int", "summary": "2"}], "changed": [], "removed": []},
        "files": {"created": [], "changed": [], "deleted": []},
        "state": {"outcome": "kept", "checkpoint": 0},
        "usage": {"wall_ms": 0, "cpu_ms": 0, "peak_bytes": 0, "stdout_bytes": 2, "stderr_bytes": 0},
        "tool_calls": [], "strategy": "process", "backend": "local", "isolation": "full",
    });
    assert_eq!(
        pipe.next(),
        json!({"id": "a", "session": "default", "event": "result", "result": result})
    );
    assert_eq!(pipe.end(), (vec![], Some(0)));
}

#[test]
fn every_operation_gives_one_answer() {
    let place = Place::new();
    let mut pipe = place.pipe();
    assert_eq!(
        pipe.ask(json!({"id": 1, "op": "seed", "variables": {"x": [1, 2]}})),
        answer(1, json!({}))
    );
    let vars = pipe.ask(json!({"id": 2, "op": "vars"}));
    assert_eq!(
        (&vars["answer"][0]["name"], &vars["answer"][0]["type"]),
        (&json!("x"), &json!("list"))
    );
    let inspection = json!({"type": "list", "repr": "[1, 2]", "mime": {"text/plain": "[1, 2]"}});
    let mut inspected = pipe.ask(json!({"id": 3, "op": "inspect", "name": "x"}));
    inspected["answer"].as_object_mut().unwrap().remove("doc");
    assert_eq!(inspected, answer(3, inspection));
    let compute =
        json!({"id": 4, "op": "compute", "code": "'NcS9euQa'[::-1]", "description": "reverse it"});
    assert_eq!(
        pipe.ask(compute),
        answer(4, json!({"result": "aQue9ScN", "error": null}))
    );
    let put = json!({"id": 5, "op": "put_file", "path": "data/a.txt", "base64": "aGkh"});
    assert_eq!(pipe.ask(put), answer(5, json!({})));
    let list = json!([{"path": "data/a.txt", "bytes": 3, "mime": "text/plain", "modified": 0}]);
    assert_eq!(
        pipe.ask(json!({"id": 6, "op": "list_files"})),
        answer(6, list)
    );
    let get = json!({"id": 7, "op": "get_file", "path": "data/a.txt"});
    assert_eq!(
        pipe.ask(get),
        answer(7, json!({"base64": "aGkh", "size": 3}))
    );
    pipe.send(json!({"id": 8, "op": "run", "code": "print('some output')"}));
    assert_eq!(pipe.result()["id"], 8);
    let read = json!({"id": 9, "op": "read_output", "cell": 1, "stream": "stdout", "offset": 5, "length": 3});
    assert_eq!(pipe.ask(read), answer(9, json!({"text": "out"})));
    assert_eq!(
        pipe.ask(json!({"id": 10, "op": "reset"})),
        answer(10, json!({}))
    );
    assert_eq!(
        pipe.ask(json!({"id": 11, "op": "vars"})),
        answer(11, json!([]))
    );
    assert_eq!(
        pipe.ask(json!({"id": 12, "op": "interrupt"})),
        answer(12, json!({}))
    );
    assert_eq!(
        pipe.ask(json!({"id": 13, "op": "close"})),
        answer(13, json!({}))
    );
    assert_eq!(pipe.end(), (vec![], Some(0)));
}

#[test]
fn a_large_file_goes_through_without_being_held_in_memory() {
    const SIZE: usize = 96 << 20;
    let place = Place::new();
    let mut pipe = place.pipe();
    // It holds nothing but its last bytes, so that it costs the session no time.
    let code = format!(
        "with open('x', 'wb') as file:\n    file.truncate({SIZE} - 3)\n    file.seek(0, 2)\n    file.write(b'end')"
    );
    pipe.send(json!({"id": 1, "op": "run", "code": code}));
    assert_eq!(pipe.result()["result"]["status"], "success");
    pipe.send(json!({"id": 2, "op": "get_file", "path": "x"}));
    // Not as a value: that would be as much again.
    let mut line = Vec::new();
    std::io::BufRead::read_until(&mut pipe.output, b'\n', &mut line).unwrap();
    let beginning = br#"{"id":2,"session":"default","event":"answer","answer":{"base64":"AAAA"#;
    let end = format!("ZW5k\",\"size\":{SIZE}}}}}\n");
    let base64 = SIZE.div_ceil(3) * 4;
    assert!(line.starts_with(beginning));
    assert!(line.ends_with(end.as_bytes()));
    assert_eq!(line.len(), beginning.len() - 4 + base64 + end.len() - 4);
    let status = std::fs::read_to_string(format!("/proc/{}/status", pipe.child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak: u64 = peak
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    assert!(peak < 150 << 10, "the host needed {} MiB", peak >> 10);
    assert_eq!(pipe.end(), (vec![], Some(0)));
}

#[test]
fn a_file_is_read_in_parts() {
    let place = Place::new();
    let mut pipe = place.pipe();
    let put = json!({"id": 1, "op": "put_file", "path": "x", "base64": "YWJjZGVm"});
    assert_eq!(pipe.ask(put), answer(1, json!({})));
    let mut part = |id: u64, offset: Value, length: Value| {
        let mut get =
            json!({"id": id, "op": "get_file", "path": "x", "offset": offset, "length": length});
        let fields = get.as_object_mut().unwrap();
        fields.retain(|_, value| !value.is_null());
        pipe.ask(get)
    };
    assert_eq!(
        part(2, json!(1), json!(3)),
        answer(2, json!({"base64": "YmNk", "size": 3}))
    );
    assert_eq!(
        part(3, json!(4), Value::Null),
        answer(3, json!({"base64": "ZWY=", "size": 2}))
    );
    assert_eq!(
        part(4, json!(6), json!(3)),
        answer(4, json!({"base64": "", "size": 0}))
    );
    assert_eq!(
        part(5, Value::Null, json!(1)),
        answer(5, json!({"base64": "YQ==", "size": 1}))
    );
}

#[test]
fn requests_of_one_session_queue_up_and_sessions_interleave() {
    let place = Place::new();
    let mut pipe = place.pipe();
    for (id, session, code) in [
        (1, "slow", "import time; time.sleep(1); x = 1"),
        (2, "slow", "x += 1"),
        (3, "slow", "x"),
        (4, "quick", "'x' in globals()"),
    ] {
        pipe.send(json!({"id": id, "session": session, "op": "run", "code": code}));
    }
    let (lines, status) = pipe.end();
    let order: Vec<(u64, Value)> = lines
        .iter()
        .map(|line| {
            (
                line["id"].as_u64().unwrap(),
                line["result"]["value"]["repr"].clone(),
            )
        })
        .collect();
    let expected = [
        (4, json!("False")),
        (1, Value::Null),
        (2, Value::Null),
        (3, json!("2")),
    ];
    assert_eq!((&order[..], status), (&expected[..], Some(0)));
}

#[test]
fn what_is_no_request_is_answered_and_nothing_else_happens() {
    let place = Place::new();
    let mut pipe = place.pipe();
    pipe.send_line(b"nonsense");
    assert_eq!(pipe.next()["code"], "malformed");
    pipe.send_line(b"");
    pipe.send_line(b"\xff\xfe");
    assert_eq!(pipe.next()["code"], "malformed");
    assert_eq!(
        pipe.ask(json!({"id": 1, "op": "dance"}))["code"],
        "unknown_op"
    );
    let invalid = error(
        2.into(),
        Value::Null,
        "invalid",
        "run: `timeout`: expected a positive number of seconds, at most 604800 (7 days), got 0",
    );
    assert_eq!(
        pipe.ask(json!({"id": 2, "op": "run", "code": "1", "timeout": 0})),
        invalid
    );
    let mut long = br#"{"id":3,"op":"run","code":""#.to_vec();
    long.resize(17_000_000, b'#');
    pipe.send_line(&long);
    let message = "the line has 17000000 bytes; at most 16000000 are allowed";
    assert_eq!(
        pipe.next(),
        error(3.into(), Value::Null, "too_long", message)
    );
    pipe.send(json!({"id": 4, "op": "run", "code": "6 * 7"}));
    assert_eq!(pipe.next()["result"]["value"]["repr"], "42");
    assert_eq!(pipe.end(), (vec![], Some(0)));
}

#[test]
fn a_name_is_opened_once() {
    let place = Place::new();
    let mut pipe = place.pipe();
    let open =
        json!({"id": 1, "session": "mine", "op": "open", "imports": ["math"], "seed": {"n": 9}});
    assert_eq!(pipe.ask(open.clone())["answer"], json!({"session": "mine"}));
    let message = "session `mine` is open already; close it first, or choose another name";
    assert_eq!(
        pipe.ask(open.clone()),
        error(1.into(), "mine".into(), "exists", message)
    );
    pipe.send(json!({"id": 2, "session": "mine", "op": "run", "code": "math.sqrt(n)"}));
    assert_eq!(pipe.next()["result"]["value"]["repr"], "3.0");
    assert_eq!(
        pipe.ask(json!({"id": 3, "session": "mine", "op": "close"}))["answer"],
        json!({})
    );
    assert_eq!(pipe.ask(open)["answer"], json!({"session": "mine"}));
}

#[test]
fn a_session_that_could_not_be_opened_is_not_replaced_by_a_default_one() {
    let place = Place::new();
    let mut pipe = place.pipe();
    let open = json!({"id": 1, "op": "open", "workspace": "/nowhere"});
    pipe.send(open);
    pipe.send(json!({"id": 2, "op": "run", "code": "1"}));
    let problem = "the workspace /nowhere cannot be used: it does not exist; create it first";
    assert_eq!(
        pipe.next(),
        error(1.into(), "default".into(), "workspace", problem)
    );
    let later = format!("session `default` could not be opened: {problem}");
    assert_eq!(
        pipe.next(),
        error(2.into(), "default".into(), "workspace", &later)
    );
    assert_eq!(
        pipe.ask(json!({"id": 3, "op": "close"})),
        answer(3, json!({}))
    );
    pipe.send(json!({"id": 4, "op": "run", "code": "1"}));
    assert_eq!(pipe.result()["result"]["status"], "success");
}

#[test]
fn an_unknown_environment_is_refused() {
    let place = Place::new();
    let mut pipe = place.pipe();
    let refused = pipe.ask(json!({"id": 1, "op": "open", "env": "torch"}));
    assert_eq!(refused["code"], "python");
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.starts_with("there is no environment `torch`"),
        "{message}"
    );
}

#[test]
fn what_a_thread_prints_after_its_cell_is_a_log_of_no_request() {
    let place = Place::new();
    let mut pipe = place.pipe();
    let code = "import threading, time\ndef late():\n    time.sleep(0.3)\n    print('late', flush=True)\nthreading.Thread(target=late).start()";
    pipe.send(json!({"id": 1, "op": "run", "code": code}));
    assert_eq!(pipe.result()["result"]["stdout"], "");
    assert_eq!(
        pipe.next(),
        json!({"id": null, "session": "default", "event": "log", "text": "late\n"})
    );
}

#[test]
fn after_a_crash_the_session_goes_on_and_says_so() {
    let place = Place::new();
    let mut pipe = place.pipe();
    pipe.send(json!({"id": 1, "op": "run", "code": "x = 1"}));
    assert_eq!(pipe.next()["result"]["status"], "success");
    pipe.send(json!({"id": 2, "op": "run", "code": "import os; x = 2; os._exit(7)"}));
    let restored = json!({"id": 2, "session": "default", "event": "restored", "checkpoint": 1});
    assert_eq!(pipe.next(), restored);
    let result = pipe.next()["result"].clone();
    assert_eq!(
        (&result["status"], &result["exit_code"]),
        (&json!("crashed"), &json!(7))
    );
    assert_eq!(result["state"]["outcome"], "restored");
    pipe.send(json!({"id": 3, "op": "run", "code": "x"}));
    assert_eq!(pipe.next()["result"]["value"]["repr"], "1");
    let undone = pipe.ask(json!({"id": 4, "op": "undo"}));
    assert_eq!(
        (&undone["id"], &undone["event"]),
        (&json!(4), &json!("answer")),
        "{undone}"
    );
}

#[test]
fn a_session_that_is_not_armed_any_more_says_so_at_once_and_cells_run_again_unless_told() {
    let deaf = "import ctypes, os, signal, threading, time\nready = threading.Event()\ndef deaf():\n    ctypes.CDLL(None).syscall(14, 0, ctypes.byref(ctypes.c_uint64(-1)), None, 8)\n    ctypes.CDLL(None).prctl(15, b'deaf', 0, 0, 0)\n    ready.set()\n    time.sleep(600)\nthreading.Thread(target=deaf, daemon=True).start()\nready.wait()";
    let place = Place::new();
    let mut pipe = place.pipe();
    let nothing = json!(null);
    for (name, replay, replayed, lost) in [
        ("a", true, json!([1]), nothing.clone()),
        ("b", false, nothing.clone(), json!([1])),
    ] {
        pipe.ask(json!({"id": 1, "op": "open", "session": name, "replay": replay}));
        pipe.send(json!({"id": 2, "op": "run", "session": name, "code": deaf}));
        assert_eq!(pipe.result()["result"]["status"], "success");
        let told = pipe.next_as_it_is();
        let checkpoint = json!({"status": "behind", "behind": 1, "reason": "a thread cannot be copied (deaf): it blocks all signals"});
        assert_eq!(
            told,
            json!({"id": null, "session": name, "event": "checkpoint", "checkpoint": checkpoint})
        );
        pipe.send(json!({"id": 3, "op": "run", "session": name, "code": "os._exit(7)"}));
        let state = pipe.result()["result"]["state"].clone();
        assert_eq!(
            (&state["outcome"], &state["replayed"], &state["lost"]),
            (&json!("restored"), &replayed, &lost),
            "{state}"
        );
    }
}

#[test]
fn a_fork_is_a_session_of_the_pipe_at_once() {
    let place = Place::new();
    let mut pipe = place.pipe();
    pipe.send(json!({"id": 1, "op": "run", "code": "x = 1; open('a', 'w').write('one')"}));
    assert_eq!(pipe.result()["result"]["status"], "success");
    let answer = pipe.ask(json!({"id": 2, "op": "fork"}));
    let name = answer["answer"]["session"].as_str().unwrap().to_owned();
    assert_eq!(
        answer,
        json!({"id": 2, "session": "default", "event": "answer", "answer": {"session": name}})
    );
    let code = "x += 1; open('a', 'w').write('two'); x, open('a').read()";
    pipe.send(json!({"id": 3, "session": name, "op": "run", "code": code}));
    let result = pipe.result();
    assert_eq!(
        (&result["session"], &result["result"]["value"]["repr"]),
        (&json!(name), &json!("(2, 'two')"))
    );
    pipe.send(json!({"id": 4, "op": "run", "code": "x, open('a').read()"}));
    assert_eq!(pipe.result()["result"]["value"]["repr"], "(1, 'one')");
    assert_eq!(
        pipe.ask(json!({"id": 5, "op": "close"}))["answer"],
        json!({})
    );
    let vars = pipe.ask(json!({"id": 6, "session": name, "op": "vars"}));
    assert_eq!(vars["answer"][0]["name"], "x");
}

#[test]
fn a_fork_that_cannot_be_made_is_an_error_with_the_reason() {
    let place = Place::new();
    let mut pipe = place.pipe();
    // A thread that cannot be stopped cannot be carried along.
    let code = r"
import ctypes, threading
deaf = threading.Event()
def wait():
    ctypes.CDLL(None).syscall(14, 0, ctypes.byref(ctypes.c_uint64(-1)), None, 8)
    deaf.set()
    threading.Event().wait()
threading.Thread(target=wait, daemon=True).start()
deaf.wait()
";
    pipe.send(json!({"id": 1, "op": "run", "code": code}));
    pipe.result();
    let error = pipe.ask(json!({"id": 2, "op": "fork"}));
    assert_eq!(
        (&error["event"], &error["code"]),
        (&json!("error"), &json!("refused"))
    );
    assert!(
        error["message"].as_str().unwrap().contains("thread"),
        "{error}"
    );
}

#[test]
fn with_the_strategy_thread_questions_are_answered_while_a_cell_runs() {
    let place = Place::new();
    let mut pipe = place.pipe();
    pipe.ask(json!({"id": 1, "op": "open", "session": "a", "strategy": "thread"}));
    let code = "x = 5\nimport time\nprint('runs', flush=True)\ntime.sleep(600)";
    pipe.send(json!({"id": 2, "op": "run", "session": "a", "code": code}));
    pipe.wait_for_output("runs\n");
    let variables = pipe.ask(json!({"id": 3, "op": "vars", "session": "a"}));
    assert_eq!(
        (&variables["id"], &variables["answer"][0]["name"]),
        (&json!(3), &json!("x"))
    );
    let value = pipe.ask(json!({"id": 4, "op": "inspect", "session": "a", "name": "x"}));
    assert_eq!(
        (&value["id"], &value["answer"]["repr"]),
        (&json!(4), &json!("5"))
    );
    pipe.send(json!({"id": 5, "op": "interrupt", "session": "a"}));
    assert_eq!(pipe.result()["result"]["status"], "interrupted");
}

#[test]
fn with_the_strategy_direct_an_undo_says_that_there_are_no_checkpoints() {
    let place = Place::new();
    let mut pipe = place.pipe();
    pipe.ask(json!({"id": 1, "op": "open", "session": "a", "strategy": "direct"}));
    for id in 2..4 {
        pipe.send(json!({"id": id, "op": "run", "session": "a", "code": "x = 1"}));
        assert_eq!(pipe.result()["result"]["status"], "success");
    }
    let refused = pipe.ask(json!({"id": 4, "op": "undo", "session": "a"}));
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.ends_with("the strategy `direct` makes none"),
        "{message}"
    );
}
