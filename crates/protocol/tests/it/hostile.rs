//! What the fuzz target looks for, in the small: nothing that comes from outside can bring the host down.

use cellblock_protocol::guest::FromHead;
use cellblock_protocol::pipe::parse_line;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value};

/// Any JSON, with the words of the protocol in it more often than chance would have it.
fn json() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just("t"),
        Just("op"),
        Just("id"),
        Just("session"),
        Just("done"),
        Just("run"),
        Just("code"),
        Just("cell"),
        Just("answer"),
        Just("seq"),
        Just("error"),
        Just("value"),
        Just("mime"),
        Just("open"),
        Just("limits"),
        Just("memory"),
        Just("seed"),
        Just("tools"),
        Just("timeout"),
        Just("variables"),
        Just("frames"),
    ];
    let text = prop_oneof![word.prop_map(str::to_owned), ".{0,12}"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 8, move |inner| {
        let entries = vec((text.clone(), inner.clone()), 0..8);
        prop_oneof![
            vec(inner, 0..8).prop_map(Value::from),
            entries.prop_map(|entries| Value::Object(Map::from_iter(entries))),
        ]
    })
}

proptest! {
    #[test]
    fn any_bytes_are_a_frame_or_an_error(body in vec(any::<u8>(), 0..200)) {
        _ = FromHead::parse(&body);
    }

    #[test]
    fn any_bytes_are_a_request_or_an_error(line in vec(any::<u8>(), 0..200)) {
        _ = parse_line(&line);
    }

    #[test]
    fn any_json_is_a_frame_or_an_error(value in json()) {
        if let Ok(FromHead::Reply(reply)) = FromHead::parse(value.to_string().as_bytes()) {
            _ = (reply.clone().done(), reply.clone().variables(), reply.clone().inspection(), reply.computed());
        }
    }

    #[test]
    fn any_json_is_a_request_or_an_error_that_can_be_sent(value in json()) {
        if let Err(error) = parse_line(value.to_string().as_bytes()) {
            prop_assert!(!error.message.is_empty());
            prop_assert!(error.message.len() < 2000, "{}", error.message);
        }
    }

    #[test]
    fn any_operation_with_any_fields_is_a_request_or_an_error(
        op in proptest::sample::select(cellblock_protocol::pipe::Operation::NAMES),
        fields in vec((proptest::sample::select(vec!["code", "timeout", "n", "path", "base64", "call", "result", "text", "tools", "variables", "name", "cell", "stream", "offset"]), json()), 0..5),
    ) {
        let mut map = Map::from_iter(fields.into_iter().map(|(name, value)| (name.to_owned(), value)));
        map.insert("op".to_owned(), Value::from(op));
        _ = parse_line(Value::Object(map).to_string().as_bytes());
    }
}
