//! `cellblock pipe`: what is heard while a cell runs.

use crate::support::{Pipe, Place};
use serde_json::{Value, json};

pub fn with_tool(place: &Place) -> Pipe {
    let mut pipe = place.pipe();
    let parameters = json!({"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]});
    let tool =
        json!({"name": "lookup", "description": "Looks something up.", "parameters": parameters});
    assert_eq!(
        pipe.ask(json!({"id": 0, "op": "tools", "tools": [tool]}))["answer"],
        json!({})
    );
    pipe
}

fn call(pipe: &mut Pipe, code: &str) -> Value {
    pipe.send(json!({"id": 1, "op": "run", "code": code}));
    let line = pipe.next();
    assert_eq!(
        (&line["id"], &line["event"]),
        (&json!(1), &json!("tool_call")),
        "{line}"
    );
    line
}

#[test]
fn a_tool_call_goes_out_and_its_result_comes_in() {
    let place = Place::new();
    let mut pipe = with_tool(&place);
    let asked = call(&mut pipe, "tools.lookup(query='x')['rows'][1]");
    assert_eq!(
        (&asked["name"], &asked["arguments"]),
        (&json!("lookup"), &json!({"query": "x"}))
    );
    pipe.send(json!({"op": "tool_result", "call": asked["call"], "result": {"rows": [1, 2]}}));
    let result = pipe.next()["result"].clone();
    assert_eq!(result["value"]["repr"], "2");
    let expected = json!([{"call": asked["call"], "name": "lookup", "arguments": {"query": "x"}, "ms": 0, "outcome": "ok"}]);
    assert_eq!(result["tool_calls"], expected);
}

#[test]
fn a_tool_that_fails_raises_in_python() {
    let place = Place::new();
    let mut pipe = with_tool(&place);
    let asked = call(&mut pipe, "tools.lookup(query='x')");
    pipe.send(json!({"op": "tool_result", "call": asked["call"], "error": "nothing found"}));
    let error = pipe.next()["result"]["error"].clone();
    assert_eq!(
        (&error["type"], &error["value"]),
        (&json!("ToolError"), &json!("nothing found"))
    );
}

#[test]
fn an_answer_to_nothing_is_refused() {
    let place = Place::new();
    let mut pipe = with_tool(&place);
    let refusal = |message: &str| json!({"id": null, "session": "default", "event": "error", "code": "not_found", "message": message});
    let stray = pipe.ask(json!({"op": "tool_result", "call": "c9", "result": null}));
    assert_eq!(stray, refusal("no call `c9` waits for an answer"));

    let asked = call(&mut pipe, "tools.lookup(query='x')");
    let name = asked["call"].as_str().unwrap();
    let wrong = pipe.ask(json!({"op": "input", "call": name, "text": "x"}));
    assert_eq!(
        wrong,
        refusal(&format!("the call `{name}` waits for `tool_result`"))
    );
    pipe.send(json!({"op": "tool_result", "call": name, "result": 5}));
    assert_eq!(pipe.next()["result"]["value"]["repr"], "5");
    let twice = pipe.ask(json!({"op": "tool_result", "call": name, "result": 5}));
    assert_eq!(
        twice,
        refusal(&format!("no call `{name}` waits for an answer"))
    );
}

#[test]
fn while_a_call_waits_runs_are_refused_and_files_and_other_sessions_are_served() {
    let place = Place::new();
    let mut pipe = with_tool(&place);
    let asked = call(
        &mut pipe,
        "tools.lookup(query='x'); open('left.txt').read()",
    );
    let busy = pipe.ask(json!({"id": 2, "op": "run", "code": "1"}));
    assert_eq!((&busy["id"], &busy["code"]), (&json!(2), &json!("busy")));
    let vars = pipe.ask(json!({"id": 5, "op": "vars"}));
    assert_eq!((&vars["id"], &vars["answer"]), (&json!(5), &json!([])));
    let put = pipe.ask(json!({"id": 3, "op": "put_file", "path": "left.txt", "base64": "aGk="}));
    assert_eq!((&put["id"], &put["answer"]), (&json!(3), &json!({})));
    pipe.send(json!({"id": 4, "session": "other", "op": "run", "code": "6 * 7"}));
    assert_eq!(pipe.next()["result"]["value"]["repr"], "42");
    pipe.send(json!({"op": "tool_result", "call": asked["call"], "result": null}));
    assert_eq!(pipe.next()["result"]["value"]["repr"], "'hi'");
}

#[test]
fn input_is_asked_of_the_one_who_runs_the_cell() {
    let place = Place::new();
    let mut pipe = place.pipe();
    pipe.send(json!({"id": 1, "op": "run", "code": "input('who? ')"}));
    let asked = pipe.next();
    assert_eq!(
        (&asked["event"], &asked["prompt"]),
        (&json!("input_request"), &json!("who? "))
    );
    pipe.send(json!({"op": "input", "call": asked["call"], "text": "Ada"}));
    assert_eq!(pipe.next()["result"]["value"]["repr"], "'Ada'");
}

#[test]
fn an_interrupt_is_heard_while_a_cell_runs_and_others_wait() {
    let place = Place::new();
    let mut pipe = place.pipe();
    pipe.send(json!({"id": 1, "op": "run", "code": "x = 1\nprint('started', flush=True)\nwhile True: pass"}));
    pipe.send(json!({"id": 2, "op": "run", "code": "x"}));
    pipe.wait_for_output("started\n");
    pipe.send(json!({"id": 3, "op": "interrupt"}));
    let mut lines = [pipe.next(), pipe.next(), pipe.next()];
    lines.sort_by_key(|line| line["id"].as_u64());
    let [first, second, interrupt] = lines;
    assert_eq!(
        (&first["id"], &first["result"]["status"]),
        (&json!(1), &json!("interrupted"))
    );
    assert_eq!(
        (&second["id"], &second["result"]["value"]["repr"]),
        (&json!(2), &json!("1"))
    );
    assert_eq!(
        (&interrupt["id"], &interrupt["answer"]),
        (&json!(3), &json!({}))
    );
}
