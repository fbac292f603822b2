//! T6 and T9: every call has an answer, whatever happens in it.

use crate::support::{WeatherQueryTool, call, failure, output, runner, wait};
use cellblock_protocol::Locale;
use cellblock_tools::{
    Call, CallLimits, Context, Json, Output, Part, Registry, Tool, ToolError, ToolRunner, Uses,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Barrier;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

#[derive(Deserialize, JsonSchema)]
struct Deed {
    kind: String,
}

/// Does what it is told, good or bad.
#[derive(Default)]
struct DeedTool {
    limit: Option<Duration>,
}

impl Tool for DeedTool {
    type Parameters = Deed;
    type Output = Output;

    fn time_limit(&self) -> Option<Duration> {
        self.limit
    }

    async fn call(&self, deed: Deed, _: &Context) -> Result<Output, ToolError> {
        match deed.kind.as_str() {
            "panic" => panic!("the deed went wrong at {}", 7),
            "sleep" => tokio::time::sleep(Duration::from_secs(600)).await,
            "block" => std::thread::sleep(Duration::from_millis(1500)),
            "big" => return Ok(Output::text("x".repeat(20 << 20))),
            "odd" => return Ok(Output::blob("text/plain", &b"caf\xe9 \xff"[..])),
            "parse" => {
                let number: i32 = "x".parse()?;
                return Ok(Output::json(number));
            }
            _ => {}
        }
        Ok(Output::text("done"))
    }
}

fn deed(kind: &str) -> String {
    deed_within(None, kind)
}

fn deed_within(limit: Option<Duration>, kind: &str) -> String {
    let runner = runner(DeedTool { limit });
    let message = failure(&runner, json!({"kind": kind}));
    // The runner goes on.
    assert_eq!(
        output(&runner, json!({"kind": "good"})),
        Output::text("done")
    );
    message
}

#[test]
fn t6_an_unknown_tool_is_answered_with_those_there_are() {
    let answer = wait(runner(WeatherQueryTool).call(Call::by_user("wether", "{}")));
    assert_eq!(
        answer.for_model(Locale::En, 1000),
        "Tool call failed: there is no tool `wether`; the tools are weather_query"
    );
    assert_eq!(
        answer.for_model(Locale::Zh, 1000),
        "工具函数调用失败, 错误信息: 没有工具 `wether`; 可用的工具是 weather_query"
    );
}

#[test]
fn t6_arguments_that_are_no_json_object_are_named() {
    let weather = runner(WeatherQueryTool);
    for (text, problem) in [
        (
            "{\"city\": ",
            "EOF while parsing a value at line 1 column 9",
        ),
        ("city=Oslo", "expected value at line 1 column 1"),
        ("[1]", "it is a list"),
        ("\"Oslo\"", "it is a text"),
        (
            &format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000)),
            "it is nested deeper than 128 levels",
        ),
    ] {
        assert_eq!(
            failure(&weather, text),
            format!("the arguments of `weather_query` are not a JSON object: {problem}")
        );
    }
}

#[test]
fn arguments_that_are_nested_too_deep_are_refused_also_when_they_come_as_values() {
    let mut deep = json!("bottom");
    for _ in 0..1_000 {
        deep = Value::Array(vec![deep]);
    }
    let message = failure(&runner(WeatherQueryTool), json!({"city": deep}));
    assert_eq!(
        message,
        "the arguments of `weather_query` are not a JSON object: it is nested deeper than 128 levels"
    );
}

#[test]
fn arguments_of_ten_megabytes_are_checked_and_of_more_than_the_limit_refused() {
    let weather = runner(WeatherQueryTool);
    let city = "x".repeat(10_000_000);
    assert!(call(&weather, json!({"city": city}).to_string()).is_ok());
    let city = "x".repeat(20_000_000);
    for arguments in [
        json!({"city": city}).to_string().into(),
        json!({"city": city}).into(),
    ] {
        let answer: cellblock_tools::Arguments = arguments;
        let message = failure(&weather, answer);
        assert!(
            message.starts_with("the arguments of `weather_query` would be 200000")
                && message.ends_with(" bytes, and at most 16777216 are allowed"),
            "{message}"
        );
    }
}

