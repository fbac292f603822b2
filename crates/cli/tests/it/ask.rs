//! `cellblock ask` and `cellblock chat` with an endpoint that says what it was told to say. The code really runs.

use crate::fake_model::{FakeModel, Said};
use crate::support::{DEAF, Ended, Place};
use crate::terminal::Terminal;
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

const WRONG: &str =
    "I use the formula.\n```python\nround(principle * (1 + 0.06 / 2) ** (2 * 6), 2)\n```";
const RIGHT: &str = "The name was wrong.\n```python\nprincipal = 15000\nprint(round(principal * (1 + 0.06 / 2) ** (2 * 6), 2))\n```";

const STORY: &str = "\
Thinking
I use the formula.
Executing code
round(principle * (1 + 0.06 / 2) ** (2 * 6), 2)
Execution result
NameError: name 'principle' is not defined
Thinking
The name was wrong.
Executing code
principal = 15000
print(round(principal * (1 + 0.06 / 2) ** (2 * 6), 2))
Execution result
21386.41
Final answer";

fn ask(place: &Place, model: &FakeModel, more: &[&str]) -> Ended {
    place.run(arguments(model, more))
}

fn arguments<'a>(model: &'a FakeModel, more: &[&'a str]) -> Vec<&'a str> {
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
    let ended = ask(
        &Place::new(),
        &model,
        &["What do 15000 become at 6 % compounded semi-annually for 6 years?"],
    );
    assert_eq!(
        (ended.status, ended.stdout.as_str()),
        (0, "21386.41\n"),
        "{}",
        ended.stderr
    );
    let story = ended
        .stderr
        .lines()
        .filter(|line| !line.starts_with("answered in"))
        .collect::<Vec<_>>()
        .join("\n");
    assert_eq!(story, STORY);
}

#[test]
fn with_the_locale_zh_the_labels_are_chinese() {
    let model = FakeModel::saying([RIGHT, "21386.41"]);
    let ended = ask(&Place::new(), &model, &["?", "--locale", "zh"]);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    let labels = ["思考", "执行代码", "执行结果", "最终答案"];
    for label in labels {
        assert!(
            ended.stderr.lines().any(|line| line == label),
            "{}",
            ended.stderr
        );
    }
    let last = ended.stderr.lines().last().unwrap();
    assert!(last.starts_with("answered, 1 步, "), "{last}");
    assert!(
        !ended.stderr.contains("Execution result"),
        "{}",
        ended.stderr
    );
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
fn files_go_in_and_out() {
    let place = Place::new();
    fs::write(place.path().join("numbers.csv"), "1\n2\n3\n").unwrap();
    let code = "total = sum(map(int, open('numbers.csv')))\nimport os\nos.makedirs('out', exist_ok=True)\nopen('out/total.txt', 'w').write(str(total))\ntotal";
    let model = FakeModel::saying([format!("```python\n{code}\n```"), "6".to_owned()]);
    let ended = ask(
        &place,
        &model,
        &["Sum?", "--file", "numbers.csv", "--out", "taken", "--quiet"],
    );
    assert_eq!(
        (ended.status, ended.stdout.as_str()),
        (0, "6\n"),
        "{}",
        ended.stderr
    );
    assert_eq!(
        fs::read_to_string(place.path().join("taken/out/total.txt")).unwrap(),
        "6"
    );
    assert!(!place.path().join("taken/numbers.csv").exists());
}

/// A cell that shows a picture of one pixel, as `plt.show()` would.
const PICTURE: &str = "\
```python
import base64
PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
class Picture:
    def _repr_png_(self):
        return base64.b64decode(PIXEL)
display(Picture())
open('numbers.txt', 'w').close()
```";

#[test]
fn pictures_are_files_of_the_run() {
    let place = Place::new();
    let model = FakeModel::saying([PICTURE, "Look at it."]);
    let ended = ask(&place, &model, &["Draw.", "--out", "taken"]);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    let picture = fs::read(place.path().join("taken/plots/cell-1.png")).unwrap();
    assert!(picture.starts_with(b"\x89PNG"));

    let model = FakeModel::saying([PICTURE, "Look at it."]);
    let ended = ask(&place, &model, &["Draw."]);
    let named: Vec<&str> = ended
        .stderr
        .lines()
        .filter_map(|line| line.strip_prefix("file "))
        .collect();
    assert_eq!(named.len(), 2, "{}", ended.stderr);
    assert!(named[0].ends_with("/numbers.txt") && named[1].ends_with("/plots/cell-1.png"));
    assert_eq!(fs::read(named[1]).unwrap(), picture);
}

#[test]
fn the_model_is_told_what_it_was_given() {
    let place = Place::new();
    fs::write(place.path().join("sales.csv"), "1\n").unwrap();
    let model = FakeModel::saying(["ready"]);
    let given = [
        "Ready?",
        "--file",
        "sales.csv",
        "--import",
        "math",
        "--allow-net",
        "GET api.example.org",
    ];
    assert_eq!(ask(&place, &model, &given).status, 0);
    let prompt = model.asked()[0]["messages"][0]["content"].to_string();
    for line in [
        "Files that are there: sales.csv.",
        "Imported already: math.",
        "Over the network the code can reach these, and nothing else: GET api.example.org.",
    ] {
        assert!(prompt.contains(line), "{line:?} is not in {prompt}");
    }
    assert!(!prompt.contains("There is no network"), "{prompt}");
}

#[test]
fn the_model_is_not_told_that_there_is_no_network_where_its_wall_is_left_out() {
    let place = Place::new();
    let model = FakeModel::saying(["ready"]);
    assert_eq!(
        ask(&place, &model, &["Ready?", "--without", "network"]).status,
        0
    );
    let prompt = model.asked()[0]["messages"][0]["content"].to_string();
    let open = "The code can reach the network of this machine.";
    assert!(prompt.contains(open), "{prompt}");
    assert!(!prompt.contains("no network"), "{prompt}");
}

#[test]
fn a_directory_is_given_with_all_its_files() {
    let place = Place::new();
    fs::create_dir_all(place.path().join("data/2026")).unwrap();
    fs::write(place.path().join("data/a.csv"), "1\n").unwrap();
    fs::write(place.path().join("data/2026/b.csv"), "2\n").unwrap();
    std::os::unix::fs::symlink("/etc/hostname", place.path().join("data/link")).unwrap();
    let code = "```python\nimport glob\nprint(sorted(glob.glob('**/*', recursive=True)))\n```";
    let model = FakeModel::saying([code, "seen"]);
    let ended = ask(&place, &model, &["What is there?", "--file", "data"]);
    assert!(
        ended
            .stderr
            .contains("['data', 'data/2026', 'data/2026/b.csv', 'data/a.csv']"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_schema_and_a_check_guard_the_answer() {
    let place = Place::new();
    fs::write(place.path().join("schema.json"), r#"{"type": "integer"}"#).unwrap();
    let model = FakeModel::saying(["```python\nprint(17 + 25)\n```", "forty-two", "43"]);
    let ended = ask(
        &place,
        &model,
        &["17 + 25?", "--schema", "schema.json", "--verify", "--quiet"],
    );
    assert_eq!((ended.status, ended.stdout.as_str()), (19, "43\n"));
    assert_eq!(
        ended.stderr,
        "warning: verify: the answer is unverified: nothing that the code or a tool gave has \"43\"\n"
    );
}

#[test]
fn a_wrong_answer_in_plain_words_is_unverified() {
    let place = Place::new();
    let model = FakeModel::saying(["```python\nprint(17 + 25)\n```", "17 + 25 is 43."]);
    let ended = ask(&place, &model, &["17 + 25?", "--verify"]);
    assert_eq!(
        (ended.status, ended.stdout.as_str()),
        (19, "17 + 25 is 43.\n")
    );
    let words = "answered in 1 step, unverified, ";
    assert!(ended.stderr.contains(words), "{}", ended.stderr);
}

#[test]
fn an_answer_that_was_verified_says_so() {
    let place = Place::new();
    let code = "```python\nprint(17 + 25)\n```".to_owned();
    let model = FakeModel::saying([code, "42".to_owned()]);
    let ended = ask(&place, &model, &["17 + 25?", "--verify"]);
    assert_eq!((ended.status, ended.stdout.as_str()), (0, "42\n"));
    let words = "answered in 1 step, verified by 1 cell run again, ";
    assert!(ended.stderr.contains(words), "{}", ended.stderr);
}

#[test]
fn a_template_is_asked_with_arguments() {
    let place = Place::new();
    let template = include_str!("../../../agent/examples/outlier_count.md");
    fs::write(place.path().join("t.md"), template).unwrap();
    let code = "from statistics import mean, pstdev\nprint(sum(abs(r - mean(readings)) > limit * pstdev(readings) for r in readings))";
    let model = FakeModel::saying([format!("```python\n{code}\n```"), "2".to_owned()]);
    let ended = ask(
        &place,
        &model,
        &[
            "--template",
            "t.md",
            "--arg",
            "readings=[12, 19, 23, 31, 8, 27]",
        ],
    );
    assert_eq!(
        (ended.status, ended.stdout.as_str()),
        (0, "2\n"),
        "{}",
        ended.stderr
    );
    assert!(
        ended.stderr.contains("Execution result\n2\n"),
        "{}",
        ended.stderr
    );
    let ended = ask(
        &place,
        &model,
        &["--template", "t.md", "--arg", "reading=1"],
    );
    assert_eq!(
        (ended.status, ended.stderr.as_str()),
        (
            2,
            "error: the template `outlier_count` has no parameter `reading`; it has readings\n"
        )
    );
}

#[test]
fn templates_of_a_folder_can_call_each_other() {
    let place = Place::new();
    let folder = place.path().join("templates");
    fs::create_dir(&folder).unwrap();
    let mean = "+++\nname = \"mean_of\"\ndescription = \"The mean.\"\ncode = true\n[params]\nvalues = \"list of numbers\"\n[returns]\ntype = \"number\"\n+++\nWhat is the mean of `values`?\n";
    let report = "+++\nname = \"report\"\ndescription = \"A report.\"\ncode = true\n[params]\nvalues = \"list of numbers\"\n+++\nSay how large `values` are.\n";
    fs::write(folder.join("mean.md"), mean).unwrap();
    fs::write(folder.join("report.md"), report).unwrap();
    let model = FakeModel::saying([
        "```python\nmean_of(values=values) + 1\n```",
        "```python\nsum(values) / len(values)\n```",
        "2.0",
        "The mean and one are 3.0.",
    ]);
    let ended = ask(
        &place,
        &model,
        &[
            "--template",
            "templates/report.md",
            "--templates-dir",
            "templates",
            "--arg",
            "values=[1, 2, 3]",
        ],
    );
    assert_eq!(
        (ended.status, ended.stdout.as_str()),
        (0, "The mean and one are 3.0.\n"),
        "{}",
        ended.stderr
    );
    let ended = ask(&place, &model, &["?", "--templates-dir", "."]);
    assert_eq!(
        (ended.status, ended.stderr.as_str()),
        (
            2,
            "error: --templates-dir .: there is no template (.md) in it\n"
        )
    );
}

#[test]
fn a_run_without_an_answer_says_why_and_its_status_tells() {
    let model = FakeModel::saying(["```python\nprint(1)\n```"]);
    let ended = ask(&Place::new(), &model, &["?", "--max-steps", "2", "--quiet"]);
    assert_eq!(
        (ended.status, ended.stdout.as_str(), ended.stderr.as_str()),
        (
            10,
            "",
            "error: no answer (max_steps): there was no answer after 2 steps\n"
        )
    );
}

#[test]
fn code_that_needs_approval_is_not_run_where_nobody_can_be_asked() {
    let model = FakeModel::saying(["```python\nprint(1)\n```", "no"]);
    let ended = ask(&Place::new(), &model, &["?", "--approve", "code"]);
    assert_eq!(ended.status, 0);
    assert!(
        ended
            .stderr
            .contains("was not run: it needs a person's approval, and no person can be asked here"),
        "{}",
        ended.stderr
    );
}

#[test]
fn without_a_model_and_without_a_key_one_is_told_what_to_do() {
    let place = Place::new();
    let told = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        for name in [
            "CELLBLOCK_MODEL",
            "OPENAI_MODEL",
            "CELLBLOCK_API_KEY",
            "OPENAI_API_KEY",
            "CELLBLOCK_BASE_URL",
            "OPENAI_BASE_URL",
        ] {
            command.env_remove(name);
        }
        let output = command.output().unwrap();
        (
            output.status.code().unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (status, words) = told(&["ask", "?"]);
    assert_eq!(status, 2);
    assert!(
        words.starts_with(
            "error: no model is chosen, and none was found\nhint: set the key of a provider"
        ),
        "{words}"
    );
    let (status, words) = told(&["ask", "?", "--model", "gpt-4o"]);
    assert_eq!(
        (status, words.as_str()),
        (
            2,
            "error: there is no key for https://api.openai.com/v1: set the environment variable CELLBLOCK_API_KEY or OPENAI_API_KEY\n"
        )
    );
    let (status, words) = told(&["ask", " ", "--model", "gpt-4o"]);
    assert_eq!(
        (status, words.as_str()),
        (2, "error: the question is empty\n")
    );
}

#[test]
fn a_run_is_kept_and_traced() {
    let place = Place::new();
    let model = FakeModel::saying([WRONG, RIGHT, "21386.41"]);
    let asked = ask(&place, &model, &["How much?", "--quiet"]);
    assert_eq!((asked.status, asked.stderr.as_str()), (0, ""));
    let listed = place.run(["runs"]);
    assert!(
        listed.stdout.contains("answered           How much?"),
        "{listed:?}"
    );
    let shown = place.run(["runs", "show", "last"]);
    assert!(
        shown
            .stdout
            .starts_with("Question\nHow much?\nThinking\nI use the formula.\nExecuting code\n"),
        "{}",
        shown.stdout
    );
    assert!(
        shown.stdout.ends_with("Final answer\n21386.41\n"),
        "{}",
        shown.stdout
    );
    let traced = place.run(["trace", "last"]);
    for name in ["run", "model_call", "cell"] {
        assert!(traced.stdout.contains(name), "{}", traced.stdout);
    }
    assert_eq!(place.run(["runs", "remove", "last"]).status, 0);
    assert_eq!(place.run(["runs"]).stdout, "");
    let missing = place.run(["runs", "show", "nothing"]);
    assert_eq!(missing.status, 2);
    assert!(
        missing
            .stderr
            .ends_with("hint: `cellblock runs` lists what there is\n"),
        "{}",
        missing.stderr
    );
}

#[test]
fn a_chat_keeps_its_session_and_has_commands() {
    let place = Place::new();
    let model = FakeModel::saying([
        "```python\nx = 41\n```",
        "kept",
        "```python\nprint(x + 1)\n```",
        "42",
    ]);
    let arguments = [
        "chat",
        "--stdlib",
        "--model",
        "fake",
        "--base-url",
        &model.url,
        "--format",
        "markdown",
    ];
    let input =
        "Keep 41.\n/vars\n/fork\n/switch 1\nOne more?\n/undo\n/frok\n/save talk.md\n/quit\n";
    let ended = place.run_with(arguments, input.as_bytes());
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    let out: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(
        out,
        [
            "kept",
            "x: int 41",
            "this is conversation 2, a copy; /switch goes back",
            "this is conversation 1",
            "42",
            "the session is as after cell 1",
            "saved as talk.md"
        ]
    );
    assert!(
        ended.stderr.contains("error: there is no command /frok"),
        "{}",
        ended.stderr
    );
    let saved = fs::read_to_string(place.path().join("talk.md")).unwrap();
    assert!(
        saved.contains("## One more?\n\n```python\nprint(x + 1)\n```\n\n```text\n42\n```\n\n42\n"),
        "{saved}"
    );
}

#[test]
fn a_chat_takes_files_in_and_out() {
    let place = Place::new();
    fs::write(place.path().join("a.csv"), "1\n").unwrap();
    fs::write(place.path().join("b.csv"), "2\n").unwrap();
    let code =
        "```python\nopen('sum.txt', 'w').write(open('a.csv').read() + open('b.csv').read())\n```";
    let model = FakeModel::saying([code, "done"]);
    let arguments = [
        "chat",
        "--stdlib",
        "--model",
        "fake",
        "--base-url",
        &model.url,
        "--format",
        "markdown",
        "--file",
        "a.csv",
        "--out",
        "taken",
    ];
    let ended = place.run_with(arguments, b"/attach b.csv\n/attach nowhere\nAdd them.\n");
    assert_eq!(ended.stdout, "attached b.csv\ndone\n", "{}", ended.stderr);
    assert!(
        ended.stderr.contains("error: --file nowhere: "),
        "{}",
        ended.stderr
    );
    let question = model.asked()[0]["messages"].to_string();
    assert!(
        question.contains("The user put these files into the working directory: b.csv"),
        "{question}"
    );
    assert_eq!(
        fs::read_to_string(place.path().join("taken/sum.txt")).unwrap(),
        "1\n2\n"
    );
}

fn at_a_terminal(place: &Place, model: &FakeModel, more: &[&str]) -> Terminal {
    let mut arguments = vec![
        "ask",
        "--stdlib",
        "--model",
        "fake",
        "--base-url",
        &model.url,
        "--format",
        "markdown",
        "?",
    ];
    arguments.extend(more);
    Terminal::open(place, &arguments)
}

#[test]
fn a_person_sees_thought_code_result_and_answer() {
    let model = FakeModel::saying(["I add.\n```python\nprint(40 + 2)\n```", "It is 42."]);
    let mut terminal = at_a_terminal(&Place::new(), &model, &[]);
    for text in [
        "Thinking",
        "I add.",
        "Executing code",
        "print(40 + 2)",
        "Execution result",
        "42",
        "Final answer",
        "It is 42.",
        "answered in 1 step,",
    ] {
        terminal.wait_for(text);
    }
    assert_eq!(terminal.ended(), 0);
    assert!(
        terminal.raw.contains("\u{1b}[33m40\u{1b}[0m"),
        "the code is coloured: {}",
        terminal.raw
    );
}

#[test]
fn ctrl_c_interrupts_the_cell_and_twice_ends_the_run() {
    let model =
        FakeModel::saying(["```python\nprint('be' + 'gun', flush=True)\nwhile True: pass\n```"]);
    let mut terminal = at_a_terminal(&Place::new(), &model, &[]);
    terminal.wait_for("begun");
    terminal.keys("\u{3}");
    terminal.wait_for("KeyboardInterrupt");
    terminal.wait_for("begun");
    terminal.keys("\u{3}");
    std::thread::sleep(std::time::Duration::from_millis(300));
    terminal.keys("\u{3}");
    terminal.wait_for("no answer (cancelled): the run was cancelled");
    assert_eq!(terminal.ended(), 130);
}

#[test]
fn a_person_is_asked_before_code_runs() {
    let model = FakeModel::saying(["```python\nprint(6 * 7)\n```", "42"]);
    let mut terminal = at_a_terminal(&Place::new(), &model, &["--approve", "code"]);
    terminal.wait_for("execute_python_code");
    terminal.type_line("a");
    terminal.wait_for("42");
    terminal.wait_for("Final answer");
    assert_eq!(terminal.ended(), 0);
}

#[test]
fn a_person_opens_a_host_that_no_rule_names_while_the_code_waits() {
    let page = FakeModel::saying(["a page"]);
    let fetch = format!(
        "```python\nimport urllib.request as u\nbody = b'{{\"messages\": []}}'\nprint('fetched', u.urlopen(u.Request('{}/chat/completions', body)).status)\n```",
        page.url
    );
    let model = FakeModel::saying([fetch.as_str(), "done"]);
    let mut terminal = at_a_terminal(&Place::new(), &model, &[]);
    terminal.wait_for("reach_host, called by code in the session");
    terminal.wait_for("[a]ccept this host in this run");
    terminal.type_line("a");
    terminal.wait_for("fetched 200");
    terminal.wait_for("Final answer");
    assert_eq!(terminal.ended(), 0);
    assert_eq!(page.keys().len(), 1);
}
