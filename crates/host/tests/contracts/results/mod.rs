//! W6: the shape of a result, and what each part of it tells.

mod displays;
mod errors;
mod usage;
mod values;
mod variables;

use crate::support::{session, tool};
use cellblock_protocol::CellResult;
use serde_json::json;

#[test]
fn w6_one_complete_result() {
    let session = session();
    session.offer([tool("lookup", "Looks something up.", &["query"])]);
    session.good("old = [1]\ngone = 'soon'");
    session.good("open('old.txt', 'w').write('before')\nopen('gone.csv', 'w').write('a,b')");
    let code = "import os, sys
print('start')
print('trouble', file=sys.stderr)
class Card:
    def _repr_html_(self): return '<b>card</b>'
    def __repr__(self): return 'Card()'
display(Card())
k = len(lookup(query='x')) - 1
old.append(2)
del gone
os.remove('gone.csv')
open('old.txt', 'a').write(' and after')
open('a.csv', 'w').write('1,2\\n' * 30)
1/k";
    let result = session
        .start(code)
        .answering(|_, arguments| Ok(json!([arguments["query"]])));

    let mut json = serde_json::to_value(&result).unwrap();
    let usage = json["usage"].as_object_mut().unwrap();
    for measured in ["wall_ms", "cpu_ms", "peak_bytes"] {
        assert!(
            usage.remove(measured).unwrap().as_f64().unwrap() > 0.0,
            "{measured}"
        );
    }
    assert!(json["tool_calls"][0]["ms"].take().as_f64().unwrap() > 0.0);
    json["state"].as_object_mut().unwrap().remove("checkpoint");
    assert_eq!(
        json,
        json!({
            "session": session.id(), "cell": 3, "status": "failure", "exit_code": null, "signal": null,
            "stdout": "start\n", "stderr": "trouble\n", "output": "start\ntrouble\n", "truncated": null,
            "value": null,
            "displays": [{"text/html": "<b>card</b>", "text/plain": "Card()"}],
            "error": {
                "type": "ZeroDivisionError", "value": "division by zero", "repr": "ZeroDivisionError('division by zero')",
                "traceback": "Traceback (most recent call last):\n  File \"<cell 3>\", line 14, in <module>\n    1/k\nZeroDivisionError: division by zero\n",
                "frames": [{"file": "<cell 3>", "line": 14, "function": "<module>", "source": "1/k", "locals": {"k": "0"}}],
            },
            "variables": {
                "added": [
                    {"name": "os", "type": "module", "summary": "os"},
                    {"name": "sys", "type": "module", "summary": "sys"},
                    {"name": "Card", "type": "type", "summary": "class Card"},
                    {"name": "k", "type": "int", "summary": "0"},
                ],
                "changed": [{"name": "old", "type": "list", "summary": "len 2: [1, 2]"}],
                "removed": [{"name": "gone", "type": "str", "summary": "'soon'"}],
            },
            "files": {
                "created": [{"path": "a.csv", "bytes": 120, "mime": "text/csv"}],
                "changed": [{"path": "old.txt", "bytes": 16, "mime": "text/plain"}],
                "deleted": [{"path": "gone.csv", "bytes": 3, "mime": "text/csv"}],
            },
            "state": {"outcome": "kept"},
            "usage": {"stdout_bytes": 6, "stderr_bytes": 8},
            "tool_calls": [{"call": "c1", "name": "lookup", "arguments": {"query": "x"}, "ms": null, "outcome": "ok"}],
            "strategy": "process", "backend": "local", "isolation": session.rung().name(),
        })
    );
}

#[test]
fn a_result_survives_the_way_through_json() {
    let result = session().run("print('x')\ndisplay({'a': 1})\n1/0");
    let text = serde_json::to_string(&result).unwrap();
    assert_eq!(serde_json::from_str::<CellResult>(&text).unwrap(), result);
}
