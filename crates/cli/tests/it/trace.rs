//! `cellblock trace`.

use crate::fake_model::FakeModel;
use crate::snapshot::transcript;
use crate::support::{Ended, Place};
use serde_json::{Value, json};
use std::fs;

/// A state directory with the trace of one run.
fn traced() -> Place {
    let place = Place::new();
    let span = |id: u64, parent: Option<u64>, name: &str, at: f64, ms: f64, fields: Value| {
        json!({"at": at, "name": name, "ms": ms, "id": id, "parent": parent, "run": "abcdefgh", "pid": 1,
            "level": "INFO", "target": "cellblock_agent", "fields": fields})
    };
    let lines = [
        span(
            3,
            Some(2),
            "model_call",
            100.0,
            11_000.0,
            json!({"model": "m"}),
        ),
        span(
            4,
            Some(2),
            "cell",
            111.0,
            500.0,
            json!({"code": "1/0\u{1b}[31m", "outcome": "failure"}),
        ),
        span(2, Some(1), "step", 100.0, 11_600.0, json!({"step": 1})),
        span(
            1,
            None,
            "run",
            100.0,
            12_000.0,
            json!({"run": "abcdefgh", "outcome": "answered"}),
        ),
    ];
    let state = place.path().join("state/cellblock");
    fs::create_dir_all(&state).unwrap();
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(state.join("trace.jsonl"), text).unwrap();
    place
}

#[test]
fn the_trace_of_a_run_is_shown() {
    let ended = traced().run(["trace", "abcdefgh"]);
    assert_eq!((ended.status, &ended.stderr[..]), (0, ""));
    insta::assert_snapshot!(ended.stdout, @r#"
    0.0 ms  run  12.0 s  outcome=answered
    0.0 ms    step  11.6 s  step=1
    0.0 ms      model_call  11.0 s  model=m
    11.0 s      cell  500.0 ms  code=1/0 [31m  outcome=failure

12.0 s in all: model 11.0 s (92 %), code 500.0 ms (4 %), overhead 500.0 ms (4 %)

span            count        mean         min         max         p95   failed
cell                1    500.0 ms    500.0 ms    500.0 ms    500.0 ms    100 %
model_call          1      11.0 s      11.0 s      11.0 s      11.0 s      0 %
run                 1      12.0 s      12.0 s      12.0 s      12.0 s      0 %
step                1      11.6 s      11.6 s      11.6 s      11.6 s      0 %

Slow:
  model_call at 0.0 ms took 11.0 s
"#);
}

#[test]
fn the_trace_of_a_run_is_given_to_programs() {
    let place = traced();
    let numbers = place.run(["trace", "abcdefgh", "--format", "json"]).stdout;
    let numbers: Value = serde_json::from_str(&numbers).unwrap();
    let shares = json!({"whole": 12000.0, "model": 11000.0, "code": 500.0, "overhead": 500.0});
    assert_eq!(numbers["shares"], shares);
    let folded = place
        .run(["trace", "abcdefgh", "--format", "folded"])
        .stdout;
    let expected =
        "run 400000\nrun;step 100000\nrun;step;cell 500000\nrun;step;model_call 11000000\n";
    assert_eq!(folded, expected);
}

#[test]
fn a_collector_of_opentelemetry_gets_the_spans_of_a_run() {
    let place = Place::new();
    let model = FakeModel::saying(["```python\n1/0\n```", "no"]);
    // It takes anything that is sent in JSON, and keeps it.
    let collector = FakeModel::saying(["{}"]);
    let mut command = place.command(["ask", "?", "--quiet", "--stdlib", "--model", "fake"]);
    command.args(["--base-url", &model.url, "--format", "markdown"]);
    let base = collector.url.trim_end_matches("/v1");
    let ended = command
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", base)
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(0));
    let sent = collector.asked();
    let spans = sent[0]
        .pointer("/resourceSpans/0/scopeSpans/0/spans")
        .unwrap();
    let spans = spans.as_array().unwrap();
    let named = |name: &str| spans.iter().find(|span| span["name"] == name).unwrap();
    let (run, step, cell) = (named("run"), named("step"), named("cell"));
    assert_eq!(step["parentSpanId"], run["spanId"]);
    assert_eq!(cell["parentSpanId"], step["spanId"]);
    assert_eq!(run["traceId"], cell["traceId"]);
    assert_eq!(run["traceId"].as_str().unwrap().len(), 32);
    assert_eq!(
        (&run["status"]["code"], &cell["status"]["code"]),
        (&json!(0), &json!(2))
    );

    let told = place.run(["trace", "last", "--format", "otlp"]);
    let printed: Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!(printed, sent[0]);
}

#[test]
fn what_a_tool_of_a_folder_prints_is_in_the_trace_of_the_run() {
    let place = Place::new();
    fs::create_dir(place.path().join("mine")).unwrap();
    let tool = "def greet(name: str):\n    print('greeting', name)\n    return 'hello'\n";
    fs::write(place.path().join("mine/greet.py"), tool).unwrap();
    let model = FakeModel::saying(["```python\nprint(greet('Ada'))\n```", "hello"]);
    let mut arguments = vec!["ask", "?", "--quiet", "--stdlib", "--model", "fake"];
    arguments.extend(["--base-url", &model.url, "--format", "markdown"]);
    arguments.extend(["--tools-dir", "mine"]);
    let ended = place.run(arguments);
    assert_eq!((ended.status, &ended.stdout[..]), (0, "hello\n"));
    let trace = fs::read_to_string(place.path().join("state/cellblock/trace.jsonl")).unwrap();
    let lines: Vec<Value> = trace
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let cell = lines.iter().find(|line| line["name"] == "cell").unwrap();
    let printed = lines
        .iter()
        .find(|line| line["fields"]["printed"] == "greeting Ada\n");
    let printed = printed.unwrap_or_else(|| panic!("{trace}"));
    assert_eq!(printed["fields"]["tool"], "greet");
    assert_eq!(
        (&printed["run"], &printed["parent"]),
        (&cell["run"], &cell["id"])
    );
}

#[test]
fn a_collector_that_is_not_there_costs_a_warning_and_nothing_else() {
    let place = Place::new();
    let model = FakeModel::saying(["yes"]);
    let mut command = place.command(["ask", "?", "--quiet", "--stdlib", "--model", "fake"]);
    command.args(["--base-url", &model.url, "--format", "markdown"]);
    let output = command
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
        .output()
        .unwrap();
    let ended = Ended {
        status: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    };
    insta::assert_snapshot!(transcript(&place, &["ask", "?", "--quiet"], "", &ended));
}

#[test]
fn a_run_that_is_not_there_is_told() {
    let place = traced();
    let shown = ["nothing", "last"].map(|run| place.transcript(["trace", run]));
    insta::assert_snapshot!(shown.concat());
}
