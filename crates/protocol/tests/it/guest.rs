//! Frames between the host and the head: how they are written, read and bounded.

use cellblock_protocol::guest::*;
use cellblock_protocol::*;
use serde_json::{Value, json};
use std::time::Duration;

fn parse(frame: Value) -> Result<FromHead, HeadError> {
    FromHead::parse(frame.to_string().as_bytes())
}

fn reply(frame: Value) -> Reply {
    match parse(frame) {
        Ok(FromHead::Reply(reply)) => reply,
        other => panic!("{other:?}"),
    }
}

fn sent(frame: &ToHead) -> Value {
    let frame = frame.to_frame().unwrap();
    serde_json::from_slice(&frame[4..]).unwrap()
}

#[test]
fn operations_are_written_as_the_guest_reads_them() {
    let call = || "c1".to_owned();
    for (frame, json) in [
        (
            ToHead::Run {
                cell: 1,
                code: "1+1".to_owned(),
                script: None,
                env: Default::default(),
                silent: false,
                keep_value: false,
                count: None,
                watched: false,
            },
            json!({"op": "run", "cell": 1, "code": "1+1"}),
        ),
        (
            ToHead::InspectAt {
                seq: 2,
                code: "x".to_owned(),
                pos: 1,
                detail: Detail::Source,
            },
            json!({"op": "inspect_at", "seq": 2, "code": "x", "pos": 1, "detail": 1}),
        ),
        (
            ToHead::Seed {
                seq: 2,
                variables: Seed::from_iter([("x".to_owned(), bytes_seed(b"a"))]),
                imports: vec![],
                environment: vec![],
                random: None,
            },
            json!({"op": "seed", "seq": 2, "variables": {"x": {"$bytes": "YQ=="}}}),
        ),
        (
            ToHead::Paths {
                paths: vec!["/layers/a".to_owned()],
            },
            json!({"op": "paths", "paths": ["/layers/a"]}),
        ),
        (ToHead::Vars { seq: 3 }, json!({"op": "vars", "seq": 3})),
        (
            ToHead::Compute {
                seq: 4,
                code: "1".to_owned(),
                description: "d".to_owned(),
                seconds: 2.0,
                memory: 256,
            },
            json!({"op": "compute", "seq": 4, "code": "1", "description": "d", "seconds": 2.0, "memory": 256}),
        ),
        (
            ToHead::ToolResult {
                call: call(),
                outcome: Ok(json!([1])),
            },
            json!({"op": "tool_result", "call": "c1", "result": [1]}),
        ),
        (
            ToHead::ToolResult {
                call: call(),
                outcome: Err("no".to_owned()),
            },
            json!({"op": "tool_result", "call": "c1", "error": "no"}),
        ),
        (
            ToHead::Input {
                call: call(),
                outcome: Ok("Ada".to_owned()),
            },
            json!({"op": "input", "call": "c1", "text": "Ada"}),
        ),
    ] {
        assert_eq!(sent(&frame), json);
    }
}

#[test]
fn frames_of_the_head_are_read() {
    assert_eq!(
        parse(json!({"t": "ready"})),
        Ok(FromHead::Ready {
            standby: None,
            not_copied: Vec::new()
        })
    );
    assert_eq!(
        parse(json!({"t": "ready", "standby": 9, "not_copied": ["a".repeat(5000)]})),
        Ok(FromHead::Ready {
            standby: Some(9),
            not_copied: vec![format!("{}…", "a".repeat(4093))]
        })
    );
    assert_eq!(
        parse(json!({"t": "display", "mime": {"text/plain": "x"}})),
        Ok(FromHead::Display(
            MimeBundle::new().with("text/plain", "x").into()
        ))
    );
    assert_eq!(
        parse(json!({"t": "tool_call", "call": "c1", "name": "lookup", "arguments": {}})),
        Ok(FromHead::ToolCall {
            call: "c1".to_owned(),
            name: "lookup".to_owned(),
            arguments: ToolArguments::default()
        })
    );
    assert_eq!(
        parse(json!({"t": "input_request", "call": "c2", "prompt": "? "})),
        Ok(FromHead::InputRequest {
            call: "c2".to_owned(),
            prompt: "? ".to_owned(),
            password: false,
        })
    );
}

#[test]
fn the_end_of_a_cell_is_read() {
    let done = Done {
        cell: 3,
        ok: true,
        pure: false,
        repeatable: false,
        value: Some(CellValue {
            repr: "2".to_owned(),
            mime: MimeBundle::new().with("text/plain", "2"),
        }),
        error: None,
        variables: VariableChanges {
            added: vec![VariableChange {
                name: "x".to_owned(),
                type_: "int".to_owned(),
                summary: "2".to_owned(),
            }],
            ..VariableChanges::default()
        },
        cpu: Duration::from_micros(1500),
        peak_bytes: 10,
    };
    let frame = json!({
        "t": "done", "cell": 3, "ok": true, "value": {"repr": "2"},
        "variables": {"added": [{"name": "x", "type": "int", "summary": "2"}], "changed": [], "removed": []},
        "cpu_ms": 1.5, "peak_bytes": 10,
    });
    assert_eq!(parse(frame), Ok(FromHead::Done(Box::new(done))));
}

