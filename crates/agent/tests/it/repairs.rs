//! Each repair, with replies as files: `tests/fixtures/*.reply`, whose first lines say where they come from and what they mean.

use crate::support::{cut_off, facts};
use cellblock_agent::repair::Repair;
use cellblock_agent::{Action, Format, Turn};
use cellblock_model::{FinishReason, Reply, ToolCall};
use serde_json::{Value, json};
use std::path::Path;

/// A reply of a file: headers, an empty line, and the reply exactly as it came.
pub struct Fixture {
    pub name: String,
    pub format: Format,
    pub cut_off: bool,
    pub expected: Value,
    pub reply: String,
}

pub fn fixtures() -> Vec<Fixture> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|path| {
            let text = std::fs::read_to_string(path).unwrap();
            let (head, reply) = text.split_once("\n\n").unwrap();
            let field = |name: &str| {
                let line = head
                    .lines()
                    .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
                line.unwrap_or_else(|| panic!("{} has no {name}", path.display()))
            };
            assert!(!field("source").is_empty());
            Fixture {
                name: path.file_stem().unwrap().to_string_lossy().into_owned(),
                format: field("format").parse().unwrap(),
                cut_off: field("finish") == "length",
                expected: serde_json::from_str(field("expected")).unwrap(),
                reply: reply.strip_suffix('\n').unwrap_or(reply).to_owned(),
            }
        })
        .collect()
}

pub fn outcome(read: Result<Turn, cellblock_agent::MalformedReply>) -> Value {
    match read {
        Err(malformed) => json!({"malformed": malformed.0}),
        Ok(turn) => {
            let actions: Vec<Value> = turn
                .actions
                .iter()
                .map(|action| match action {
                    Action::Code(code) => json!({"code": code}),
                    Action::Dependencies(names) => json!({"dependencies": names}),
                    Action::Answer(answer) => json!({"answer": answer}),
                    Action::Call(call) => json!({"call": call.name, "arguments": arguments(call)}),
                })
                .collect();
            json!({"actions": actions, "repairs": turn.repairs})
        }
    }
}

fn arguments(call: &cellblock_agent::ToolUse) -> Value {
    match &call.arguments {
        cellblock_tools::Arguments::Object(map) => Value::Object(map.clone()),
        cellblock_tools::Arguments::Text(text) => serde_json::from_str(text).unwrap_or(json!(text)),
    }
}

#[test]
fn every_reply_on_file_is_understood_as_its_header_says() {
    let fixtures = fixtures();
    assert!(fixtures.len() >= 20, "only {} fixtures", fixtures.len());
    let mut wrong = Vec::new();
    for fixture in fixtures {
        let reply = if fixture.cut_off {
            cut_off(&fixture.reply)
        } else {
            Reply::text(&fixture.reply)
        };
        let got = outcome(fixture.format.implementation().parse(&reply, &facts()));
        if got != fixture.expected {
            wrong.push(format!(
                "{}\n  expected: {}\n  got:      {got}",
                fixture.name, fixture.expected
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn call_with(arguments: &str, finish: FinishReason) -> Reply {
    Reply {
        finish,
        ..Reply::calls(vec![ToolCall {
            id: "a".to_owned(),
            name: "execute_python_code".to_owned(),
            arguments: arguments.to_owned(),
        }])
    }
}

#[test]
fn arguments_of_native_calls_are_repaired_where_the_tool_takes_them() {
    let raw = "{\"tool_call_purpose\": \"try\", \"python_code_snippet\": \"x = 1\nprint(x)\",}";
    let reply = Reply {
        finish: FinishReason::ToolCalls,
        ..call_with(raw, FinishReason::Stop)
    };
    let format = Format::Tools.implementation();
    let turn = format.parse(&reply, &facts()).unwrap();
    assert_eq!(
        outcome(Ok(turn.clone())),
        json!({"actions": [{"call": "execute_python_code", "arguments": {"tool_call_purpose": "try", "python_code_snippet": "x = 1\nprint(x)"}}],
            "repairs": ["raw_line_breaks", "trailing_comma"]})
    );
    // The history keeps what the model said.
    let said = serde_json::to_value(format.assistant_message(&reply, &turn, 1)).unwrap();
    assert_eq!(said["tool_calls"][0]["function"]["arguments"], raw);
}

#[test]
fn arguments_that_mean_nothing_are_left_to_the_tool_to_refuse() {
    let turn = Format::Tools
        .implementation()
        .parse(&call_with("print(1)", FinishReason::Stop), &facts())
        .unwrap();
    assert_eq!(turn.repairs, Vec::<Repair>::new());
    assert_eq!(outcome(Ok(turn))["actions"][0]["arguments"], "print(1)");
}

#[test]
fn a_call_that_was_cut_off_is_not_made() {
    let raw = "{\"tool_call_purpose\": \"try\", \"python_code_snippet\": \"delete('old";
    let read = Format::Tools
        .implementation()
        .parse(&call_with(raw, FinishReason::Length), &facts());
    assert!(read.unwrap_err().0.contains("cut off"));
}
