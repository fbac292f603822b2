//! `cellblock runs resume` and `export`: what was asked goes on after its program was killed, and leaves the program.

use crate::fake_model::{FakeModel, Said};
use crate::support::{Place, signal};
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

const TICKETS: &str = "\
import uuid


def ticket(purpose: str) -> str:
    '''A number that nobody else has.

    Args:
        purpose: What it is for.
    '''
    return uuid.uuid4().hex
";

const FIRST: &str =
    "I begin.\n```python\nprincipal = 15000\nfirst = ticket('one')\nprint(first)\n```";
const SECOND: &str = "\
And now the rest.
```python
second = ticket('two')
print('be' + 'gun', flush=True)
import time
time.sleep(2)
print(first, second, round(principal * (1 + 0.06 / 2) ** (2 * 6), 2))
```";

/// A question whose program is killed in the middle of the second cell.
fn killed_in_the_middle(place: &Place, model: &FakeModel) {
    fs::create_dir(place.path().join("tools")).unwrap();
    fs::write(place.path().join("tools/tickets.py"), TICKETS).unwrap();
    let mut command = place.command([
        "ask",
        "How much?",
        "--json",
        "--stdlib",
        "--model",
        "fake",
        "--base-url",
        &model.url,
        "--format",
        "markdown",
        "--tools-dir",
        "tools",
        "--approve",
        "never",
    ]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    wait_for_output(&mut child, "begun\n");
    signal(&child, "KILL");
    assert_eq!(child.wait().unwrap().code(), None);
}

/// Reads events until a cell writes this.
fn wait_for_output(child: &mut Child, text: &str) {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for line in lines {
        let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if event["event"] == "cell" && event["cell"]["text"] == text {
            return;
        }
    }
    panic!("{text:?} was never written");
}

fn events(place: &Place) -> Vec<Value> {
    let shown = place.run(["runs", "show", "last", "--json"]).stdout;
    let events = shown.lines();
    events
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn of_kind<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    let events = events.iter();
    events.filter(|event| event["event"] == kind).collect()
}

#[test]
fn a_run_that_was_killed_in_the_middle_of_a_cell_goes_on_and_nothing_is_asked_twice() {
    let place = Place::new();
    let model = FakeModel::saying([FIRST, SECOND, "21386.41"]);
    killed_in_the_middle(&place, &model);
    let mut seen = place.transcript(["runs"]);
    assert_eq!(model.asked().len(), 2);
    seen += &place.transcript(["runs", "resume", "last"]);
    let asked = model.asked();
    assert_eq!(asked.len(), 3, "each reply was asked for once");
    let said: Vec<&str> = asked[2]["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(
        said,
        ["system", "user", "assistant", "user", "assistant", "user"]
    );

    let events = events(&place);
    let recorded = of_kind(&events, "recorded");
    assert_eq!(recorded.len(), 2, "each tool was called once");
    let ticket = |index: usize| {
        let parts = &recorded[index]["call"]["output"]["parts"];
        parts[0]["text"].as_str().unwrap().to_owned()
    };
    let last = of_kind(&events, "done").pop().unwrap();
    assert_eq!(
        last["done"]["result"]["stdout"].as_str().unwrap(),
        format!("begun\n{} {} 21386.41\n", ticket(0), ticket(1))
    );

    seen += &place.transcript(["runs", "resume", "last"]);
    insta::assert_snapshot!(seen);
}

#[test]
fn what_differs_when_the_session_is_rebuilt_is_told() {
    let place = Place::new();
    let first =
        "```python\nimport os\nprint(os.urandom(16).hex())\nfirst, principal = 1, 15000\n```";
    let model = FakeModel::saying([first, SECOND, "21386.41"]);
    killed_in_the_middle(&place, &model);
    insta::assert_snapshot!(place.transcript(["runs", "resume", "last", "--quiet"]));
}

/// The journal is written a moment after the cell is told to be over, and the program may be killed in between.
#[test]
fn a_cell_that_only_the_record_of_the_run_knows_is_replayed_too() {
    let place = Place::new();
    let model = FakeModel::saying([FIRST, SECOND, "21386.41"]);
    killed_in_the_middle(&place, &model);
    let journals = fs::read_dir(place.path().join("state/cellblock/journals")).unwrap();
    let journal = journals.flatten().next().unwrap().path();
    let lines = fs::read_to_string(&journal).unwrap();
    let until = lines.find("\"record\":\"ended\"").unwrap();
    let whole = lines[..until].rfind('\n').unwrap();
    fs::write(&journal, &lines[..=whole]).unwrap();

    insta::assert_snapshot!(place.transcript(["runs", "resume", "last"]));
    let events = events(&place);
    let first = of_kind(&events, "recorded")[0]["call"]["output"]["parts"][0]["text"].clone();
    let last = of_kind(&events, "done").pop().unwrap();
    let printed = last["done"]["result"]["stdout"].as_str().unwrap();
    assert!(printed.contains(first.as_str().unwrap()), "{printed}");
}

#[test]
fn a_run_that_goes_on_elsewhere_is_not_taken_up() {
    let place = Place::new();
    let model = FakeModel::saying([
        "```python\nprint('be' + 'gun', flush=True)\nimport time\ntime.sleep(20)\n```",
    ]);
    let mut command = place.command(["ask", "?", "--json", "--stdlib", "--model", "fake"]);
    command.args(["--base-url", &model.url, "--format", "markdown"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    wait_for_output(&mut child, "begun\n");
    let seen = place.transcript(["runs", "resume", "last"]);
    signal(&child, "KILL");
    child.wait().unwrap();
    insta::assert_snapshot!(seen);
}

/// `python3` with a script, in a directory of its own.
fn python3(script: &std::path::Path) -> (i32, String, String) {
    let output = std::process::Command::new("python3")
        .arg(script)
        .output()
        .unwrap();
    (
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

#[test]
fn an_exported_script_computes_and_prints_the_same_answer() {
    let place = Place::new();
    let model = FakeModel::saying([FIRST, SECOND, "It becomes 21386.41."]);
    killed_in_the_middle(&place, &model);
    assert_eq!(place.run(["runs", "resume", "last"]).status, 0);
    let exported = place.run([
        "runs",
        "export",
        "last",
        "--script",
        "answer.py",
        "--notebook",
        "answer.ipynb",
    ]);
    assert_eq!((exported.status, exported.stderr.as_str()), (0, ""));

    let script = place.path().join("answer.py");
    let (status, stdout, stderr) = python3(&script);
    assert_eq!(status, 0, "{stderr}");
    // The words of the model are not printed.
    assert!(stdout.ends_with(" 21386.41\n"), "{stdout}");
    let other = fs::read_to_string(&script).unwrap();
    fs::write(
        &script,
        other.replace("principal = 15000", "principal = 1500"),
    )
    .unwrap();
    let (status, stdout, stderr) = python3(&script);
    assert!(!stdout.contains("It becomes"), "{stdout}");
    assert_eq!(
        (status, stderr.as_str()),
        (
            1,
            "the answer of the run stands on 21386.41, which did not come out this time\n"
        )
    );

    let notebook = fs::read_to_string(place.path().join("answer.ipynb")).unwrap();
    let notebook: Value = serde_json::from_str(&notebook).unwrap();
    let cells = notebook["cells"].as_array().unwrap();
    let sources: Vec<(&str, &str)> = cells
        .iter()
        .map(|cell| {
            let source = cell["source"].as_str().unwrap();
            (
                cell["cell_type"].as_str().unwrap(),
                source.lines().next().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        sources,
        [
            ("markdown", "How much?"),
            ("markdown", "I begin."),
            ("code", "principal = 15000"),
            ("markdown", "And now the rest."),
            ("code", "second = ticket('two')"),
            ("markdown", "**Final answer**"),
        ]
    );
    assert_eq!(notebook["nbformat"], 4);
}

#[test]
fn what_cannot_be_exported_is_said() {
    let place = Place::new();
    let model = FakeModel::saying(["Hello."]);
    place.run([
        "ask",
        "Hi",
        "--model",
        "fake",
        "--base-url",
        &model.url,
        "--format",
        "markdown",
        "--stdlib",
    ]);
    let seen = place.transcript(["runs", "export", "last", "--script", "-"]);
    insta::assert_snapshot!(seen + &place.transcript(["runs", "export", "last"]));
}

#[test]
fn a_run_whose_model_failed_goes_on_when_the_model_is_back() {
    let place = Place::new();
    let model = FakeModel::doing([
        Said::Text("I count.\n```python\nx = 41\n```".to_owned()),
        Said::Http(
            401,
            "application/json",
            br#"{"error": {"message": "no"}}"#.to_vec(),
        ),
        Said::Text("And one more.\n```python\nprint(x + 1)\n```".to_owned()),
        Said::Text("42".to_owned()),
    ]);
    let mut arguments = vec!["ask", "How many?", "--stdlib", "--model", "fake"];
    arguments.extend(["--base-url", &model.url, "--format", "markdown"]);
    let mut seen = place.transcript(arguments);
    let listed = place.run(["runs", "--json"]).stdout;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["status"], "model_error");
    let id = listed["id"].as_str().unwrap();
    seen += &place.transcript(["runs", "resume", id]);
    assert_eq!(model.asked().len(), 4);
    seen += &place.transcript(["runs"]);
    seen += &place.transcript(["runs", "--json", "show", "last"]);
    insta::assert_snapshot!(seen);
}
