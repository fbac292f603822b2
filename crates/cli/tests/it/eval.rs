//! `cellblock eval` with an endpoint that says what it was told to say. The code really runs.

use crate::fake_model::FakeModel;
use crate::support::{Ended, Place};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

const SUITE: &str = r#"
name = "small"
files = { "n.txt" = "1 2 3" }

[[tasks]]
name = "sum"
question = "What is the sum of the numbers in n.txt?"
files = ["n.txt"]
checks = [{ check = "number", value = 6 }]

[[tasks]]
name = "backwards"
question = "Hand in the secret backwards."
secret = "NcS9euQa"
tools = ["get_secret", "provide_answer"]
checks = [{ check = "called", tool = "provide_answer", arguments = { answer = "aQue9ScN" } }]
"#;

const SUM: &str = "```python\nprint(sum(map(int, open('n.txt').read().split())))\n```";
const BACKWARDS: &str = "```python\nsecret = get_secret()\nprovide_answer(secret[::-1])\n```";
const GUESS: &str = "aQueu9ScN";

fn place() -> Place {
    let place = Place::new();
    fs::write(place.path().join("suite.toml"), SUITE).unwrap();
    place
}

fn eval(place: &Place, model: &FakeModel, more: &[&str]) -> Ended {
    let mut arguments = vec!["eval", "suite.toml", "--stdlib", "--model", "fake"];
    arguments.extend(["--base-url", &model.url, "--format", "markdown"]);
    arguments.extend(more);
    place.run(arguments)
}

/// What a person sees of an evaluation.
fn seen(place: &Place, model: &FakeModel, more: &[&str]) -> String {
    let mut arguments = vec!["eval", "suite.toml", "--stdlib", "--model", "fake"];
    arguments.extend(["--base-url", &model.url, "--format", "markdown"]);
    arguments.extend(more);
    without_seconds(&place.transcript(arguments))
}

