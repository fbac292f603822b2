//! Frames from the guest: code in a session can write to the socket whatever it likes.

use crate::Outcome;
use crate::choices::{Choices, spoil};
use crate::json::{any, bytes, object, text};
use cellblock_protocol::codec::{FrameDecoder, MAX_FRAME_FROM_HEAD, encode};
use cellblock_protocol::guest::FromHead;
use cellblock_protocol::{Event, pipe::Response};
use serde_json::{Value, json};

/// Feeds a stream of frames to the host's side, in pieces. What is a frame is read and answered for; nothing else happens.
pub fn frames(bytes: &[u8]) -> Outcome {
    let mut choices = Choices::new(bytes);
    let mut stream = Vec::new();
    for _ in 0..=choices.below(3) {
        let body = body(&mut choices);
        match encode(&body, MAX_FRAME_FROM_HEAD) {
            Ok(frame) => stream.extend_from_slice(&frame),
            Err(_) => stream.extend_from_slice(&[0; 4]),
        }
    }
    if choices.one_in(8) {
        spoil(&mut stream, &mut choices);
    }
    let mut outcome = Outcome::Refused;
    let mut decoder = FrameDecoder::new(MAX_FRAME_FROM_HEAD);
    let piece = 1 + choices.below(500);
    for piece in stream.chunks(piece) {
        decoder.feed(piece);
        while let Ok(Some(body)) = decoder.next_frame() {
            if read(&body) == Outcome::Accepted {
                outcome = Outcome::Accepted;
            }
        }
        assert!(
            decoder.pending() <= stream.len(),
            "more waits than ever came"
        );
    }
    outcome
}

/// Reads a frame in every way in which the host does.
fn read(body: &[u8]) -> Outcome {
    let Ok(frame) = FromHead::parse(body) else {
        return Outcome::Refused;
    };
    match frame {
        FromHead::Reply(reply) => {
            let _ = (
                reply.clone().done(),
                reply.clone().variables(),
                reply.clone().inspection(),
                reply.clone().armed(),
                reply.clone().forked(),
                reply.computed(),
            );
        }
        FromHead::Display(display) => {
            let line = Response::event(None, "s1", Event::Display(display)).to_line();
            assert!(line.ends_with('\n') && line.matches('\n').count() == 1);
        }
        FromHead::ToolCall {
            call,
            name,
            arguments,
        } => {
            assert!(!arguments.as_json().contains('\n'));
            assert_eq!(arguments, arguments.to_map().into());
            for id in [call, name] {
                assert!(
                    !id.is_empty() && !id.chars().any(char::is_control),
                    "{id:?}"
                );
            }
        }
        _ => {}
    }
    Outcome::Accepted
}

fn body(choices: &mut Choices<'_>) -> Vec<u8> {
    if choices.one_in(12) {
        let length = choices.below(60);
        return (0..length).map(|_| choices.byte()).collect();
    }
    let number = json!(choices.number());
    let word = text(choices);
    let value = |choices: &mut Choices<'_>| {
        let fields = [
            ("repr", json!(text(choices))),
            ("type", json!("int")),
            ("mime", mime(choices)),
        ];
        Value::Object(object(choices, fields))
    };
    let fields: Vec<(&str, Value)> = match choices.below(8) {
        0 => vec![("t", json!("ready")), ("standby", number)],
        1 => vec![("t", json!("display")), ("mime", mime(choices))],
        2 => vec![
            ("t", json!("tool_call")),
            ("call", json!("c1")),
            ("name", json!(word)),
            ("arguments", any(choices, 3)),
        ],
        3 => vec![
            ("t", json!("input_request")),
            ("call", json!(word)),
            ("prompt", json!(text(choices))),
        ],
        4 => vec![
            ("t", json!("output_request")),
            ("call", json!("c1")),
            ("cell", number.clone()),
            (
                "stream",
                json!(choices.pick(&["stdout", "stderr", "output"])),
            ),
            ("offset", number),
            ("length", json!(choices.number())),
        ],
        5 => vec![("t", json!("log")), ("text", json!(word))],
        6 => {
            let mut fields = vec![("t", json!("answer")), ("seq", number)];
            match choices.below(5) {
                0 => fields.push(("error", json!(word))),
                1 => fields.push(("vars", variables(choices))),
                2 => fields.extend([
                    ("type", json!("int")),
                    ("repr", json!(word)),
                    ("doc", json!(text(choices))),
                    ("mime", mime(choices)),
                ]),
                3 => fields.push(("result", json!(word))),
                _ => fields.extend([
                    ("pid", json!(choices.number())),
                    ("unavailable", any(choices, 1)),
                ]),
            }
            fields
        }
        _ => vec![
            ("t", json!("done")),
            ("cell", number),
            ("ok", json!(choices.one_in(2))),
            ("value", value(choices)),
            ("error", error(choices)),
            (
                "variables",
                json!({"added": variables(choices), "changed": [], "removed": variables(choices)}),
            ),
            ("cpu_ms", json!(f64::from_bits(choices.number()))),
            ("peak_bytes", json!(choices.number())),
        ],
    };
    let frame = Value::Object(object(choices, fields));
    bytes(&frame, choices)
}

fn mime(choices: &mut Choices<'_>) -> Value {
    let form = |choices: &mut Choices<'_>| {
        let name = choices
            .pick(&[
                "text/plain",
                "text/html",
                "image/png",
                "application/json",
                "",
            ])
            .to_owned();
        (name, any(choices, 2))
    };
    let forms: serde_json::Map<String, Value> =
        (0..choices.below(40)).map(|_| form(choices)).collect();
    forms.into()
}

fn variables(choices: &mut Choices<'_>) -> Value {
    let one = |choices: &mut Choices<'_>| {
        let fields = [
            ("name", json!(text(choices))),
            ("type", json!("int")),
            ("summary", json!(text(choices))),
            ("bytes", json!(choices.number())),
        ];
        Value::Object(object(choices, fields))
    };
    (0..choices.below(4)).map(|_| one(choices)).collect()
}

fn error(choices: &mut Choices<'_>) -> Value {
    let frame = |choices: &mut Choices<'_>| {
        let fields = [
            ("file", json!("<cell 1>")),
            ("line", json!(choices.number())),
            ("function", json!(text(choices))),
            ("source", json!(text(choices))),
            ("locals", any(choices, 2)),
        ];
        Value::Object(object(choices, fields))
    };
    let frames: Vec<Value> = (0..choices.below(3)).map(|_| frame(choices)).collect();
    let fields = [
        ("type", json!("ValueError")),
        ("value", json!(text(choices))),
        ("repr", json!(text(choices))),
        ("traceback", json!(text(choices))),
        ("frames", json!(frames)),
        ("hint", json!(text(choices))),
        ("obstacle", json!("no_network")),
        ("package", json!(text(choices))),
    ];
    Value::Object(object(choices, fields))
}
