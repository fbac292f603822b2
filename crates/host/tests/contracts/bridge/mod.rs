//! B: tools of the host, called from inside Python.

use crate::support::{Python, next_logged_line, session, tool, wait};
use cellblock_protocol::{Cell, Event, Status, ToolSpec};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Duration;

mod strays;
mod waiting;

fn lookup() -> ToolSpec {
    tool("lookup", "Looks something up.", &["query"])
}

/// A session with `lookup`.
fn with_lookup() -> Python {
    let session = session();
    session.offer([lookup()]);
    session
}

/// Runs a cell; each call is answered with its own name and arguments.
fn echo(session: &Python, code: &str) -> String {
    let result = session
        .start(code)
        .answering(|name, arguments| Ok(json!([name, arguments])));
    assert_eq!(result.status, Status::Success, "{:?}", result.error);
    result.value.unwrap().repr
}

#[test]
fn b1_a_tool_is_a_function_of_its_own_and_of_tools() {
    let session = with_lookup();
    for code in [
        "lookup(query='x')",
        "lookup('x')",
        "tools.lookup(query='x')",
        "tools.lookup('x')",
    ] {
        assert_eq!(echo(&session, code), "['lookup', {'query': 'x'}]", "{code}");
    }
}

#[test]
fn b1_a_tool_has_a_signature_and_a_docstring_from_its_schema() {
    let session = session();
    let schema = json!({
        "type": "object",
        "required": ["city"],
        "properties": {
            "city": {"type": "string", "description": "Where."},
            "days": {"type": "integer", "default": 3},
            "unit": {"enum": ["C", "F"], "description": "The scale.", "type": "string"},
        },
    });
    session.offer([ToolSpec {
        name: "weather".into(),
        description: "The weather of the next days.".into(),
        parameters: schema.as_object().cloned().unwrap(),
    }]);
    assert_eq!(
        session.stdout(
            "import inspect
print(weather.__name__, inspect.signature(weather))
print(weather.__doc__)"
        ),
        "weather (city: str, days: int = 3, unit: str = ...)\n\
         The weather of the next days.\n\nArgs:\n    city (str): Where.\n    days (int): Optional.\n    unit (str): The scale. One of 'C', 'F'. Optional.\n"
    );
    assert_eq!(
        echo(&session, "weather('Oslo', unit='C')"),
        "['weather', {'city': 'Oslo', 'unit': 'C'}]"
    );
}

#[test]
fn b1_tools_can_be_called_from_functions_threads_and_modules_of_the_user() {
    let session = with_lookup();
    wait(session.put_file(
        "helper.py",
        b"def helped(q):\n    return lookup(q)[1]['query']\n".to_vec(),
    ))
    .unwrap();
    session.good("def twice(q):\n    return [lookup(q), lookup(q)]");
    assert_eq!(echo(&session, "len(twice('a'))"), "2");
    assert_eq!(
        echo(
            &session,
            "import sys
sys.path.insert(0, '.')
import helper
helper.helped('from a module')"
        ),
        "'from a module'"
    );
}

#[test]
fn b1_threads_call_concurrently_and_each_gets_its_own_answer() {
    let session = with_lookup();
    let mut running = session.start(
        "from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as pool:
    found = list(pool.map(lookup, 'abcdefgh'))
found",
    );
    // All eight wait at the same time, and the last is answered first.
    let calls: Vec<_> = (0..8).filter_map(|_| running.next()).collect();
    for event in calls.iter().rev() {
        let Event::ToolCall {
            call, arguments, ..
        } = event
        else {
            panic!("{event:?}")
        };
        session.tool_result(
            call,
            Ok(json!(format!(
                "found {}",
                arguments.to_map()["query"].as_str().unwrap()
            ))),
        );
    }
    let result = running.result();
    let expected: Vec<String> = "abcdefgh"
        .chars()
        .map(|letter| format!("'found {letter}'"))
        .collect();
    assert_eq!(
        result.value.unwrap().repr,
        format!("[{}]", expected.join(", "))
    );
    assert_eq!(result.tool_calls.len(), 8);
}