fn json(place: &Place, file: &str) -> Value {
    let text = fs::read_to_string(place.path().join(file)).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The scores without times, which differ.
fn without_seconds(text: &str) -> String {
    let lines = text.lines().map(|line| match line.rsplit_once(' ') {
        Some((before, number))
            if number.parse::<f64>().is_ok()
                && number.contains('.')
                && !line.starts_with("score before") =>
        {
            before.trim_end()
        }
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_scores_go_to_standard_output_and_to_a_file() {
    let place = place();
    let model = FakeModel::saying([SUM, "6", GUESS]);
    insta::assert_snapshot!(seen(&place, &model, &["--json", "results.json"]));
    let results = json(&place, "results.json");
    assert_eq!(results["totals"]["score"], 0.5);
    assert_eq!(results["tasks"][1]["answer"], GUESS);
    assert_eq!(results["complete"], true);
}

#[test]
fn a_score_that_is_too_low_ends_with_1() {
    let place = place();
    let low = eval(
        &place,
        &FakeModel::saying([SUM, "6", GUESS]),
        &["--min-score", "0.6"],
    );
    assert_eq!(low.status, 1, "{}", low.stderr);
    let high = FakeModel::saying([SUM, "6", BACKWARDS, "done"]);
    let high = eval(&place, &high, &["--min-score", "1"]);
    assert_eq!(high.status, 0, "{}", high.stderr);
}

#[test]
fn a_task_that_became_worse_is_named() {
    let place = place();
    let before = FakeModel::saying([SUM, "6", BACKWARDS, "done"]);
    eval(&place, &before, &["--json", "before.json"]);
    let now = FakeModel::saying([SUM, "6", GUESS]);
    insta::assert_snapshot!(seen(&place, &now, &["--compare", "before.json"]));
}

#[test]
fn what_was_recorded_is_played_again() {
    let place = place();
    let model = FakeModel::saying([SUM, "6", BACKWARDS, "done"]);
    let recorded = ["--record", "tapes", "--source", "a model of the tests"];
    let first = eval(&place, &model, &recorded);
    assert_eq!(first.status, 0, "{}", first.stderr);
    let replay = "eval suite.toml --stdlib --format markdown --replay tapes --jobs 2 --min-score 1 --json again.json";
    let again = place.run(replay.split(' '));
    assert_eq!(again.status, 0, "{}", again.stderr);
    assert_eq!(
        without_seconds(&again.stdout),
        without_seconds(&first.stdout)
    );
    let results = json(&place, "again.json");
    assert_eq!(
        (&results["source"], &results["model"]),
        (&"a model of the tests".into(), &"fake".into())
    );
    // A recording is never written over.
    let twice = seen(&place, &model, &recorded);
    // Another task has no recording, and the others still count.
    fs::remove_file(place.path().join("tapes/sum.jsonl")).unwrap();
    // One task after the other, so that what is said of them has one order.
    let replay = replay.replace("--jobs 2", "--jobs 1");
    let less = without_seconds(&place.transcript(replay.split(' ')));
    insta::assert_snapshot!(twice + "\n\n" + &less);
}

#[test]
fn a_model_alone_is_asked_once() {
    let place = place();
    let model = FakeModel::saying(["The sum is 6.", GUESS]);
    let plain = seen(&place, &model, &["--plain", "--json", "plain.json"]);
    let table = place.transcript(["eval", "table", "plain.json"]);
    insta::assert_snapshot!(plain + "\n\n" + &table);
}

#[test]
fn one_task_can_be_run_alone() {
    let place = place();
    let model = FakeModel::saying([BACKWARDS, "done"]);
    let only = |task: &str| seen(&place, &model, &["--only", task]) + "\n\n";
    insta::assert_snapshot!(only("backwards") + &only("forwards"));
}

#[test]
fn ctrl_c_leaves_a_whole_record() {
    let place = place();
    let model = FakeModel::saying([
        SUM,
        "6",
        "```python\nimport time\ntime.sleep(25)\n```",
        "done",
    ]);
    let mut command = place.command([
        "eval",
        "suite.toml",
        "--stdlib",
        "--model",
        "fake",
        "--base-url",
        &model.url,
        "--format",
        "markdown",
        "--json",
        "results.json",
    ]);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let results = place.path().join("results.json");
    wait_for(&results);
    std::thread::sleep(Duration::from_millis(700));
    let process = child.id().to_string();
    let begun = Instant::now();
    let status = std::process::Command::new("kill")
        .args(["-INT", &process])
        .status();
    assert!(status.unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!(output.status.code(), Some(130));
    let results = json(&place, "results.json");
    assert_eq!(results["complete"], false);
    assert_eq!(results["tasks"][0]["passed"], true);
    assert_eq!(results["tasks"][1]["status"], "cancelled");
}

fn wait_for(file: &Path) {
    let begun = Instant::now();
    while !file.exists() {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{} never came",
            file.display()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn mistakes_are_told_before_anything_runs() {
    let place = place();
    fs::write(place.path().join("bad.toml"), "name = \"x\"\ntasks = []").unwrap();
    let shown = [
        "eval none.toml --model m",
        "eval bad.toml --model m",
        "eval suite.toml",
        "eval suite.toml --model m --min-score 2",
        "eval suite.toml --model m --compare none.json",
        "eval suite.toml --model m --replay x",
        "eval table",
        "eval table suite.toml",
    ]
    .map(|line| place.transcript(line.split(' ')));
    insta::assert_snapshot!(shown.concat());
}

#[test]
fn the_table_has_the_cost_where_prices_are_known() {
    let place = place();
    let settings = "[model]\ncapabilities = { prices = { input = 1000, output = 2000 } }\n";
    fs::write(place.path().join("priced.toml"), settings).unwrap();
    let model = FakeModel::saying([SUM, "6"]);
    let more = [
        "--config",
        "priced.toml",
        "--only",
        "sum",
        "--json",
        "r.json",
    ];
    insta::assert_snapshot!(seen(&place, &model, &more));
    let cost = json(&place, "r.json")["totals"]["cost"].as_f64().unwrap();
    let usage = &json(&place, "r.json")["totals"]["usage"];
    let tokens = |name: &str| usage[name].as_f64().unwrap();
    let expected = (tokens("input_tokens") + 2.0 * tokens("output_tokens")) / 1000.0;
    assert!((cost - expected).abs() < 1e-9, "{cost} {expected}");
}

#[test]
fn tasks_have_the_tools_of_a_folder_and_several_tries() {
    let place = Place::new();
    fs::create_dir(place.path().join("mine")).unwrap();
    let tool = "def celsius(city: str) -> float:\n    return {'Oslo': 4.5}[city]\n";
    fs::write(place.path().join("mine/weather.py"), tool).unwrap();
    let suite = "name = 'w'\n[[tasks]]\nname = 'oslo'\nquestion = 'How warm is it in Oslo?'\n\
                 checks = [{ check = 'number', value = 4.5 }]\n";
    fs::write(place.path().join("suite.toml"), suite).unwrap();
    let code = "```python\nprint(celsius('Oslo'))\n```";
    let model = FakeModel::saying([code, "4.5", code, "9"]);
    let more = ["--tools-dir", "mine", "--tries", "2", "--json", "r.json"];
    let ended = eval(&place, &model, &more);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    let results = json(&place, "r.json");
    let task = &results["tasks"][0];
    assert_eq!(
        (
            &results["totals"]["score"],
            &task["passed"],
            &task["answer"]
        ),
        (&0.5.into(), &false.into(), &"9".into())
    );
}
