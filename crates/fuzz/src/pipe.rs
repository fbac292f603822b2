//! Lines of the pipe: a program may write whatever it likes to `cellblock pipe`.

use crate::Outcome;
use crate::choices::Choices;
use crate::json::{any, bytes, object, text};
use cellblock_protocol::pipe::{Operation, Response, parse_line};
use serde_json::{Value, json};

/// Parses a line. A line that is no request gets an answer that is one line, with an id that the caller can use.
pub fn pipe(bytes: &[u8]) -> Outcome {
    let mut choices = Choices::new(bytes);
    let line = line(&mut choices);
    match parse_line(&line) {
        Ok(request) => {
            assert!(!request.session().is_empty());
            if let Operation::PutFile { path, .. } | Operation::GetFile { path, .. } =
                &request.operation
            {
                assert!(!path.is_empty(), "a file without a name");
            }
            Outcome::Accepted
        }
        Err(error) => {
            assert!(!error.message.is_empty() && error.message.len() < 2000);
            let answer = Response::from(error).to_line();
            assert!(answer.ends_with('\n') && answer.matches('\n').count() == 1);
            let answer: Value = match serde_json::from_str(&answer) {
                Ok(answer) => answer,
                Err(problem) => panic!("the answer is not JSON: {problem}: {answer:?}"),
            };
            assert_eq!(answer["event"], "error");
            Outcome::Refused
        }
    }
}

fn line(choices: &mut Choices<'_>) -> Vec<u8> {
    if choices.one_in(12) {
        let length = choices.below(60);
        return (0..length).map(|_| choices.byte()).collect();
    }
    let operation = choices.pick(Operation::NAMES);
    let mut fields = vec![
        ("op", json!(operation)),
        ("id", json!(1)),
        ("session", json!("s1")),
    ];
    let number = json!(choices.number());
    match operation {
        "open" => fields.extend(options(choices)),
        "run" => fields.extend([
            ("code", json!("1 + 1")),
            ("timeout", number),
            ("atomic", json!(true)),
        ]),
        "compute" => fields.extend([("code", json!("1")), ("description", json!("d"))]),
        "seed" => fields.push(("variables", json!({"a": any(choices, 3)}))),
        "inspect" => fields.push(("name", json!("a"))),
        "undo" => fields.push(("n", number)),
        "put_file" => fields.extend([("path", path(choices)), ("base64", base64(choices))]),
        "get_file" => fields.push(("path", path(choices))),
        "read_output" => fields.extend([
            ("cell", number.clone()),
            (
                "stream",
                json!(choices.pick(&["stdout", "stderr", "output"])),
            ),
            ("offset", number),
            ("length", json!(choices.number())),
        ]),
        "tools" => fields.push((
            "tools",
            json!([{"name": text(choices), "description": "d", "parameters": any(choices, 3)}]),
        )),
        "tool_result" => fields.extend([("call", json!("c1")), ("result", any(choices, 3))]),
        "input" => fields.extend([("call", json!("c1")), ("text", json!(text(choices)))]),
        _ => {}
    }
    let request = Value::Object(object(choices, fields));
    let mut line = bytes(&request, choices);
    if choices.one_in(4) {
        line.extend_from_slice(b"\r\n");
    }
    line
}

fn options(choices: &mut Choices<'_>) -> Vec<(&'static str, Value)> {
    let limits = [
        ("memory", json!("512MB")),
        ("wall", json!(choices.number())),
        ("processes", json!(choices.number())),
        ("disk", json!(text(choices))),
    ];
    let limits = object(choices, limits);
    let all = [
        ("limits", Value::Object(limits)),
        (
            "isolation",
            json!(choices.pick(&["best", "full", "landlock", "none", ""])),
        ),
        (
            "network",
            json!([choices.pick(&[
                "example.org",
                "GET a.example:80",
                "tcp://b:1",
                "[::1]",
                "*.",
                "a b c"
            ])]),
        ),
        (
            "credentials",
            json!([choices.pick(&["a.example X-Key: env:KEY", "a.example Host: env:KEY", "x"])]),
        ),
        ("workspace", path(choices)),
        ("imports", json!([text(choices)])),
        ("strategy", json!(text(choices))),
    ];
    all.into_iter().filter(|_| choices.one_in(3)).collect()
}

fn path(choices: &mut Choices<'_>) -> Value {
    json!(choices.pick(&[
        "a.txt",
        "d/e.txt",
        "../x",
        "/etc/passwd",
        "",
        ".",
        "a\0b",
        "a/../b"
    ]))
}

fn base64(choices: &mut Choices<'_>) -> Value {
    json!(choices.pick(&["aGk=", "aGk", "====", "", "\u{0}", "aGk=aGk="]))
}
