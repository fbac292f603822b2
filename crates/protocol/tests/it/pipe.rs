//! Lines of the pipe: how requests are read and refused, and how responses are written.

use cellblock_protocol::pipe::*;
use cellblock_protocol::*;
use serde_json::{Value, json};

use crate::sample::w6;
use std::time::Duration;

fn operation(line: Value) -> Result<Operation, String> {
    parse_line(line.to_string().as_bytes())
        .map(|request| request.operation)
        .map_err(|error| error.message)
}

#[test]
fn a_run_is_read() {
    let line = br#"{"id":1,"op":"run","code":"x = 2\nprint(x)\nx","timeout":5}"#;
    let request = parse_line(line).unwrap();
    assert_eq!(
        request,
        Request {
            id: Some(RequestId::from(1)),
            session: None,
            operation: Operation::Run(
                Cell::new("x = 2\nprint(x)\nx").timeout(Duration::from_secs(5))
            ),
        }
    );
    assert_eq!(request.session(), "default");
}

#[test]
fn every_operation_is_read() {
    let text = str::to_owned;
    for (line, expected) in [
        (
            json!({"op": "open", "session": "a"}),
            Operation::Open(Box::new(SessionOptions::named("a"))),
        ),
        (
            json!({"op": "run", "code": "1", "atomic": true}),
            Operation::Run(Cell::new("1").atomic(true)),
        ),
        (
            json!({"op": "compute", "code": "1", "description": "d"}),
            Operation::Compute {
                code: text("1"),
                description: text("d"),
            },
        ),
        (
            json!({"op": "seed", "variables": {"x": 1}}),
            Operation::Seed {
                variables: Seed::from_iter([(text("x"), json!(1))]),
            },
        ),
        (json!({"op": "vars"}), Operation::Vars),
        (
            json!({"op": "inspect", "name": "x"}),
            Operation::Inspect { name: text("x") },
        ),
        (
            json!({"op": "complete", "code": "é."}),
            Operation::Complete(Cursor::new("é.", 2)),
        ),
        (
            json!({"op": "inspect_at", "code": "x y", "pos": 1, "detail": 1}),
            Operation::InspectAt {
                cursor: Cursor::new("x y", 1),
                detail: Detail::Source,
            },
        ),
        (
            json!({"op": "is_complete", "code": "x"}),
            Operation::IsComplete { code: text("x") },
        ),
        (
            json!({"op": "stat", "path": "/tmp"}),
            Operation::Files(FileOperation::Stat { path: text("/tmp") }),
        ),
        (
            json!({"op": "list_dir", "path": "/", "depth": 3}),
            Operation::Files(FileOperation::ListDir {
                path: text("/"),
                depth: 3,
            }),
        ),
        (
            json!({"op": "move", "path": "/tmp/a", "to": "/tmp/b"}),
            Operation::Files(FileOperation::Move {
                path: text("/tmp/a"),
                to: text("/tmp/b"),
            }),
        ),
        (
            json!({"op": "read", "path": "/tmp/a", "offset": 5}),
            Operation::Files(FileOperation::Read {
                path: text("/tmp/a"),
                offset: 5,
                length: 8 << 20,
            }),
        ),
        (
            json!({"op": "write", "path": "/tmp/a", "base64": "AP8=", "truncate": true}),
            Operation::Files(FileOperation::Write {
                path: text("/tmp/a"),
                offset: 0,
                contents: vec![0, 255],
                truncate: true,
            }),
        ),
        (
            json!({"op": "copy_in", "path": "a", "process": 7, "descriptor": 3}),
            Operation::Files(FileOperation::CopyIn {
                path: text("a"),
                source: OpenFile {
                    process: 7,
                    descriptor: 3,
                },
            }),
        ),
        (
            json!({"op": "say", "question": "And now?"}),
            Operation::Agent(AgentOperation::Say {
                question: text("And now?"),
            }),
        ),
        (
            json!({"op": "ask", "question": "?", "keep": true, "options": {"model": "m"}}),
            Operation::Agent(AgentOperation::Ask(Box::new(AgentRequest {
                task: AgentTask::Question(text("?")),
                schema: None,
                conversation: AfterAnswer::GoesOn,
                seed: Seed::default(),
                files: Vec::new(),
                tools: Vec::new(),
                approvals: ApprovalsBy::Nobody,
                options: json!({"model": "m"}).as_object().cloned().unwrap(),
            }))),
        ),
        (
            json!({"op": "approve", "call": "c1", "decision": "reject", "text": "no"}),
            Operation::Agent(AgentOperation::Approve {
                call: text("c1"),
                decision: Approved::Reject(Some(text("no"))),
            }),
        ),
        (
            json!({"op": "cancel"}),
            Operation::Agent(AgentOperation::Cancel),
        ),
        (
            json!({"op": "events", "after": 7, "wait": 600}),
            Operation::Events {
                after: 7,
                wait: std::time::Duration::from_secs(60),
            },
        ),
        (json!({"op": "pause"}), Operation::Pause),
        (json!({"op": "resume"}), Operation::Resume),
        (
            json!({"op": "freeze", "name": "a"}),
            Operation::Freeze {
                name: Some(text("a")),
            },
        ),
        (
            json!({"op": "open", "from": "a"}),
            Operation::OpenFrom {
                snapshot: text("a"),
            },
        ),
        (
            json!({"op": "run", "code": "x", "env": {"A": "1"}, "silent": true, "count": 9}),
            Operation::Run(Cell::new("x").env("A", "1").silent(true).count(9)),
        ),
        (json!({"op": "undo"}), Operation::Undo { n: 1 }),
        (json!({"op": "undo", "n": 3}), Operation::Undo { n: 3 }),
        (json!({"op": "fork"}), Operation::Fork),
        (json!({"op": "checkpoints"}), Operation::Checkpoints),
        (json!({"op": "reset"}), Operation::Reset),
        (json!({"op": "interrupt"}), Operation::Interrupt),
        (
            json!({"op": "put_file", "path": "a/b", "base64": "AAE="}),
            Operation::PutFile {
                path: text("a/b"),
                contents: vec![0, 1],
            },
        ),
        (
            json!({"op": "get_file", "path": "a"}),
            Operation::GetFile {
                path: text("a"),
                offset: 0,
                length: None,
            },
        ),
        (
            json!({"op": "get_file", "path": "a", "offset": 3, "length": 4}),
            Operation::GetFile {
                path: text("a"),
                offset: 3,
                length: Some(4),
            },
        ),
        (json!({"op": "list_files"}), Operation::ListFiles),
        (
            json!({"op": "read_output", "cell": 3, "stream": "stderr", "offset": 10, "length": 5}),
            Operation::ReadOutput {
                cell: 3,
                stream: Stream::Stderr,
                offset: 10,
                length: Some(5),
            },
        ),
        (
            json!({"op": "read_output", "cell": 3}),
            Operation::ReadOutput {
                cell: 3,
                stream: Stream::Output,
                offset: 0,
                length: None,
            },
        ),
        (
            json!({"op": "tools", "tools": []}),
            Operation::Tools { tools: vec![] },
        ),
        (json!({"op": "close"}), Operation::Close),
        (
            json!({"op": "tool_result", "call": "c1", "result": null}),
            Operation::ToolResult {
                call: text("c1"),
                outcome: Ok(Value::Null),
            },
        ),
        (
            json!({"op": "tool_result", "call": "c1", "error": "no"}),
            Operation::ToolResult {
                call: text("c1"),
                outcome: Err(text("no")),
            },
        ),
        (
            json!({"op": "input", "call": "c1", "text": "Ada"}),
            Operation::Input {
                call: text("c1"),
                outcome: Ok(text("Ada")),
            },
        ),
    ] {
        assert_eq!(operation(line.clone()), Ok(expected), "{line}");
    }
}