#[test]
fn an_answer_is_taken_by_the_one_who_asked() {
    let vars = json!({"t": "answer", "seq": 7, "vars": [{"name": "x", "type": "int", "summary": "2", "bytes": 28}]});
    let reply_to_vars = reply(vars);
    assert_eq!(reply_to_vars.seq, 7);
    assert_eq!(
        reply_to_vars.variables(),
        Ok(vec![Variable {
            name: "x".to_owned(),
            type_: "int".to_owned(),
            summary: "2".to_owned(),
            bytes: 28
        }])
    );

    let inspection = Inspection {
        type_: "int".to_owned(),
        repr: "2".to_owned(),
        mime: [("text/plain".to_owned(), json!("2"))]
            .into_iter()
            .collect(),
        ..Inspection::default()
    };
    let frame = json!({"t": "answer", "seq": 1, "type": "int", "repr": "2", "doc": "", "mime": {}});
    assert_eq!(reply(frame).inspection(), Ok(inspection));

    assert_eq!(reply(json!({"t": "answer", "seq": 1})).done(), Ok(()));
    assert_eq!(
        reply(json!({"t": "answer", "seq": 1, "error": "no such name"})).inspection(),
        Err(HeadError::Refused("no such name".to_owned()))
    );
}

#[test]
fn compute_answers_with_a_result_or_an_error_and_never_both() {
    let computed = |result: Value, error: Value| {
        reply(json!({"t": "answer", "seq": 1, "result": result, "error": error})).computed()
    };
    assert_eq!(computed(json!("2"), json!(null)), Ok(Computed::result("2")));
    assert_eq!(
        computed(json!(null), json!("E: x")),
        Ok(Computed::error("E: x"))
    );
    assert!(computed(json!("2"), json!("E")).is_err());
    assert!(computed(json!(null), json!(null)).is_err());
}

#[test]
fn a_long_text_of_the_guest_is_cut_between_characters() {
    let error = json!({
        "type": "é".repeat(5000), "value": "v", "repr": "r", "traceback": format!("a{}\nE: end", "é".repeat(1 << 20)),
        "frames": [{"file": "f", "line": 1, "function": "g", "source": "s", "locals": {"k": "x".repeat(100_000)}}],
    });
    let frame = json!({"t": "done", "cell": 1, "ok": false, "error": error, "cpu_ms": -1.0});
    let Ok(FromHead::Done(done)) = parse(frame) else {
        panic!("refused")
    };
    let error = done.error.unwrap();
    assert!(error.type_.len() <= 512 && error.type_.ends_with('…'));
    assert!(error.traceback.len() <= 256 << 10 && error.traceback.ends_with("\nE: end"));
    assert!(error.frames[0].locals.0[0].1.len() <= 4 << 10);
    assert_eq!(done.cpu, Duration::ZERO);
}

#[test]
fn twenty_thousand_variables_are_no_attack_but_half_of_them_are_enough() {
    let variable = json!({"name": "x", "type": "int", "summary": "2", "bytes": 28});
    let frame = json!({"t": "answer", "seq": 1, "vars": vec![variable; 20_000]});
    assert_eq!(reply(frame).variables().unwrap().len(), 10_000);
}

#[test]
fn answers_about_source_text_are_bounded_and_lie_inside_it() {
    let matched = |text: &str, start: u64, end: u64| json!({"text": text, "start": start, "end": end, "type": "x".repeat(600)});
    let mut matches = vec![
        matched("beyond", 0, 5),
        matched("backwards", 3, 2),
        matched(&"é".repeat(5000), 1, 4),
    ];
    matches.extend(vec![matched("x", 0, 0); 2000]);
    let frame = json!({"t": "answer", "seq": 1, "matches": matches});
    let completions = reply(frame).completions(4).unwrap().matches;
    assert_eq!(completions.len(), 1000);
    assert!(completions[0].text.len() <= 4 << 10 && completions[0].text.ends_with('…'));
    assert!(completions[0].type_.len() <= 512);
    assert!(reply(json!({"t": "answer", "seq": 1, "matches": [{"text": "x", "start": -1, "end": 0, "type": ""}]})).completions(4).is_err());

    let help = |found| {
        reply(json!({"t": "answer", "seq": 1, "found": found, "mime": {"text/plain": "x"}}))
            .cursor_help()
    };
    assert_eq!(help(true).unwrap().mime.text("text/plain"), Some("x"));
    assert_eq!(help(false).unwrap().mime.text("text/plain"), None);

    let judged = |status: &str, indent: String| {
        reply(json!({"t": "answer", "seq": 1, "status": status, "indent": indent}))
            .completeness()
            .unwrap()
    };
    let strange = judged("what", " \u{1b}[2J\n\t".repeat(1000));
    assert_eq!(strange.status, CompletenessStatus::Unknown);
    assert_eq!(strange.indent, " \t".repeat(256));
    assert_eq!(judged("incomplete", "    ".into()).indent, "    ");
}

