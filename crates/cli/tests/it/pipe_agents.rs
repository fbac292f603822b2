//! `cellblock pipe`: agents whose conversations go on, are taken back and forked.

use crate::fake_model::{FakeModel, Said};
use crate::support::{Pipe, Place};
use serde_json::{Value, json};

/// A question of a new agent whose conversation goes on.
fn keep(id: u64, name: &str, model: &FakeModel) -> Value {
    json!({
        "id": id, "op": "ask", "session": name, "question": "Begin.", "keep": true,
        "options": {"model": "fake", "base_url": model.url, "format": "markdown"},
    })
}

fn code(text: &str) -> String {
    format!("```python\n{text}\n```")
}

fn with(mut request: Value, name: &str, value: Value) -> Value {
    request[name] = value;
    request
}

/// The next line with one of these events.
fn until(pipe: &mut Pipe, events: &[&str]) -> Value {
    loop {
        let line = pipe.next_as_it_is();
        if events.iter().any(|event| line["event"] == *event) {
            return line;
        }
    }
}

/// Whether a line is the last one of its request. The answer of a model is an event of its run.
fn is_last(line: &Value) -> bool {
    let is_answer = line["event"] == "answer" && line["answer"].is_object();
    is_answer || line["event"] == "outcome" || line["event"] == "error"
}

/// The last line of the next request that is done.
fn next_done(pipe: &mut Pipe) -> Value {
    loop {
        let line = until(pipe, &["outcome", "answer", "error"]);
        if is_last(&line) {
            return line;
        }
    }
}

/// Sends a request. Its outcome, answer or error.
fn done(pipe: &mut Pipe, request: Value) -> Value {
    pipe.send(request);
    next_done(pipe)
}

fn last_words(model: &FakeModel) -> String {
    let asked = model.asked();
    let messages = asked.last().unwrap()["messages"].as_array().unwrap();
    messages.last().unwrap()["content"].to_string()
}

#[test]
fn a_conversation_is_taken_back_and_forked_in_the_order_of_the_lines() {
    let place = Place::new();
    let texts = [code("x = 1"), "one".to_owned(), code("x = 2")];
    let more = ["two".to_owned(), code("print('x is', x)"), "end".to_owned()];
    let model = FakeModel::saying(texts.into_iter().chain(more));
    let mut pipe = place.pipe();
    pipe.send(keep(1, "a", &model));
    pipe.send(json!({"id": 2, "op": "say", "session": "a", "question": "More."}));
    pipe.send(json!({"id": 3, "op": "fork", "session": "a"}));
    pipe.send(json!({"id": 4, "op": "undo", "session": "a"}));
    pipe.send(json!({"id": 5, "op": "say", "session": "a", "question": "Where are we?"}));
    let ends: Vec<Value> = (0..5).map(|_| next_done(&mut pipe)).collect();
    let ids: Vec<&Value> = ends.iter().map(|line| &line["id"]).collect();
    assert_eq!(ids, [&json!(1), &json!(2), &json!(3), &json!(4), &json!(5)]);
    assert_eq!(ends[2]["answer"], json!({"session": "fork-1"}));
    assert_eq!(ends[3]["answer"]["cell"], 1);
    assert!(
        last_words(&model).contains("x is 1"),
        "{}",
        last_words(&model)
    );

    let said = done(
        &mut pipe,
        json!({"id": 6, "op": "undo", "session": "fork-1", "n": 5}),
    );
    assert_eq!((&said["id"], &said["code"]), (&json!(6), &json!("refused")));
    let (rest, status) = pipe.end();
    assert_eq!((rest, status), (Vec::new(), Some(0)));
}

#[test]
fn what_was_asked_before_the_end_of_input_is_finished() {
    let place = Place::new();
    let model = FakeModel::saying([code("x = 1"), "one".to_owned(), "two".to_owned()]);
    let mut pipe = place.pipe();
    pipe.send(keep(1, "a", &model));
    pipe.send(json!({"id": 2, "op": "undo", "session": "a"}));
    pipe.send(json!({"id": 3, "op": "say", "session": "a", "question": "More."}));
    pipe.send(json!({"id": 4, "op": "fork", "session": "a"}));
    let (lines, status) = pipe.end();
    let ends: Vec<(&Value, &Value)> = lines
        .iter()
        .filter(|line| is_last(line))
        .map(|line| (&line["id"], &line["event"]))
        .collect();
    let [one, two, three, four] = [json!(1), json!(2), json!(3), json!(4)];
    let (outcome, answer, error) = (json!("outcome"), json!("answer"), json!("error"));
    let expected = [
        (&one, &outcome),
        (&two, &answer),
        (&three, &outcome),
        (&four, &error),
    ];
    assert_eq!((ends, status), (Vec::from(expected), Some(0)));
}

