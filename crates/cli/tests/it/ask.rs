//! `cellblock ask`: the answer, its checks and its record, with an endpoint that says what it was told to say. The code really runs.

use crate::fake_model::{FakeModel, Said};
use crate::support::{DEAF, Ended, Place};
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

const WRONG: &str =
    "I use the formula.\n```python\nround(principle * (1 + 0.06 / 2) ** (2 * 6), 2)\n```";
const RIGHT: &str = "The name was wrong.\n```python\nprincipal = 15000\nprint(round(principal * (1 + 0.06 / 2) ** (2 * 6), 2))\n```";

/// What a person sees of a question.
pub fn asked(place: &Place, model: &FakeModel, more: &[&str]) -> String {
    place.transcript(arguments(model, more))
}

/// Asks a question and waits for its end.
pub fn ask(place: &Place, model: &FakeModel, more: &[&str]) -> Ended {
    place.run(arguments(model, more))
}

/// The command line of a question to this model.
pub fn arguments<'a>(model: &'a FakeModel, more: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec![
        "ask",
        "--stdlib",
        "--model",
        "fake",
        "--base-url",
        &model.url,
        "--format",
        "markdown",
    ];
    arguments.extend(more);
    arguments
}

#[test]
fn the_answer_goes_to_standard_output_and_the_way_there_to_standard_error() {
    let model = FakeModel::saying([WRONG, RIGHT, "21386.41"]);
    let question = "What do 15000 become at 6 % compounded semi-annually for 6 years?";
    insta::assert_snapshot!(asked(&Place::new(), &model, &[question]));
}

#[test]
fn with_the_locale_zh_the_labels_are_chinese() {
    let model = FakeModel::saying([RIGHT, "21386.41"]);
    insta::assert_snapshot!(asked(&Place::new(), &model, &["?", "--locale", "zh"]));
}

#[test]
fn a_session_that_is_not_armed_any_more_is_told_of_before_the_next_code() {
    let deaf = format!("```python\n{DEAF}```");
    let replies = [Said::Text(deaf), Said::Hangs("data: ".to_owned())];
    let model = FakeModel::doing(replies);
    let place = Place::new();
    let mut command = place.command(arguments(&model, &["Begin."]));
    let mut asking = command.stderr(Stdio::piped()).spawn().unwrap();
    let notice = "not armed: there is no checkpoint of the last 1 cell, which would have to run again after a crash: a thread cannot be copied (deaf): it blocks all signals";
    let lines = BufReader::new(asking.stderr.take().unwrap()).lines();
    // The model does not answer any more, so without the notice the command would end by its own time limit only.
    let found = lines.map_while(Result::ok).any(|line| line == notice);
    asking.kill().unwrap();
    asking.wait().unwrap();
    assert!(found);
}

#[test]
fn that_a_session_is_not_armed_is_told_once_with_the_thread_that_is_why() {
    let deaf = format!("```python\n{DEAF}```");
    let model = FakeModel::saying([&deaf, "```python\nx = 7\n```", "Done."]);
    let said = ask(&Place::new(), &model, &["Begin."]).stderr;
    assert_eq!(said.matches("not armed: ").count(), 1, "{said}");
    let reason = "a thread cannot be copied (deaf): it blocks all signals";
    assert_eq!(said.matches(reason).count(), 1, "{said}");
}

#[test]
fn every_event_is_a_line_of_json() {
    let model = FakeModel::saying([WRONG, RIGHT, "21386.41"]);
    let ended = ask(&Place::new(), &model, &["?", "--json"]);
    let events: Vec<Value> = ended
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""));
    let (first, last) = (events.first().unwrap(), events.last().unwrap());
    assert_eq!(
        (&first["event"], &first["model"]),
        (&Value::from("begun"), &Value::from("fake"))
    );
    assert_eq!(
        (&last["outcome"]["status"], &last["outcome"]["answer"]),
        (&Value::from("answered"), &Value::from("21386.41"))
    );
    assert_eq!(last["outcome"]["usage"]["input_tokens"], 300);
}

#[test]
fn a_schema_and_a_check_guard_the_answer() {
    let place = Place::new();
    fs::write(place.path().join("schema.json"), r#"{"type": "integer"}"#).unwrap();
    let model = FakeModel::saying(["```python\nprint(17 + 25)\n```", "forty-two", "43"]);
    let flags = ["17 + 25?", "--schema", "schema.json", "--verify", "--quiet"];
    insta::assert_snapshot!(asked(&place, &model, &flags));
}

#[test]
fn a_wrong_answer_in_plain_words_is_unverified() {
    let model = FakeModel::saying(["```python\nprint(17 + 25)\n```", "17 + 25 is 43."]);
    insta::assert_snapshot!(asked(&Place::new(), &model, &["17 + 25?", "--verify"]));
}

#[test]
fn an_answer_that_was_verified_says_so() {
    let model = FakeModel::saying(["```python\nprint(17 + 25)\n```", "42"]);
    insta::assert_snapshot!(asked(&Place::new(), &model, &["17 + 25?", "--verify"]));
}

#[test]
fn a_run_without_an_answer_says_why_and_its_status_tells() {
    let model = FakeModel::saying(["```python\nprint(1)\n```"]);
    let flags = ["?", "--max-steps", "2", "--quiet"];
    insta::assert_snapshot!(asked(&Place::new(), &model, &flags));
}

#[test]
fn code_that_needs_approval_is_not_run_where_nobody_can_be_asked() {
    let model = FakeModel::saying(["```python\nprint(1)\n```", "no"]);
    insta::assert_snapshot!(asked(&Place::new(), &model, &["?", "--approve", "code"]));
}

#[test]
fn without_a_model_and_without_a_key_one_is_told_what_to_do() {
    let place = Place::new();
    let shown = [
        &["ask", "?"][..],
        &["ask", "?", "--model", "gpt-4o"],
        &["ask", " ", "--model", "gpt-4o"],
    ]
    .map(|arguments| place.transcript(arguments));
    insta::assert_snapshot!(shown.concat());
}

#[test]
fn a_run_is_kept_shown_traced_and_removed() {
    let place = Place::new();
    let model = FakeModel::saying([WRONG, RIGHT, "21386.41"]);
    let mut shown = asked(&place, &model, &["How much?", "--quiet"]);
    shown += &place.transcript(["runs"]);
    shown += &place.transcript(["runs", "show", "last"]);
    // The numbers of a trace differ from run to run, and with them the widths of its columns.
    let traced = place.run(["trace", "last"]);
    for name in ["run", "model_call", "cell"] {
        assert!(traced.stdout.contains(name), "{}", traced.stdout);
    }
    shown += &place.transcript(["runs", "remove", "last"]);
    shown += &place.transcript(["runs"]);
    shown += &place.transcript(["runs", "show", "nothing"]);
    insta::assert_snapshot!(shown);
}
