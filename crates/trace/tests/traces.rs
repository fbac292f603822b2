//! Traces through the public API: written, read back, reported; secrets hidden, long values cut.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on fails"
)]

use cellblock_trace::{
    Record, Rotation, SecretFilter, Trace, TraceOptions, TraceReport, TraceWriter, ValueLimits,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use tracing::{info, info_span, warn};
use tracing_subscriber::layer::SubscriberExt as _;

fn traced(path: &Path, rotation: Rotation, work: impl FnOnce()) {
    let options = TraceOptions {
        rotation,
        secrets: SecretFilter::with_values(["a-known-secret".to_owned()]),
        ..TraceOptions::default()
    };
    let writer = TraceWriter::start(path, options).unwrap();
    let subscriber = tracing_subscriber::registry().with(writer.layer());
    tracing::subscriber::with_default(subscriber, work);
    writer.flush();
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("state/trace.jsonl");
    (place, path)
}

#[test]
fn spans_and_events_of_a_run_come_back_in_order() {
    let (_place, path) = place();
    traced(&path, Rotation::default(), || {
        let run = info_span!("run", run = "r1").entered();
        let call = info_span!("model_call", model = "m", outcome = tracing::field::Empty).entered();
        warn!(attempt = 2, "asked again");
        call.record("outcome", "ok");
        drop(call);
        info_span!("cell").in_scope(|| {});
        drop(run);
        info_span!("run", run = "r2").in_scope(|| info!("something else"));
    });
    let trace = Trace::read(&path, "r1").unwrap();
    let seen: Vec<_> = trace
        .records()
        .iter()
        .map(|it| (it.name.as_str(), it.is_span()))
        .collect();
    assert_eq!(
        seen,
        [
            ("run", true),
            ("model_call", true),
            ("asked again", false),
            ("cell", true)
        ]
    );
    let call = &trace.records()[1];
    assert_eq!(
        Value::Object(call.fields.clone()),
        json!({"model": "m", "outcome": "ok"})
    );
    assert!(call.ms.unwrap() >= 0.0 && !call.is_failed());
    assert_eq!(trace.records()[2].level, "WARN");
}

#[test]
fn secrets_and_long_values_do_not_reach_the_file() {
    let (_place, path) = place();
    traced(&path, Rotation::default(), || {
        info_span!("run", run = "r").in_scope(|| {
            info!(api_key = "abc", input_tokens = 12, "sent a-known-secret");
            info!(
                text = "x".repeat(2000),
                arguments = r#"{"password":"abc","n":1}"#,
                "long"
            );
        });
    });
    let trace = Trace::read(&path, "r").unwrap();
    let first = &trace.records()[1];
    assert_eq!(first.name, "sent <hidden>");
    assert_eq!(
        Value::Object(first.fields.clone()),
        json!({"api_key": "<hidden>", "input_tokens": 12})
    );
    let second = &trace.records()[2];
    assert_eq!(
        second.text_field("text").unwrap(),
        "x".repeat(500) + "… (1500 more characters)"
    );
    let arguments: Value = serde_json::from_str(second.text_field("arguments").unwrap()).unwrap();
    assert_eq!(arguments, json!({"password": "<hidden>", "n": 1}));
}

#[test]
fn files_rotate_and_the_first_is_the_newest() {
    let (_place, path) = place();
    let rotation = Rotation {
        max_bytes: 2_000,
        max_old_files: 3,
    };
    traced(&path, rotation, || {
        for number in 0..200 {
            info_span!("run", run = "r", number).in_scope(|| {});
        }
    });
    let names =
        ["", ".1", ".2", ".3", ".4"].map(|end| PathBuf::from(format!("{}{end}", path.display())));
    let there: Vec<_> = names.iter().map(|name| name.exists()).collect();
    assert_eq!(there, [true, true, true, true, false]);
    for name in &names[..4] {
        assert!(name.metadata().unwrap().len() <= rotation.max_bytes);
    }
    let numbers: Vec<_> = Trace::read(&path, "r")
        .unwrap()
        .records()
        .iter()
        .map(|it| it.fields["number"].clone())
        .collect();
    assert_eq!(numbers.last(), Some(&json!(199)));
    let expected: Vec<Value> = (200 - numbers.len()..200)
        .map(|number| json!(number))
        .collect();
    assert_eq!(numbers, expected, "no line is lost between two files");
}

#[test]
fn two_programs_may_write_the_same_trace() {
    let (_place, path) = place();
    let rotation = Rotation {
        max_bytes: 20_000,
        max_old_files: 90,
    };
    let programs = ["a", "b"].map(|run| {
        let options = TraceOptions {
            rotation,
            ..TraceOptions::default()
        };
        let writer = TraceWriter::start(&path, options).unwrap();
        let subscriber = tracing_subscriber::registry().with(writer.layer());
        (run, writer, tracing::Dispatch::new(subscriber))
    });
    for _ in 0..500 {
        for (run, writer, subscriber) in &programs {
            tracing::dispatcher::with_default(subscriber, || {
                info_span!("run", run).in_scope(|| {});
            });
            writer.flush();
        }
    }
    for run in ["a", "b"] {
        assert_eq!(
            Trace::read(&path, run).unwrap().records().len(),
            500,
            "{run}"
        );
    }
    // One program renames a file, and the other one sees that and does not rename it again.
    for number in 1.. {
        let Ok(renamed) = std::fs::metadata(format!("{}.{number}", path.display())) else {
            assert!(number > 5, "it was renamed many times");
            break;
        };
        assert!(
            renamed.len() > rotation.max_bytes / 2,
            "{number}: {}",
            renamed.len()
        );
    }
}

#[test]
fn a_full_disk_does_no_harm() {
    traced(Path::new("/dev/full"), Rotation::default(), || {
        for _ in 0..100 {
            info!("no subscriber reads this");
        }
    });
}

#[test]
fn broken_lines_are_skipped() {
    let (_place, path) = place();
    traced(&path, Rotation::default(), || {
        info_span!("run", run = "r").in_scope(|| {})
    });
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.splice(0..0, b"\xff\xfe nonsense\n{}\n".iter().copied());
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(Trace::read(&path, "r").unwrap().records().len(), 1);
}

#[test]
fn values_are_hidden_by_the_names_of_their_fields() {
    let value = json!({
        "API_KEY": "abc", "apiToken": "abc", "db_password": "abc", "Authorization": "Bearer abc", "cookie": ["abc"],
        "max_tokens": 100, "tokens": 7, "keyboard": "us", "monkey": "yes", "note": null,
    });
    assert_eq!(
        SecretFilter::default().redact_field("", value),
        json!({
            "API_KEY": "<hidden>", "apiToken": "<hidden>", "db_password": "<hidden>", "Authorization": "<hidden>", "cookie": "<hidden>",
            "max_tokens": 100, "tokens": 7, "keyboard": "us", "monkey": "yes", "note": null,
        })
    );
}

#[test]
fn secrets_in_texts_are_hidden_by_their_form() {
    let secrets = SecretFilter::default();
    for (text, expected) in [
        (
            "the key sk-abcdefghijkl was refused",
            "the key <hidden> was refused",
        ),
        (
            "Authorization: Bearer abc.def",
            "Authorization: <hidden> <hidden>",
        ),
        (
            "GET /x?api_key=abc&page=2",
            "GET /x?api_key=<hidden>&page=2",
        ),
        ("password=hunter2 user=me", "password=<hidden> user=me"),
        ("max_tokens=100", "max_tokens=100"),
        ("postgres://me:pw@host/db", "postgres://<hidden>@host/db"),
        ("a plain text: with a colon", "a plain text: with a colon"),
    ] {
        assert_eq!(secrets.redact_text(text), expected);
    }
}

#[test]
fn the_values_of_variables_that_are_named_like_secrets_are_hidden_everywhere() {
    let variables = [
        ("OPENAI_API_KEY", "my-own-secret"),
        ("HOME", "/home/me-and-you"),
        ("A_KEY", "short"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let secrets = SecretFilter::from_environment(variables);
    let text = "xmy-own-secretx in /home/me-and-you is short";
    assert_eq!(
        secrets.redact_text(text),
        "x<hidden>x in /home/me-and-you is short"
    );
    assert_eq!(format!("{secrets:?}"), "SecretFilter(1 known)");
}

#[test]
fn long_values_are_cut_and_say_so() {
    let limits = ValueLimits {
        max_chars: 3,
        max_fields: 2,
        max_items: 2,
    };
    let value = json!({"a": "äöüß", "b": [1, 2, 3], "c": 1});
    assert_eq!(
        limits.cut(value),
        json!({"a": "äöü… (1 more characters)", "b": [1, 2, "… (1 more items)"], "…": "1 more fields"})
    );
}

proptest! {
    #[test]
    fn no_text_makes_it_panic_and_a_known_secret_is_never_left(before in "\\PC{0,30}", after in "\\PC{0,30}") {
        let secrets = SecretFilter::with_values(["S3CR3T-S3CR3T".to_owned()]);
        let hidden = secrets.redact_text(&format!("{before}S3CR3T-S3CR3T{after}"));
        prop_assert!(!hidden.contains("S3CR3T-S3CR3T"));
        let cut = ValueLimits::default().cut(Value::String(hidden));
        prop_assert!(cut.is_string());
    }
}

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
    Trace::from_records(vec![
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
    insta::assert_snapshot!(TraceReport::new(&a_run()).to_text());
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
    assert_eq!(TraceReport::new(&trace).spans, []);
    assert!(
        TraceReport::new(&trace)
            .to_text()
            .starts_with("0.0 ms in all")
    );
}