#[test]
fn displays_and_messages_of_widgets_are_read_and_bounded() {
    let display = json!({"t": "display", "mime": {}, "display_id": "a", "update": true, "metadata": {"w": 1}});
    let Ok(FromHead::Display(display)) = parse(display) else {
        panic!("refused")
    };
    assert_eq!(
        (display.display_id.as_deref(), display.update),
        (Some("a"), true)
    );
    assert_eq!(display.metadata.unwrap().as_json(), r#"{"w":1}"#);
    assert_eq!(
        parse(json!({"t": "clear_output"})),
        Ok(FromHead::ClearOutput { wait: false })
    );
    let message = json!({"t": "comm", "kind": "open", "comm": "c", "target": "t", "buffers": vec!["AA=="; 5000]});
    let Ok(FromHead::Comm(message)) = parse(message) else {
        panic!("refused")
    };
    assert_eq!(
        (message.kind, message.buffers.len()),
        (CommKind::Open, 1000)
    );
    for hostile in [
        json!({"t": "display", "mime": {}, "display_id": "a\nb"}),
        json!({"t": "display", "mime": {}, "metadata": [1]}),
        json!({"t": "comm", "kind": "open", "comm": ""}),
        json!({"t": "comm", "kind": "open", "comm": "c", "target": "x".repeat(600)}),
        json!({"t": "comm", "kind": "other", "comm": "c"}),
        json!({"t": "comm", "kind": "msg", "comm": "c", "data": "text"}),
    ] {
        assert!(parse(hostile.clone()).is_err(), "{hostile}");
    }
}

#[test]
fn a_frame_that_would_swell_in_memory_is_refused() {
    let frame = format!(
        r#"{{"t":"tool_call","call":"c","name":"n","arguments":{{"a":[{}[]]}}}}"#,
        "[],".repeat(250_000)
    );
    assert_eq!(
        FromHead::parse(frame.as_bytes()),
        Err(HeadError::TooMuchMemory { max: 64 << 20 })
    );
    let text = json!({"t": "display", "mime": {"text/plain": "[,\"\\".repeat(250_000)}});
    assert!(parse(text).is_ok(), "what stands inside a text is no value");
}

#[test]
fn the_largest_frame_may_be_one_long_text() {
    let text = "x".repeat((32 << 20) - 100);
    let shown = parse(json!({"t": "display", "mime": {"text/plain": text}}));
    let Ok(FromHead::Display(Display { mime, .. })) = shown else {
        panic!("it was refused")
    };
    assert_eq!(
        mime.text("text/plain").map(str::len),
        Some((32 << 20) - 100)
    );
}

#[test]
fn a_structure_is_kept_as_compact_text_in_one_line_and_parsed_when_asked_for() {
    let body = br#"{"t": "display", "mime": {"application/json":
        {"a" : [ 1,
                 2.5, "\u00e9\n" ] } }}"#;
    let Ok(FromHead::Display(Display { mime, .. })) = FromHead::parse(body) else {
        panic!("it was refused")
    };
    let value = json!({"a": [1, 2.5, "é\n"]});
    assert_eq!(mime.get("application/json"), Some(value.clone()));
    let (_, content) = mime.iter().next().unwrap();
    assert_eq!(content.bytes(), value.to_string().len());
    let line = pipe::Response::event(None, "s", Event::Display(mime.into())).to_line();
    assert_eq!(line.matches('\n').count(), 1, "{line}");

    let body = b"{\"t\": \"tool_call\", \"call\": \"c\", \"name\": \"n\", \"arguments\": {\"b\" :\n 2, \"a\": 1}}";
    let Ok(FromHead::ToolCall { arguments, .. }) = FromHead::parse(body) else {
        panic!("it was refused")
    };
    assert_eq!(arguments.as_json(), r#"{"b":2,"a":1}"#);
    let other_order = json!({"a": 1, "b": 2}).as_object().cloned().unwrap();
    assert_eq!(arguments, other_order.into());
}

#[test]
fn a_frame_that_no_honest_guest_sends_is_refused() {
    let bad_id = |field| Err(HeadError::BadId { field });
    assert_eq!(
        parse(json!({"t": "tool_call", "call": "", "name": "n", "arguments": {}})),
        bad_id("call")
    );
    assert_eq!(
        parse(json!({"t": "tool_call", "call": "c\n", "name": "n", "arguments": {}})),
        bad_id("call")
    );
    assert_eq!(
        parse(json!({"t": "tool_call", "call": "c", "name": "n".repeat(600), "arguments": {}})),
        bad_id("name")
    );
    for wrong in [
        json!({"t": "exit", "status": "success"}),
        json!({"t": "done", "cell": -1, "ok": true}),
        json!({"t": "answer"}),
        json!([]),
        json!(null),
        json!({"t": "tool_call", "call": "c", "name": "n", "arguments": [1]}),
    ] {
        assert!(
            matches!(parse(wrong.clone()), Err(HeadError::Malformed(_))),
            "{wrong}"
        );
    }
    assert!(
        FromHead::parse("[".repeat(100_000).as_bytes()).is_err(),
        "too deep"
    );
    assert!(FromHead::parse(b"\xff{}").is_err());
}