#[test]
fn calls_of_a_fork_carry_its_own_name_and_request() {
    let place = Place::new();
    let texts = ["ready".to_owned(), code("look(q='x')"), "done".to_owned()];
    let again = [code("look(q='y')"), "done".to_owned()];
    let model = FakeModel::saying(texts.into_iter().chain(again));
    let mut pipe = place.pipe();
    let parameters = json!({"type": "object", "properties": {"q": {"type": "string"}}});
    let tool = json!({"name": "look", "description": "Looks.", "parameters": parameters});
    done(
        &mut pipe,
        with(keep(1, "a", &model), "tools", json!([tool])),
    );
    let first = done(&mut pipe, json!({"id": 2, "op": "fork", "session": "a"}));
    assert_eq!(first["answer"]["session"], "fork-1");
    let deeper = done(
        &mut pipe,
        json!({"id": 3, "op": "fork", "session": "fork-1"}),
    );
    assert_eq!(deeper["answer"]["session"], "fork-2");
    for (id, name, closed) in [(10, "fork-1", "a"), (20, "fork-2", "fork-1")] {
        done(
            &mut pipe,
            json!({"id": id, "op": "close", "session": closed}),
        );
        let question = json!({"id": id + 1, "op": "say", "session": name, "question": "Look."});
        pipe.send(question);
        let call = until(&mut pipe, &["tool_call", "outcome", "error"]);
        assert_eq!(
            (&call["event"], &call["session"], &call["id"]),
            (&json!("tool_call"), &json!(name), &json!(id + 1))
        );
        // While the run waits for its client, the conversation can be neither taken back nor copied.
        for operation in ["undo", "fork"] {
            let busy = done(
                &mut pipe,
                json!({"id": 99, "op": operation, "session": name}),
            );
            assert_eq!((&busy["id"], &busy["code"]), (&json!(99), &json!("busy")));
        }
        pipe.send(
            json!({"op": "tool_result", "session": name, "call": call["call"], "result": "seen"}),
        );
        let outcome = until(&mut pipe, &["outcome", "error"]);
        assert_eq!(
            (&outcome["id"], &outcome["outcome"]["answer"]),
            (&json!(id + 1), &json!("done"))
        );
        assert!(
            last_words(&model).contains("seen"),
            "{}",
            last_words(&model)
        );
    }
}

#[test]
fn what_waits_for_a_conversation_that_is_closed_is_refused_and_its_name_is_free() {
    let place = Place::new();
    let model = FakeModel::by(|request| {
        let messages = request["messages"].to_string();
        Said::Text(match messages.contains("again") {
            true => "back".to_owned(),
            false => code("import time; time.sleep(600)"),
        })
    });
    let mut pipe = place.pipe();
    pipe.send(keep(1, "a", &model));
    until(&mut pipe, &["code"]);
    pipe.send(json!({"id": 2, "op": "say", "session": "a", "question": "More."}));
    pipe.send(json!({"id": 3, "op": "undo", "session": "a"}));
    pipe.send(json!({"id": 4, "op": "close", "session": "a"}));
    // Another agent of this name begins at once, and the end of the first one leaves it alone.
    pipe.send(with(keep(5, "a", &model), "question", json!("Once again.")));
    let mut ends: Vec<(u64, String)> = (0..5)
        .map(|_| next_done(&mut pipe))
        .map(|line| {
            let what = match &line["outcome"] {
                Value::Null => &line["event"],
                outcome => &outcome["status"],
            };
            (
                line["id"].as_u64().unwrap(),
                what.as_str().unwrap().to_owned(),
            )
        })
        .collect();
    ends.sort();
    let ends: Vec<(u64, &str)> = ends.iter().map(|(id, what)| (*id, what.as_str())).collect();
    let first = [(1, "cancelled"), (2, "error"), (3, "error"), (4, "answer")];
    assert_eq!(ends, [&first[..], &[(5, "answered")]].concat());
    let say = json!({"id": 6, "op": "say", "session": "a", "question": "once again?"});
    assert_eq!(done(&mut pipe, say)["outcome"]["answer"], "back");
}

#[test]
fn an_agent_that_ends_with_its_answer_is_neither_taken_back_nor_forked() {
    let place = Place::new();
    let model = FakeModel::saying([code("import time; time.sleep(600)")]);
    let mut pipe = place.pipe();
    pipe.send(with(keep(1, "a", &model), "keep", json!(false)));
    until(&mut pipe, &["code"]);
    for operation in ["undo", "fork"] {
        let said = done(&mut pipe, json!({"id": 2, "op": operation, "session": "a"}));
        assert_eq!((&said["id"], &said["code"]), (&json!(2), &json!("ended")));
    }
    done(&mut pipe, json!({"id": 3, "op": "close", "session": "a"}));
}

#[test]
fn replies_of_a_fork_that_are_only_tried_call_no_tool_that_changes_something() {
    let place = Place::new();
    let model = FakeModel::by(|request| {
        let messages = request["messages"].to_string();
        Said::Text(
            match (messages.contains("Send."), messages.contains("went out")) {
                (true, false) => code("print(look(), send())"),
                _ => "done".to_owned(),
            },
        )
    });
    let mut pipe = place.pipe();
    let tool = |name: &str, changes: bool| json!({"name": name, "description": "Does.", "parameters": {"type": "object"}, "changes": changes});
    let mut request = keep(1, "a", &model);
    request["tools"] = json!([tool("look", false), tool("send", true)]);
    request["options"]["best_of"] = json!(2);
    done(&mut pipe, request);
    done(&mut pipe, json!({"id": 2, "op": "fork", "session": "a"}));
    done(&mut pipe, json!({"id": 3, "op": "close", "session": "a"}));
    pipe.send(json!({"id": 4, "op": "say", "session": "fork-1", "question": "Send."}));
    let mut calls = Vec::new();
    let outcome = loop {
        let line = until(&mut pipe, &["tool_call", "outcome", "error"]);
        assert_eq!(
            (&line["session"], &line["id"]),
            (&json!("fork-1"), &json!(4))
        );
        if line["event"] != "tool_call" {
            break line;
        }
        calls.push(line["name"].as_str().unwrap().to_owned());
        pipe.send(json!({"op": "tool_result", "session": "fork-1", "call": line["call"], "result": "went out"}));
    };
    assert_eq!(outcome["outcome"]["answer"], "done", "{outcome}");
    // Two trials that may only look, and the reply that was chosen.
    calls.sort();
    assert_eq!(calls, ["look", "look", "look", "send"]);
}
