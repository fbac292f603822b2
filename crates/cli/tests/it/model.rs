//! Models that the user did not name, and models of this machine.

use crate::fake_model::FakeModel;
use crate::snapshot::transcript;
use crate::support::{Ended, Place};
use std::fs;
use std::process::Stdio;

/// Runs a command in a place with a cache of its own, where no model is.
fn run(place: &Place, arguments: &[&str], variables: &[(&str, &str)]) -> Ended {
    let mut command = place.command(arguments);
    command.env("XDG_CACHE_HOME", place.path().join("cache"));
    command.envs(variables.iter().copied()).stdin(Stdio::null());
    let output = command.output().unwrap();
    Ended {
        status: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// What a person sees of a command where no model is.
fn seen(place: &Place, arguments: &[&str]) -> String {
    transcript(place, arguments, "", &run(place, arguments, &[]))
}

#[test]
fn a_model_of_a_server_on_this_machine_is_found_and_named() {
    let model = FakeModel::saying(["```python\nfinal_answer(6 * 7)\n```"]);
    let place = Place::new();
    let arguments = ["ask", "6 times 7?", "--stdlib", "--format", "markdown"];
    let ended = run(
        &place,
        &arguments,
        &[("CELLBLOCK_LOCAL_SERVERS", &model.url)],
    );
    assert_eq!(
        (ended.status, ended.stdout.as_str()),
        (0, "42\n"),
        "{}",
        ended.stderr
    );
    let line = format!("model fake (the server on this machine, {})\n", model.url);
    assert!(ended.stderr.starts_with(&line), "{}", ended.stderr);
    assert_eq!(model.asked()[0]["model"], "fake");
}

#[test]
fn without_any_model_the_three_ways_to_one_are_said_in_four_lines() {
    insta::assert_snapshot!(seen(&Place::new(), &["ask", "Why?", "--stdlib"]));
}

#[test]
fn models_that_cannot_be_had_are_refused_with_what_to_do() {
    let place = Place::new();
    fs::write(place.path().join("notes.gguf"), "some notes").unwrap();
    let shown = [
        &["model", "get", "notes.gguf"][..],
        &["model", "get", "nowhere"],
        &["model", "get", "https://example.org/a.gguf"],
        &["model", "remove", "nowhere"],
        &["model", "serve"],
        &["ask", "?", "--model", "local:nowhere"],
    ]
    .map(|arguments| seen(&place, arguments));
    insta::assert_snapshot!(shown.concat());
}

#[test]
fn the_list_shows_what_is_here_and_what_can_be_had() {
    let place = Place::new();
    let listed = run(&place, &["model", "list"], &[]);
    assert_eq!(
        listed.stdout,
        "qwen2.5-coder-1.5b          1.1 GB  to get  Qwen2.5-Coder-1.5B-Instruct, 4 bit, Apache-2.0, from Python packages\n"
    );
    let directory = place.path().join("cache/cellblock/models/mine");
    fs::create_dir_all(&directory).unwrap();
    let weights = directory.join("weights.gguf");
    fs::write(&weights, "GGUF").unwrap();
    let entry = format!(
        r#"{{"name": "mine", "weights": "{}", "bytes": 4, "sha256": ""}}"#,
        weights.display()
    );
    fs::write(directory.join("model.json"), entry).unwrap();
    let listed = run(&place, &["model", "list"], &[]).stdout;
    assert!(listed.starts_with("mine  "), "{listed}");
    let status = run(&place, &["model", "status", "--json"], &[]);
    assert_eq!(status.stdout, "[]\n");
    let removed = run(&place, &["model", "remove", "mine"], &[]);
    assert_eq!(removed.status, 0, "{}", removed.stderr);
    assert!(!directory.exists());
}