#[test]
fn a_wrong_field_is_named_and_the_id_comes_back() {
    let error = parse_line(br#"{"code":3,"id":"a","session":"s","op":"run"}"#).unwrap_err();
    assert_eq!(
        error,
        PipeError {
            id: Some(RequestId::Text("a".to_owned())),
            session: Some("s".to_owned()),
            code: "invalid",
            message: "run: `code`: expected a text, got 3".to_owned(),
        }
    );
}

#[test]
fn what_is_wrong_is_said() {
    for (line, message) in [
        (
            json!({"op": "run"}),
            "run: missing field `code`: expected a text",
        ),
        (
            json!({"op": "run", "code": "1", "timeout": -3}),
            "run: `timeout`: expected a positive number of seconds, at most 604800 (7 days), got -3",
        ),
        (
            json!({"op": "run", "code": "1", "timeout": []}),
            "run: `timeout`: expected a positive number of seconds, or a text such as \"30s\" or \"5min\", got a list",
        ),
        (
            json!({"op": "vars", "x": 1}),
            "vars: unknown field `x`; the fields are none",
        ),
        (
            json!({"op": "undo", "n": 0}),
            "undo: `n`: expected a whole number, 1 or more, got 0",
        ),
        (
            json!({"op": "put_file", "path": "a", "base64": "%"}),
            "put_file: `base64`: expected base64, got Invalid symbol 37, offset 0.",
        ),
        (
            json!({"op": "get_file", "path": ""}),
            "get_file: `path`: expected a path inside the workspace, got \"\"",
        ),
        (
            json!({"op": "read_output", "cell": 1, "stream": "log"}),
            "read_output: `stream`: expected stdout, stderr or output, got \"log\"",
        ),
        (
            json!({"op": "tool_result", "call": "c"}),
            "tool_result: missing field `result`: expected `result` or `error`",
        ),
        (
            json!({"op": "open", "limits": {"memory": "lots"}}),
            "open: `limits.memory`: expected a positive number of bytes, or a text such as \"512MB\" or \"2GiB\", got \"lots\"",
        ),
        (
            json!({"op": "tools", "tools": [{"name": ""}]}),
            "tools: `tools[0].name`: expected 1 to 64 letters, digits, `_`, `-` or `.`, got \"\"",
        ),
        (
            json!({"op": "seed", "variables": {"a b": 1}}),
            "seed: `variables`: expected names that are Python identifiers, got \"a b\"",
        ),
        (
            json!({"op": "vars", "session": "../x"}),
            "`session`: expected 1 to 64 of the characters A-Z a-z 0-9 . _ -, not starting with a dot, got \"../x\"",
        ),
        (
            json!({"op": "vars", "session": 5}),
            "`session`: expected a text, got 5",
        ),
        (
            json!({"op": "vars", "id": [1]}),
            "`id`: expected a number or a text of at most 256 bytes, got a list",
        ),
    ] {
        assert_eq!(operation(line.clone()), Err(message.to_owned()), "{line}");
    }
}

#[test]
fn an_unknown_operation_is_answered_with_those_there_are() {
    let error = parse_line(br#"{"id":1,"op":"exec"}"#).unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str()),
        (
            "unknown_op",
            "there is no operation `exec`; there are open, run, compute, seed, vars, inspect, complete, inspect_at, is_complete, undo, fork, checkpoints, reset, interrupt, put_file, get_file, list_files, read_output, spawn, proc_input, proc_close, proc_signal, proc_resize, procs, proc_attach, stat, list_dir, make_dir, move, remove, read, write, copy_in, copy_out, watch, unwatch, ask, template, say, cancel, approve, events, comm, pause, resume, freeze, discard, tools, close, tool_result, input"
        )
    );
    let error = parse_line(br#"{"id":1}"#).unwrap_err();
    assert_eq!(error.code, "unknown_op");
    assert!(error.message.ends_with("; got none"), "{}", error.message);
}

#[test]
fn a_broken_line_is_still_answered_to_its_id() {
    let error = |line: &[u8]| {
        let error = parse_line(line).unwrap_err();
        (error.id, error.code)
    };
    assert_eq!(
        error(br#"{"id":7,"op":"run","code":"#),
        (Some(RequestId::from(7)), "malformed")
    );
    assert_eq!(
        error(b" { \"id\" : \"x\" , \xff"),
        (Some(RequestId::Text("x".to_owned())), "malformed")
    );
    assert_eq!(error(b"\xff"), (None, "malformed"));
    assert_eq!(error(b""), (None, "malformed"));
    assert_eq!(error(b"[1]"), (None, "malformed"));

    let mut long = br#"{"id":9,"op":"run","code":""#.to_vec();
    long.resize(MAX_LINE_BYTES + 1, b'x');
    assert_eq!(error(&long), (Some(RequestId::from(9)), "too_long"));
    let lists = "[],".repeat(1_000_000);
    let swelling = format!(r#"{{"id":8,"op":"run","code":[{lists}[]]}}"#);
    let refused = (Some(RequestId::from(8)), "too_long");
    assert_eq!(error(swelling.as_bytes()), refused);
}

#[test]
fn responses_are_lines() {
    let id = || Some(RequestId::from(1));
    assert_eq!(
        Response::event(
            id(),
            "default",
            Event::Stdout {
                text: "2\n".to_owned()
            }
        )
        .to_line(),
        "{\"id\":1,\"session\":\"default\",\"event\":\"stdout\",\"text\":\"2\\n\"}\n"
    );
    assert_eq!(
        Response::answer(id(), "default", json!({})).to_line(),
        "{\"id\":1,\"session\":\"default\",\"event\":\"answer\",\"answer\":{}}\n"
    );
    assert_eq!(
        Response::from(parse_line(b"?").unwrap_err()).to_line(),
        "{\"id\":null,\"session\":null,\"event\":\"error\",\"code\":\"malformed\",\"message\":\"the line is not JSON: expected value at line 1 column 1\"}\n"
    );
    let result = Response::event(
        id(),
        "default",
        Event::Result {
            result: Box::new(w6()),
        },
    )
    .to_line();
    let expected = serde_json::to_string(&w6()).unwrap();
    assert_eq!(
        result,
        format!(
            "{{\"id\":1,\"session\":\"default\",\"event\":\"result\",\"result\":{expected}}}\n"
        )
    );
}