#[test]
fn t6_a_panic_is_an_answer() {
    assert_eq!(deed("panic"), "`deed` broke down: the deed went wrong at 7");
}

#[test]
fn t6_a_tool_that_hangs_is_given_up() {
    let message = "`deed` did not answer within 0.3 s and was given up";
    let limit = Some(Duration::from_millis(300));
    assert_eq!(deed_within(limit, "sleep"), message);
    // Also one that blocks the thread it is called on.
    assert_eq!(deed_within(limit, "block"), message);
}

#[test]
fn t6_an_error_of_the_tool_is_its_answer() {
    assert_eq!(deed("parse"), "invalid digit found in string");
}

#[test]
fn a_result_that_is_too_large_is_refused_and_says_how_large_it_was() {
    assert_eq!(
        deed("big"),
        "the result of `deed` would be 20971520 bytes, and at most 16777216 are allowed"
    );
}

#[test]
fn a_result_that_is_no_text_stays_as_it_is() {
    let answer = call(&runner(DeedTool::default()), json!({"kind": "odd"}));
    assert_eq!(answer.for_model(Locale::En, 100), "[text/plain, 6 bytes]");
    let parts: Vec<&Part> = answer.attachments().collect();
    assert_eq!(parts, [&Part::blob("text/plain", &b"caf\xe9 \xff"[..])]);
}

#[derive(Serialize, JsonSchema)]
struct Measured {
    value: f64,
}

struct MeasureTool(f64);

impl Tool for MeasureTool {
    type Parameters = Nothing;
    type Output = Json<Measured>;

    async fn call(&self, _: Nothing, _: &Context) -> Result<Json<Measured>, ToolError> {
        Ok(Json(Measured { value: self.0 }))
    }
}

#[test]
fn a_result_is_checked_against_the_schema_of_its_type() {
    assert_eq!(
        output(&runner(MeasureTool(1.5)), ""),
        Output::json(json!({"value": 1.5}))
    );
    // JSON has no such number, and null is not what was promised.
    assert_eq!(
        failure(&runner(MeasureTool(f64::NAN)), ""),
        "`measure` returned something that its own schema forbids: `value`: expected a number, got null"
    );
}

#[test]
fn a_long_text_loses_its_middle_for_the_model() {
    struct LongTool;
    impl Tool for LongTool {
        type Parameters = Nothing;
        type Output = String;
        async fn call(&self, _: Nothing, _: &Context) -> Result<String, ToolError> {
            Ok(format!("{}{}", "ä".repeat(50), "z".repeat(50)))
        }
    }
    let answer = call(&runner(LongTool), "");
    assert_eq!(
        answer.for_model(Locale::En, 20),
        "ääääääääää\n[… 80 characters left out …]\nzzzzzzzzzz"
    );
}

struct MeetTool(Arc<Barrier>);

impl Tool for MeetTool {
    type Parameters = Nothing;
    type Output = &'static str;

    async fn call(&self, _: Nothing, _: &Context) -> Result<&'static str, ToolError> {
        // Nobody comes through alone.
        self.0.wait().await;
        Ok("met")
    }
}

#[test]
fn t9_calls_run_side_by_side_all_run_although_one_fails_and_the_answers_are_in_order() {
    let registry = Registry::builder()
        .tool(MeetTool(Arc::new(Barrier::new(100))))
        .tool(DeedTool::default());
    let runner = ToolRunner::new(registry.build().unwrap());
    let mut calls: Vec<Call> = (0..100).map(|_| Call::by_user("meet", "{}")).collect();
    calls.insert(1, Call::by_user("deed", "{\"kind\": \"panic\"}"));
    let answers = wait(runner.call_all(calls));
    assert_eq!(answers.len(), 101);
    assert_eq!(answers[1].name, "deed");
    assert!(!answers[1].is_ok());
    assert!(
        answers
            .iter()
            .filter(|answer| answer.name == "meet")
            .all(|answer| answer.is_ok())
    );
}

