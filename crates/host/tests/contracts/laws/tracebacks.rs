//! R9, R10: what an exception looks like.

use super::failure;
use crate::support::session;
use cellblock_protocol::Status;
use serde_json::json;

fn traceback(session: &crate::support::Python, code: &str) -> String {
    session.run(code).error.unwrap().traceback
}

#[test]
fn r9_only_the_users_frames_are_shown_and_always_the_final_line() {
    assert_eq!(
        traceback(&session(), "import json\njson.loads('{')"),
        "Traceback (most recent call last):\n  File \"<cell 1>\", line 2, in <module>\n    json.loads('{')\n\
             json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)\n"
    );
}

#[test]
fn r9_the_frames_of_the_error_are_the_users_too() {
    let session = session();
    session.good("def parse(text, n=1):\n    return int(text)");
    let error = session.run("parse('seven')").error.unwrap();
    assert_eq!(
        serde_json::to_value(error.frames).unwrap(),
        json!([
            {"file": "<cell 2>", "line": 1, "function": "<module>", "source": "parse('seven')", "locals": {}},
            {"file": "<cell 1>", "line": 2, "function": "parse", "source": "return int(text)", "locals": {"text": "'seven'", "n": "1"}},
        ])
    );
}

#[test]
fn r10_a_traceback_that_crosses_cells_shows_the_line_of_each() {
    let session = session();
    session.good("def inner(k):\n    return 1 / k");
    session.good("def outer():\n    return inner(0)");
    assert_eq!(
        traceback(&session, "outer()"),
        "Traceback (most recent call last):\n  File \"<cell 3>\", line 1, in <module>\n    outer()\n  \
             File \"<cell 2>\", line 2, in outer\n    return inner(0)\n  \
             File \"<cell 1>\", line 2, in inner\n    return 1 / k\nZeroDivisionError: division by zero\n"
    );
}

#[test]
fn r9_a_chain_of_exceptions_is_shown_from_its_first_cause_on() {
    assert_eq!(
        traceback(
            &session(),
            "try:\n    1/0\nexcept ZeroDivisionError as e:\n    raise ValueError('bad') from e"
        ),
        "Traceback (most recent call last):\n  File \"<cell 1>\", line 2, in <module>\n    1/0\nZeroDivisionError: division by zero\n\n\
             The above exception was the direct cause of the following exception:\n\n\
             Traceback (most recent call last):\n  File \"<cell 1>\", line 4, in <module>\n    raise ValueError('bad') from e\nValueError: bad\n"
    );
}

#[test]
fn r9_a_syntax_error_shows_its_place() {
    assert_eq!(
        traceback(&session(), "x = 1\ny = (2 +* 3)"),
        "  File \"<cell 1>\", line 2
    y = (2 +* 3)
            ^
SyntaxError: invalid syntax
"
    );
}

#[test]
fn r9_an_exception_that_cannot_be_shown_is_still_a_failure() {
    let session = session();
    let code = "class Nasty(Exception):
    def __str__(self): raise RuntimeError('no text')
    __repr__ = __str__
raise Nasty";
    assert_eq!(
        failure(session.run(code)),
        (Status::Failure, "Nasty".into())
    );
    assert_eq!(session.value("1"), "1");
}

#[test]
fn r9_the_tools_of_python_show_the_source_of_cells_too() {
    let session = session();
    session.good("def f():\n    return 1/0");
    let code = "import traceback, inspect
try: f()
except Exception: text = traceback.format_exc()
'return 1/0' in text, inspect.getsource(f)";
    assert_eq!(session.value(code), r"(True, 'def f():\n    return 1/0\n')");
}
