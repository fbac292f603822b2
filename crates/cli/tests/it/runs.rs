//! `cellblock runs resume` and `export`: what was asked goes on after its program was killed, and leaves the program.

use crate::fake_model::FakeModel;
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
    assert!(place.run(["runs"]).stdout.contains("cut off"));
    assert_eq!(model.asked().len(), 2);

    let resumed = place.run(["runs", "resume", "last"]);
    assert_eq!(
        (resumed.status, resumed.stdout.as_str()),
        (0, "21386.41\n"),
        "{}",
        resumed.stderr
    );
    assert!(
        resumed.stderr.starts_with(
            "note: the session was rebuilt: 1 cell replayed\n\
             note: cell 2 had not finished; it runs again\n\
             note: the run goes on after 2 steps\n"
        ),
        "{}",
        resumed.stderr
    );
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

    let again = place.run(["runs", "resume", "last"]);
    assert_eq!(again.status, 2);
    assert!(
        again
            .stderr
            .contains("has ended (`answered`); there is nothing to resume"),
        "{}",
        again.stderr
    );
}

#[test]
fn what_differs_when_the_session_is_rebuilt_is_told() {
    let place = Place::new();
    let first =
        "```python\nimport os\nprint(os.urandom(8).hex())\nfirst, principal = 1, 15000\n```";
    let model = FakeModel::saying([first, SECOND, "21386.41"]);
    killed_in_the_middle(&place, &model);
    let resumed = place.run(["runs", "resume", "last", "--quiet"]);
    assert_eq!(resumed.stdout, "21386.41\n", "{}", resumed.stderr);
    assert!(
        resumed.stderr.contains("differs: cell 1: stdout was"),
        "{}",
        resumed.stderr
    );
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
    let told = place.run(["runs", "resume", "last"]);
    signal(&child, "KILL");
    child.wait().unwrap();
    assert_eq!(told.status, 2);
    assert!(
        told.stderr.contains("is still going on in another program"),
        "{}",
        told.stderr
    );
}
