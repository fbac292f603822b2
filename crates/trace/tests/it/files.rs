//! From `tracing` to a file and back.

use cellblock_trace::{Caps, Rotation, Secrets, Trace, TraceFile};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tracing::{info, info_span, warn};
use tracing_subscriber::layer::SubscriberExt as _;

fn traced(path: &Path, rotation: Rotation, work: impl FnOnce()) {
    let secrets = Secrets::known(["a-known-secret".to_owned()]);
    let (file, layer) = TraceFile::start(path, rotation, Caps::default(), secrets).unwrap();
    let subscriber = tracing_subscriber::registry().with(layer);
    tracing::subscriber::with_default(subscriber, work);
    file.flush();
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
    assert!(call.ms.unwrap() >= 0.0 && !call.failed());
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
        second.text("text").unwrap(),
        "x".repeat(500) + "… (1500 more characters)"
    );
    let arguments: Value = serde_json::from_str(second.text("arguments").unwrap()).unwrap();
    assert_eq!(arguments, json!({"password": "<hidden>", "n": 1}));
}

#[test]
fn files_rotate_and_the_first_is_the_newest() {
    let (_place, path) = place();
    let rotation = Rotation {
        bytes: 2_000,
        kept: 3,
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
        assert!(name.metadata().unwrap().len() <= rotation.bytes);
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
        bytes: 20_000,
        kept: 90,
    };
    let programs = ["a", "b"].map(|run| {
        let (file, layer) =
            TraceFile::start(&path, rotation, Caps::default(), Secrets::default()).unwrap();
        let subscriber = tracing_subscriber::registry().with(layer);
        (run, file, tracing::Dispatch::new(subscriber))
    });
    for _ in 0..500 {
        for (run, file, subscriber) in &programs {
            tracing::dispatcher::with_default(subscriber, || {
                info_span!("run", run).in_scope(|| {});
            });
            file.flush();
        }
    }
    for run in ["a", "b"] {
        assert_eq!(
            Trace::read(&path, run).unwrap().records().len(),
            500,
            "{run}"
        );
    }
    // One of them moves a file aside, and the other one sees that and does not do it again.
    for number in 1.. {
        let Ok(moved) = std::fs::metadata(format!("{}.{number}", path.display())) else {
            assert!(number > 5, "it was moved aside many times");
            break;
        };
        assert!(
            moved.len() > rotation.bytes / 2,
            "{number}: {}",
            moved.len()
        );
    }
}

#[test]
fn a_full_disk_does_no_harm() {
    traced(Path::new("/dev/full"), Rotation::default(), || {
        for _ in 0..100 {
            info!("nobody will read this");
        }
    });
}

#[test]
fn broken_lines_are_passed_over() {
    let (_place, path) = place();
    traced(&path, Rotation::default(), || {
        info_span!("run", run = "r").in_scope(|| {})
    });
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.splice(0..0, b"\xff\xfe nonsense\n{}\n".iter().copied());
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(Trace::read(&path, "r").unwrap().records().len(), 1);
}
