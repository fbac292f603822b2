//! What a trace tells.

use cellblock_trace::{Record, Report, Trace};
use serde_json::{Map, Value, json};

fn span(id: u64, parent: Option<u64>, name: &str, at_ms: f64, ms: f64, fields: Value) -> Record {
    let Value::Object(fields) = fields else {
        panic!("no object")
    };
    Record {
        at: 1000.0 + at_ms / 1000.0,
        name: name.into(),
        ms: Some(ms),
        id: Some(id),
        parent,
        run: Some("r".into()),
        pid: 7,
        level: "INFO".into(),
        target: "test".into(),
        fields,
    }
}

fn a_run() -> Trace {
    let lookup = json!({"tool": "lookup", "arguments": {"q": "x"}, "outcome": "ok"});
    Trace::new(vec![
        span(
            1,
            None,
            "run",
            0.0,
            16_000.0,
            json!({"run": "r", "outcome": "answered"}),
        ),
        span(2, Some(1), "step", 0.0, 14_000.0, json!({})),
        span(
            3,
            Some(2),
            "model_call",
            0.0,
            12_000.0,
            json!({"model": "m", "outcome": "ok"}),
        ),
        span(
            4,
            Some(2),
            "cell",
            12_000.0,
            1_500.0,
            json!({"outcome": "failure"}),
        ),
        span(5, Some(4), "tool_call", 12_100.0, 100.0, lookup.clone()),
        span(6, Some(4), "tool_call", 12_300.0, 100.0, lookup),
        // A number that was used before.
        span(2, Some(1), "step", 14_000.0, 2_000.0, json!({})),
        span(
            7,
            Some(2),
            "model_call",
            14_000.0,
            1_000.0,
            json!({"model": "m", "outcome": "ok"}),
        ),
        Record {
            ms: None,
            id: None,
            name: "plan".into(),
            parent: Some(2),
            fields: Map::from_iter([("changes".to_owned(), json!("✅ Plan created"))]),
            ..span(0, None, "", 15_500.0, 0.0, json!({}))
        },
    ])
}

#[test]
fn the_timeline_shows_what_is_in_what() {
    insta::assert_snapshot!(a_run().timeline());
}

#[test]
fn the_report_shows_where_the_time_went() {
    insta::assert_snapshot!(Report::of(&a_run()).to_text());
}

#[test]
fn folded_stacks_have_the_time_of_each_place_alone() {
    assert_eq!(
        a_run().folded(),
        "run 0\n\
         run;step 1500000\n\
         run;step;cell 1300000\n\
         run;step;cell;tool_call:lookup 200000\n\
         run;step;model_call 13000000\n"
    );
}

#[test]
fn an_empty_trace_is_no_problem() {
    let trace = Trace::default();
    assert_eq!(
        (trace.timeline(), trace.folded()),
        (String::new(), String::new())
    );
    assert_eq!(Report::of(&trace).spans, []);
    assert!(Report::of(&trace).to_text().starts_with("0.0 ms in all"));
}
