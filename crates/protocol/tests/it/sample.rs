//! The result that W6 of the contracts shows, as text and as value.

use cellblock_protocol::*;
use serde_json::json;
use std::time::Duration;

pub(crate) const W6: &str = r#"{"session":"default","cell":3,"status":"failure","exit_code":null,"signal":null,
 "stdout":"start\n","stderr":"","output":"start\n","truncated":null,
 "value":null,"displays":[{"image/png":"…base64…","text/plain":"<Figure 640x480>"}],
 "error":{"type":"ZeroDivisionError","value":"division by zero","repr":"ZeroDivisionError('division by zero')",
   "traceback":"Traceback (most recent call last):\n  File \"<cell 3>\", line 2, in <module>\n    1/k\nZeroDivisionError: division by zero\n",
   "frames":[{"file":"<cell 3>","line":2,"function":"<module>","source":"1/k","locals":{"k":"0"}}]},
 "variables":{"added":[{"name":"k","type":"int","summary":"0"}],"changed":[],"removed":[]},
 "files":{"created":[{"path":"a.csv","bytes":120,"mime":"text/csv"}],"changed":[],"deleted":[]},
 "state":{"outcome":"kept","checkpoint":{"status":"armed","behind":0,"reason":null}},
 "usage":{"wall_ms":1.2,"cpu_ms":0.9,"peak_bytes":41943040,"stdout_bytes":6,"stderr_bytes":0},
 "tool_calls":[{"call":"c1","name":"lookup","arguments":{"query":"x"},"ms":0.4,"outcome":"ok"}],
 "strategy":"process","backend":"local","isolation":"full"}"#;

pub(crate) fn w6() -> CellResult {
    let arguments = json!({"query": "x"});
    CellResult {
        session: "default".to_owned(),
        cell: 3,
        status: Status::Failure,
        exit_code: None,
        signal: None,
        stopped_at: None,
        stdout: "start\n".to_owned(),
        stderr: String::new(),
        output: "start\n".to_owned(),
        truncated: None,
        value: None,
        displays: vec![MimeBundle::new().with("image/png", "…base64…").with("text/plain", "<Figure 640x480>")],
        error: Some(CellError {
            type_: "ZeroDivisionError".to_owned(),
            value: "division by zero".to_owned(),
            repr: "ZeroDivisionError('division by zero')".to_owned(),
            traceback: "Traceback (most recent call last):\n  File \"<cell 3>\", line 2, in <module>\n    1/k\nZeroDivisionError: division by zero\n".to_owned(),
            frames: vec![Frame {
                file: "<cell 3>".to_owned(),
                line: 2,
                function: "<module>".to_owned(),
                source: "1/k".to_owned(),
                locals: Locals::from_iter([("k", "0")]),
            }],
            hint: None,
            obstacle: None,
            package: None,
        }),
        variables: VariableChanges {
            added: vec![VariableChange { name: "k".to_owned(), type_: "int".to_owned(), summary: "0".to_owned() }],
            ..VariableChanges::default()
        },
        files: FileChanges {
            created: vec![FileChange { path: "a.csv".to_owned(), bytes: 120, mime: "text/csv".to_owned() }],
            ..FileChanges::default()
        },
        state: StateAfterCell::kept(CheckpointState::armed()),
        usage: Usage { wall: Duration::from_micros(1200), cpu: Duration::from_micros(900), peak_bytes: 41_943_040, stdout_bytes: 6, stderr_bytes: 0 },
        tool_calls: vec![ToolCall {
            call: "c1".to_owned(),
            name: "lookup".to_owned(),
            arguments: arguments.as_object().cloned().unwrap_or_default().into(),
            time: Duration::from_micros(400),
            outcome: ToolOutcome::Ok,
        }],
        strategy: Strategy::Process,
        backend: Backend::Local,
        isolation: Isolation::on(Rung::Full).to_string(),
        isolation_note: None,
    }
}

/// A cell that did nothing and ended like this.
pub(crate) fn ended(status: Status, outcome: StateOutcome) -> CellResult {
    CellResult {
        status,
        stdout: String::new(),
        output: String::new(),
        displays: Vec::new(),
        error: None,
        variables: VariableChanges::default(),
        files: FileChanges::default(),
        tool_calls: Vec::new(),
        state: StateAfterCell::new(outcome, CheckpointState::armed()),
        ..w6()
    }
}
