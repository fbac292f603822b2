//! Results and events: their JSON is the example of the contract, read and written without a loss.

use cellblock_protocol::*;
use serde_json::json;
use std::time::Duration;

use crate::sample::{W6, w6};

#[test]
fn the_example_of_the_contract_is_the_example_of_the_code() {
    assert_eq!(serde_json::from_str::<CellResult>(W6).unwrap(), w6());
}

#[test]
fn the_example_is_written_exactly_as_it_was_read() {
    // Line breaks between the fields are the only thing that the contract has and we do not.
    let expected: String = W6
        .lines()
        .map(|line| line.trim_start_matches(' '))
        .collect();
    assert_eq!(serde_json::to_string(&w6()).unwrap(), expected);
}

/// The JSON of each type that holds a time, as it was when Rust code had numbers there too.
#[test]
fn a_time_is_a_number_of_milliseconds_in_json() {
    fn same<T>(value: T, json: &str)
    where
        T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
    {
        assert_eq!(serde_json::to_string(&value).unwrap(), json);
        assert_eq!(serde_json::from_str::<T>(json).unwrap(), value);
    }
    let usage = Usage {
        wall: Duration::from_nanos(1_600_001),
        cpu: Duration::ZERO,
        ..Usage::default()
    };
    let json =
        r#"{"wall_ms":1.600001,"cpu_ms":0.0,"peak_bytes":0,"stdout_bytes":0,"stderr_bytes":0}"#;
    same(usage, json);
    let end = ProcessEnd {
        exit_code: Some(0),
        signal: None,
        status: ProcessStatus::Exited,
        cpu: Duration::from_secs(5400),
        peak_bytes: 1,
    };
    let json =
        r#"{"exit_code":0,"signal":null,"status":"exited","cpu_ms":5400000.0,"peak_bytes":1}"#;
    same(end, json);
    let call = ToolCall {
        call: "c1".to_owned(),
        name: "lookup".to_owned(),
        arguments: serde_json::Map::new().into(),
        time: Duration::from_micros(420),
        outcome: ToolOutcome::Ok,
    };
    let json = r#"{"call":"c1","name":"lookup","arguments":{},"ms":0.42,"outcome":"ok"}"#;
    same(call, json);
    let mut state = StateAfterCell::kept(CheckpointState::armed());
    let json = r#"{"outcome":"kept","checkpoint":{"status":"armed","behind":0,"reason":null}}"#;
    same(state.clone(), json);
    state.replay_time = Some(Duration::from_millis(12));
    let json = r#"{"outcome":"kept","checkpoint":{"status":"armed","behind":0,"reason":null},"replay_ms":12}"#;
    same(state, json);
    let limits = serde_json::to_value(Limits::default()).unwrap();
    assert_eq!(
        (&limits["wall"], &limits["idle"]),
        (&json!(30.0), &json!(1800.0))
    );
}

#[test]
fn a_number_that_is_no_time_is_read_as_the_nearest_time() {
    let read = |cpu: &str| {
        let json = format!(
            r#"{{"wall_ms":1,"cpu_ms":{cpu},"peak_bytes":0,"stdout_bytes":0,"stderr_bytes":0}}"#
        );
        serde_json::from_str::<Usage>(&json).unwrap().cpu
    };
    assert_eq!(
        ["-1", "-0.0", "1e300"].map(read),
        [Duration::ZERO, Duration::ZERO, Duration::MAX]
    );
}

#[test]
fn truncated_names_only_the_streams_that_are_cut() {
    let cut = Some(Cut {
        kept: 1_000_000,
        left_out: 5,
    });
    let json = serde_json::to_value(Truncated::any(cut, None, cut)).unwrap();
    assert_eq!(
        json,
        json!({"stdout": {"kept": 1_000_000, "left_out": 5}, "output": {"kept": 1_000_000, "left_out": 5}})
    );
    assert_eq!(Truncated::any(None, None, None), None);
}

#[test]
fn a_hint_is_there_only_when_there_is_one() {
    let error = CellError {
        hint: Some("no network here".to_owned()),
        ..CellError::default()
    };
    assert_eq!(
        serde_json::to_value(&error).unwrap()["hint"],
        "no network here"
    );
    assert_eq!(
        serde_json::to_value(CellError::default())
            .unwrap()
            .get("hint"),
        None
    );
}

#[test]
fn an_obstacle_has_one_name_and_one_that_is_not_known_is_none() {
    let error = CellError {
        obstacle: Some(Obstacle::NoNetwork),
        ..CellError::default()
    };
    let mut json = serde_json::to_value(&error).unwrap();
    assert_eq!(json["obstacle"], "no_network");
    assert_eq!(
        serde_json::from_value::<CellError>(json.clone()).unwrap(),
        error
    );
    json["obstacle"] = "of a later version".into();
    assert_eq!(
        serde_json::from_value::<CellError>(json).unwrap(),
        CellError::default()
    );
}

#[test]
fn locals_keep_their_order() {
    let locals: Locals = serde_json::from_str(r#"{"z":"1","a":"2"}"#).unwrap();
    assert_eq!(locals, Locals::from_iter([("z", "1"), ("a", "2")]));
    assert_eq!(
        serde_json::to_string(&locals).unwrap(),
        r#"{"z":"1","a":"2"}"#
    );
}

#[test]
fn events_carry_their_name_and_their_fields() {
    let written = |event: Event| serde_json::to_string(&event).unwrap();
    assert_eq!(
        written(Event::Stdout {
            text: "2\n".to_owned()
        }),
        r#"{"event":"stdout","text":"2\n"}"#
    );
    assert_eq!(
        written(Event::Restored { checkpoint: 4 }),
        r#"{"event":"restored","checkpoint":4}"#
    );
    assert_eq!(
        written(Event::InputRequest {
            call: "c2".to_owned(),
            prompt: "name? ".to_owned(),
            password: false,
        }),
        r#"{"event":"input_request","call":"c2","prompt":"name? "}"#
    );
}

#[test]
fn a_result_event_survives_the_journey() {
    let event = Event::Result {
        result: Box::new(w6()),
    };
    let text = serde_json::to_string(&event).unwrap();
    assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event);
}

#[test]
fn an_outcome_is_shown_with_the_word_that_stands_in_json() {
    fn check<T: std::fmt::Display + serde::Serialize>(outcomes: &[T]) {
        for outcome in outcomes {
            let word = serde_json::to_value(outcome).unwrap();
            assert_eq!(word, serde_json::Value::from(outcome.to_string()));
        }
    }
    check(&[
        StateOutcome::Kept,
        StateOutcome::Restored,
        StateOutcome::Ended,
    ]);
    check(&[
        CheckpointStatus::Armed,
        CheckpointStatus::Behind,
        CheckpointStatus::Unavailable,
    ]);
    check(&[ToolOutcome::Ok, ToolOutcome::Error, ToolOutcome::Unanswered]);
}