#[test]
fn b1_json_results_arrive_as_python_values() {
    let session = with_lookup();
    for (answer, repr) in [
        (
            json!({"a": [1, 2.5, null, true], "b": {"c": "é"}}),
            "{'a': [1, 2.5, None, True], 'b': {'c': 'é'}}",
        ),
        (json!(null), "None"),
        (json!("text"), "'text'"),
        (json!(u64::MAX), "18446744073709551615"),
        (json!(-1.5e300), "-1.5e+300"),
    ] {
        let result = session
            .start("print(repr(lookup('x')), end='')")
            .answering(|_, _| Ok(answer.clone()));
        assert_eq!(result.stdout, repr);
    }
}

#[test]
fn b1_a_megabyte_of_text_arrives_whole() {
    let session = with_lookup();
    let text = "é世🐍\n\"\\".repeat(100_000);
    let result = session
        .start("len(text := lookup('x')), text[:6], hash(text) == hash('é世🐍\\n\"\\\\' * 100000)")
        .answering(|_, _| Ok(json!(text)));
    assert_eq!(
        result.value.unwrap().repr,
        r#"(600000, 'é世🐍\n"\\', True)"#
    );
}

#[test]
fn arguments_that_would_take_too_much_memory_of_the_host_are_a_tool_error() {
    let session = with_lookup();
    let exception = session.exception("lookup([{'a': 1}] * 150_000)");
    assert!(
        exception.contains("the arguments of lookup() are too large: ")
            && exception.contains("MiB of the host's memory, and 64 are the most"),
        "{exception}"
    );
    // Just below what the guest sends, and so below what the host takes.
    let result = session
        .start("lookup([{'a': 1}] * 70_000); 'went on'")
        .answering(|_, arguments| Ok(json!(arguments["query"].as_array().map(Vec::len))));
    assert_eq!(result.status, Status::Success);
    assert_eq!(result.value.unwrap().repr, "'went on'");
}

#[test]
fn b1_arguments_are_sent_as_json() {
    let session = with_lookup();
    let code = "import datetime, pathlib
lookup({'t': (1, {2}), 'd': datetime.date(2024, 1, 2), 'p': pathlib.Path('a/b'), 'n': float('nan')})";
    let result = session.start(code).answering(|_, _| Ok(json!(null)));
    assert_eq!(
        json!(result.tool_calls[0].arguments),
        json!({"query": {"d": "2024-01-02", "n": null, "p": "a/b", "t": [1, [2]]}})
    );
    assert_eq!(
        session.exception("lookup(object())"),
        "TypeError('lookup(query=…): object is not a JSON value; pass text, numbers, booleans, None, lists or dicts')"
    );
    assert_eq!(
        session.exception("lookup('a', 'b')"),
        "TypeError('lookup() takes 1 arguments but 2 were given')"
    );
}

#[test]
fn b1_names_that_are_no_identifiers_are_mapped() {
    let session = session();
    session.offer([
        tool("get-weather.now", "", &[]),
        tool("class", "", &[]),
        tool("2nd", "", &[]),
    ]);
    assert_eq!(
        echo(
            &session,
            "get_weather_now()[0], tools.get_weather_now()[0], class_()[0], tools._2nd()[0]"
        ),
        "('get-weather.now', 'get-weather.now', 'class', '2nd')"
    );
}

#[test]
fn b1_a_tool_never_hides_a_builtin_or_a_variable() {
    let session = session();
    session.good("mine = 'variable'");
    session.offer([tool("print", "", &[]), tool("mine", "", &[])]);
    assert_eq!(session.stdout("print(mine)"), "variable\n");
    assert_eq!(
        echo(&session, "tools.print()[0], tools.mine()[0]"),
        "('print', 'mine')"
    );
}

