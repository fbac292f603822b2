//! Bad input and bad luck: whatever the model or its endpoint does, `ask` ends with a status and a message, and the record of the run is whole.

use crate::fake_model::{FakeModel, Said, delta, finish};
use crate::snapshot::transcript;
use crate::support::{CELLBLOCK, Ended, Place};
use serde_json::{Value, json};
use std::process::Command;

/// Asks an endpoint that does these things. What a person sees; the record must be whole, and tell the same end.
fn ask(said: impl IntoIterator<Item = Said>, more: &[&str]) -> String {
    let model = FakeModel::doing(said);
    ask_at(&model.url, more).0
}

/// What a person sees of a question to this endpoint, and what the command left.
fn ask_at(url: &str, more: &[&str]) -> (String, Ended) {
    let place = Place::new();
    let mut arguments = vec!["ask", "How much?", "--stdlib", "--model", "fake"];
    arguments.extend(["--base-url", url]);
    arguments.extend(more);
    let mut command = place.command(&arguments);
    command.env("CELLBLOCK_API_KEY", "sk-secret-of-a-test");
    let output = command.output().unwrap();
    let ended = Ended {
        status: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    };
    assert!(!ended.stderr.contains("sk-secret"), "{}", ended.stderr);

    let record = std::fs::read_dir(place.path().join("state/cellblock/runs"));
    let record = record.unwrap().next().unwrap().unwrap().path();
    let lines = std::fs::read_to_string(record).unwrap();
    let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    let status = last["ended"]["status"].as_str().unwrap();
    assert_eq!(status == "answered", ended.status == 0, "{status}");
    let shown = place.run(["runs", "show", "last"]).stdout;
    assert!(!shown.contains("not complete"), "{shown}");
    (transcript(&place, &arguments, "", &ended), ended)
}

fn text(text: &str) -> Said {
    Said::Text(text.to_owned())
}

fn error(status: u16, message: &str) -> Said {
    let body = json!({"error": {"message": message}}).to_string();
    Said::Http(status, "application/json", body.into_bytes())
}