/// Counts how many of its calls run at the same time.
#[derive(Clone, Default)]
struct AloneTool {
    inside: Arc<AtomicUsize>,
    order: Arc<std::sync::Mutex<Vec<u64>>>,
}

#[derive(Deserialize, JsonSchema)]
struct Numbered {
    number: u64,
}

impl Tool for AloneTool {
    type Parameters = Numbered;
    type Output = usize;

    fn uses(&self) -> Uses {
        Uses::Interpreter
    }

    async fn call(&self, numbered: Numbered, _: &Context) -> Result<usize, ToolError> {
        let others = self.inside.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(10 - numbered.number)).await;
        self.inside.fetch_sub(1, Ordering::SeqCst);
        self.order.lock().unwrap().push(numbered.number);
        Ok(others)
    }
}

#[test]
fn t9_calls_into_one_session_run_in_order() {
    let alone = AloneTool::default();
    let runner = runner(alone.clone());
    let calls = (0..8).map(|number| Call::by_user("alone", json!({"number": number})));
    let answers = wait(runner.call_all(calls));
    assert!(
        answers
            .iter()
            .all(|answer| answer.outcome == Ok(Output::json(0)))
    );
    assert_eq!(*alone.order.lock().unwrap(), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn a_call_that_nobody_waits_for_any_more_is_stopped() {
    struct StayTool(Arc<AtomicUsize>);
    struct Leaving(Arc<AtomicUsize>);
    impl Drop for Leaving {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    impl Tool for StayTool {
        type Parameters = Nothing;
        type Output = ();
        async fn call(&self, _: Nothing, _: &Context) -> Result<(), ToolError> {
            let _leaving = Leaving(Arc::clone(&self.0));
            std::future::pending().await
        }
    }
    let left = Arc::new(AtomicUsize::new(0));
    let runner = runner(StayTool(Arc::clone(&left)));
    let gone = wait(async {
        tokio::time::timeout(
            Duration::from_millis(50),
            runner.call(Call::by_user("stay", "{}")),
        )
        .await
    });
    assert!(gone.is_err());
    let seen = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        left.load(Ordering::SeqCst) == 1
    });
    assert!(seen, "the tool goes on");
}

#[test]
fn limits_can_be_set() {
    let registry = Registry::builder().tool(WeatherQueryTool).build().unwrap();
    let limits = CallLimits {
        max_bytes: 20,
        ..CallLimits::default()
    };
    let runner = ToolRunner::builder(registry).limits(limits).build();
    assert_eq!(
        failure(&runner, json!({"city": "a city with a long name"})),
        "the arguments of `weather_query` would be 33 bytes, and at most 20 are allowed"
    );
}

#[test]
fn tools_remember_from_call_to_call_of_one_run_only() {
    struct CountTool;
    impl Tool for CountTool {
        type Parameters = Nothing;
        type Output = u64;
        async fn call(&self, _: Nothing, context: &Context) -> Result<u64, ToolError> {
            let state = context.state::<u64>();
            let mut count = state.lock().unwrap();
            *count += 1;
            Ok(*count)
        }
    }
    let registry = Registry::builder().tool(CountTool).build().unwrap();
    let (one, other) = (ToolRunner::new(registry.clone()), ToolRunner::new(registry));
    let count = |runner: &ToolRunner| output(runner, "").structured.unwrap();
    assert_eq!(
        (count(&one), count(&one), count(&other)),
        (Value::from(1), Value::from(2), Value::from(1))
    );
}
