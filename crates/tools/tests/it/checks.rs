//! T4 and T5: arguments are checked before a tool sees them.

use crate::support::{WeatherQueryTool, failure, output, runner, wait};
use cellblock_tools::{Call, ToolRunner};
use serde_json::{Value, json};

fn weather() -> ToolRunner {
    runner(WeatherQueryTool)
}

/// What the tool was given.
fn given(arguments: Value) -> String {
    let structured = output(&weather(), arguments).structured.unwrap();
    structured["text"].as_str().unwrap().to_owned()
}

#[test]
fn t5_what_is_wrong_is_named_with_what_was_expected_and_what_came() {
    let weather = weather();
    for (arguments, problems) in [
        (json!({}), "missing field `city`: expected a text"),
        (
            json!({"city": ["Oslo"]}),
            "`city`: expected a text, got a list of 1",
        ),
        (
            json!({"city": "Oslo", "days": "soon"}),
            "`days`: expected a whole number, got \"soon\"",
        ),
        (
            json!({"city": "Oslo", "days": 2.5}),
            "`days`: expected a whole number, got 2.5",
        ),
        (
            json!({"city": "Oslo", "days": 15}),
            "`days`: expected a number of at most 14, got 15",
        ),
        (
            json!({"city": "Oslo", "unit": "K"}),
            "`unit`: expected one of \"C\", \"F\", got \"K\"",
        ),
        (
            json!({"city": "Oslo", "when": "now"}),
            "unknown field `when`; the fields are city, days, unit, near",
        ),
        (
            json!({"city": "Oslo", "near": [{"x": 1, "y": 2}, {"x": 1}]}),
            "missing field `near[1].y`: expected a number",
        ),
        (
            json!({"city": "Oslo", "near": [{"x": 1, "y": 2, "z": 3}]}),
            "unknown field `near[0].z`; the fields are x, y, exact",
        ),
        (
            json!({"city": "Oslo", "near": "here"}),
            "`near`: expected a list or null, got \"here\"",
        ),
    ] {
        assert_eq!(
            failure(&weather, arguments),
            format!("the arguments of `weather_query` do not fit: {problems}")
        );
    }
}

#[test]
fn t5_one_message_names_everything_that_is_wrong() {
    let message = failure(&weather(), json!({"days": 0, "color": "red"}));
    for part in [
        "missing field `city`",
        "`days`: expected a number of at least 1, got 0",
        "unknown field `color`",
    ] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn t5_what_can_be_converted_without_loss_is() {
    for (arguments, text) in [
        (
            json!({"city": "Oslo", "days": "6"}),
            r#"WeatherQuery { city: "Oslo", days: 6, unit: C, near: None }"#,
        ),
        (
            json!({"city": "Oslo", "days": 6.0}),
            r#"WeatherQuery { city: "Oslo", days: 6, unit: C, near: None }"#,
        ),
        (
            json!({"city": 7}),
            r#"WeatherQuery { city: "7", days: 3, unit: C, near: None }"#,
        ),
        (
            json!({"city": "Oslo", "near": "[{\"x\": \"1.5\", \"y\": \"-2\", \"exact\": \"true\"}]"}),
            r#"WeatherQuery { city: "Oslo", days: 3, unit: C, near: Some([Place { x: 1.5, y: -2.0, exact: Some(true) }]) }"#,
        ),
    ] {
        assert_eq!(given(arguments), text);
    }
}

#[test]
fn t5_what_would_lose_something_is_not_converted() {
    for days in [
        json!("06"),
        json!(" 6"),
        json!("6.5"),
        json!("1e1"),
        json!(true),
    ] {
        let message = failure(&weather(), json!({"city": "Oslo", "days": days}));
        assert!(
            message.contains("`days`: expected a whole number"),
            "{message}"
        );
    }
    // A text that is wanted as a text stays one.
    assert!(given(json!({"city": "60"})).contains(r#"city: "60""#));
}

#[test]
fn t4_a_model_must_say_why_and_others_need_not() {
    let weather = weather();
    let by_model =
        |arguments: Value| wait(weather.call(Call::by_model("1", "weather_query", arguments)));
    assert_eq!(
        by_model(json!({"city": "Oslo"}))
            .outcome
            .unwrap_err()
            .to_string(),
        "the arguments of `weather_query` do not fit: missing field `tool_call_purpose`: expected a text that says why you call"
    );
    let both = by_model(json!({"days": "x"}))
        .outcome
        .unwrap_err()
        .to_string();
    assert!(
        both.contains("tool_call_purpose") && both.contains("`city`") && both.contains("`days`"),
        "{both}"
    );
    let purposeful = json!({"city": "Oslo", "tool_call_purpose": "to know what to wear"});
    assert!(by_model(purposeful.clone()).is_ok());
    assert!(wait(weather.call(Call::by_user("weather_query", purposeful))).is_ok());
    assert!(wait(weather.call(Call::by_user("weather_query", json!({"city": "Oslo"})))).is_ok());
}

#[test]
fn a_message_is_short_however_long_the_value() {
    let message = failure(
        &weather(),
        json!({"city": "Oslo", "unit": "K".repeat(1_000_000)}),
    );
    assert!(message.len() < 300, "{} bytes", message.len());
    let names: serde_json::Map<String, Value> = (0..1000)
        .map(|n| (format!("{n:0>200}"), json!(n)))
        .collect();
    let message = failure(&weather(), names);
    assert!(message.len() < 2000, "{} bytes", message.len());
}