#[test]
fn b1_tools_are_not_variables_and_outlive_a_reset() {
    let session = with_lookup();
    assert!(wait(session.vars()).unwrap().is_empty());
    wait(session.reset()).unwrap();
    assert_eq!(echo(&session, "lookup('x')[0]"), "'lookup'");
}

#[test]
fn b1_offering_tools_again_replaces_them() {
    let session = with_lookup();
    session.offer([tool("other", "", &[])]);
    assert_eq!(
        session.exception("lookup('x')"),
        r#"NameError("name 'lookup' is not defined")"#
    );
    assert_eq!(
        session.exception("tools.lookup"),
        r#"AttributeError("there is no tool 'lookup'; there are: other")"#
    );
    assert_eq!(echo(&session, "other()[0]"), "'other'");
}

#[test]
fn b1_two_sessions_have_their_own_tools() {
    let (one, other) = (with_lookup(), session());
    assert_eq!(echo(&one, "lookup('x')[0]"), "'lookup'");
    assert_eq!(
        other.exception("lookup('x')"),
        r#"NameError("name 'lookup' is not defined")"#
    );
}

#[test]
fn b2_errors_are_raised_as_tool_errors_with_the_message() {
    let session = with_lookup();
    let code = "try:
    lookup('x')
except ToolError as error:
    caught = str(error)
caught";
    let result = session
        .start(code)
        .answering(|_, _| Err("`query`: expected a number, got \"x\"".into()));
    assert_eq!(
        result.value.unwrap().repr,
        r#"'`query`: expected a number, got "x"'"#
    );

    let result = session
        .start("lookup('x')")
        .answering(|_, _| Err("no such thing".into()));
    assert_eq!(
        (result.status, result.error.unwrap().traceback.as_str()),
        (
            Status::Failure,
            "Traceback (most recent call last):\n  File \"<cell 2>\", line 1, in <module>\n    lookup('x')\nToolError: no such thing\n"
        )
    );
}

#[test]
fn b2_where_nobody_answers_a_call_fails_at_once_and_says_so() {
    let session = with_lookup();
    assert_eq!(
        session.exception("lookup('x')"),
        "ToolError('nobody answers tool calls here, so `lookup` cannot be called')"
    );
}

#[test]
fn b4_calls_need_no_network() {
    let session = with_lookup();
    let code = "import socket
try:
    socket.create_connection(('127.0.0.1', 80))
except OSError as error:
    network = 'none'
network, lookup('x')[0]";
    assert_eq!(echo(&session, code), "('none', 'lookup')");
}

#[test]
fn the_calls_of_a_cell_are_in_its_result() {
    let session = with_lookup();
    let code = "lookup('good')\ntry: lookup('bad')\nexcept ToolError: pass\nlookup('never')";
    let mut running = session.start(code);
    while let Some(event) = running.next() {
        let Event::ToolCall {
            call, arguments, ..
        } = event
        else {
            panic!("{event:?}")
        };
        match arguments.to_map()["query"].as_str().unwrap() {
            "good" => session.tool_result(&call, Ok(json!(1))),
            "bad" => session.tool_result(&call, Err("no".into())),
            _ => {
                session.interrupt();
                break;
            }
        }
    }
    let result = running.result();
    let mut calls = serde_json::to_value(result.tool_calls).unwrap();
    for call in calls.as_array_mut().unwrap() {
        assert!(call["ms"].take().as_f64().unwrap() > 0.0);
    }
    let call = |id: &str, query: &str, outcome: &str| json!({"call": id, "name": "lookup", "arguments": {"query": query}, "ms": Value::Null, "outcome": outcome});
    assert_eq!(result.status, Status::Interrupted);
    assert_eq!(
        calls,
        json!([
            call("c1", "good", "ok"),
            call("c2", "bad", "error"),
            call("c3", "never", "unanswered")
        ])
    );
}