fn call(id: Value, name: &str, arguments: &str) -> Value {
    json!({"index": 0, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

fn calls(calls: &[Value]) -> Said {
    let numbered = calls.iter().enumerate().map(|(index, call)| {
        let mut call = call.clone();
        call["index"] = index.into();
        call
    });
    let delta = delta(json!({"tool_calls": numbered.collect::<Vec<_>>()}));
    Said::Chunks(vec![delta, finish("tool_calls")])
}

#[test]
fn a_wrong_key_and_an_unknown_model_are_told_at_once() {
    let message = "Incorrect API key provided: sk-secret-of-a-test";
    insta::assert_snapshot!(ask([error(401, message)], &[]));
    let message = "The model `fake` does not exist";
    insta::assert_snapshot!(ask([error(404, message)], &[]));
}

#[test]
fn a_server_that_is_down_is_told_after_some_tries() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    insta::assert_snapshot!(ask_at(&url, &[]).0);
}

#[test]
fn a_server_that_is_slow_or_hangs_in_the_middle_is_left_when_the_time_is_over() {
    let limit = ["--max-time", "1500ms", "--format", "markdown"];
    insta::assert_snapshot!(ask([Said::Hangs(String::new())], &limit));
    let half = format!(
        "data: {}\n\ndata: {{\"choi",
        delta(json!({"content": "I th"}))
    );
    insta::assert_snapshot!(ask([Said::Hangs(half)], &limit));
}

#[test]
fn what_is_no_reply_is_told() {
    let page = b"<!DOCTYPE html><html><body>Sign in</body></html>".to_vec();
    insta::assert_snapshot!(ask([Said::Http(200, "text/html", page)], &[]));
    let empty = Said::Chunks(vec![json!({"choices": []})]);
    insta::assert_snapshot!(ask([empty], &[]));
}

#[test]
fn half_a_character_and_a_reply_of_a_megabyte_do_no_harm() {
    let mut bytes =
        b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"caf\xc3\"}}]}\n\n".to_vec();
    bytes.extend(format!("data: {}\n\ndata: [DONE]\n\n", finish("stop")).bytes());
    let half = Said::Http(200, "text/event-stream", bytes);
    insta::assert_snapshot!(ask([half], &["--format", "markdown"]));
    let long = "long ".repeat(200_000);
    let model = FakeModel::doing([text(&long)]);
    let (_, told) = ask_at(&model.url, &["--format", "markdown", "--quiet"]);
    assert_eq!(told.status, 0, "{}", told.stderr);
    assert!(told.stdout.len() > 900_000, "{}", told.stdout.len());
}

#[test]
fn calls_with_the_same_id_without_one_and_without_json_are_all_answered() {
    let code = r#"{"tool_call_purpose": "to see", "python_code_snippet": "print(6 * 7)"}"#;
    let twice = calls(&[
        call(json!("a"), "execute_python_code", code),
        call(json!("a"), "execute_python_code", code),
        call(Value::Null, "execute_python_code", "print(1)"),
        call(json!("b"), "no_such_tool", "{}"),
    ]);
    let model = FakeModel::doing([twice, text("42")]);
    // The calls run at the same time, so their results have no order.
    let (_, told) = ask_at(&model.url, &["--format", "tools"]);
    assert_eq!((told.status, &told.stdout[..]), (0, "42\n"));
    let result = "Execution result\n42";
    assert!(told.stderr.contains(result), "{}", told.stderr);
    let messages = model.asked()[1]["messages"].as_array().unwrap().clone();
    let answered: Vec<&Value> = messages
        .iter()
        .filter(|message| message["role"] == "tool")
        .collect();
    let mut ids: Vec<&str> = answered
        .iter()
        .filter_map(|message| message["tool_call_id"].as_str())
        .collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((answered.len(), ids.len()), (4, 4));
    let texts = answered
        .iter()
        .map(|message| message["content"].as_str().unwrap())
        .collect::<Vec<_>>()
        .join("\n");
    for part in ["Tool call failed", "no_such_tool", "execute_python_code"] {
        assert!(texts.contains(part), "{part}: {texts}");
    }
}

#[test]
fn code_that_is_cut_off_does_not_run_and_the_model_is_told() {
    let half = "I write.\n```python\nopen('half', 'w').write('x')\nprint(";
    let cut = Said::Chunks(vec![delta(json!({"content": half})), finish("length")]);
    let model = FakeModel::doing([
        cut,
        text("```python\nimport os\nprint(os.path.exists('half'))\n```"),
        text("no"),
    ]);
    insta::assert_snapshot!(ask_at(&model.url, &["--format", "markdown"]).0);
}

#[test]
fn a_model_that_repeats_itself_or_says_nonsense_comes_to_an_end() {
    let again = text("```python\nprint(1)\n```");
    insta::assert_snapshot!(ask([again], &["--format", "markdown"]));
    let nonsense = text("{\"action\": \"dance\"}");
    insta::assert_snapshot!(ask([nonsense], &["--format", "json"]));
    let wrong = text("```python\n1/0\n```");
    let flags = ["--format", "markdown", "--max-steps", "2"];
    insta::assert_snapshot!(ask([wrong], &flags));
}

#[test]
fn an_answer_without_any_computing_is_marked() {
    let guess = text("42, I guess.");
    insta::assert_snapshot!(ask([guess], &["--format", "markdown"]));
}

#[test]
fn a_question_that_is_empty_or_a_megabyte_is_refused() {
    let place = Place::new();
    let model = FakeModel::saying(["yes"]);
    let arguments = [
        "ask",
        "-",
        "--stdlib",
        "--model",
        "fake",
        "--base-url",
        &model.url,
    ];
    let mut seen = place.transcript_with(arguments, " \n");
    let large = "why? ".repeat(200_000);
    let told = place.run_with(arguments, large.as_bytes());
    assert_eq!((told.status, &told.stdout[..]), (18, ""));
    // How many tokens it is depends on the instructions.
    let words = "the question and the instructions need about";
    assert!(told.stderr.contains(words), "{}", told.stderr);
    assert_eq!(model.asked().len(), 0);
    seen += &place.transcript(["runs"]);
    insta::assert_snapshot!(seen);
}

/// In namespaces of its own, where a file system of 300 kB can be mounted by anyone.
#[test]
fn a_disk_that_fills_up_while_the_run_is_written_costs_the_record_and_not_the_answer() {
    let place = Place::new();
    let model = FakeModel::saying(["word ".repeat(50_000)]);
    let script = format!(
        "mkdir -p state && mount -t tmpfs -o size=300k tmpfs state && \
         {CELLBLOCK} ask '?' --quiet --stdlib --format markdown --model fake --base-url {} >out 2>err; \
         echo status $?; tail -c 1 state/cellblock/runs/*.jsonl | od -An -c; {CELLBLOCK} runs",
        model.url
    );
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]);
    let output = command
        .current_dir(place.path())
        .envs(place.variables())
        .output()
        .unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    let told = std::fs::read_to_string(place.path().join("err")).unwrap();
    assert!(out.starts_with("status 0\n"), "{out} {told}");
    assert!(told.contains("is not kept: "), "{told}");
    assert!(told.contains("No space left on device"), "{told}");
    // The last line that is there is whole, and the run can be listed.
    assert!(out.contains("\\n\n"), "{out}");
    assert!(out.lines().last().unwrap().ends_with('?'), "{out}");
    let answer = std::fs::read_to_string(place.path().join("out")).unwrap();
    assert_eq!(answer.len(), 249_999 + 1);
}
