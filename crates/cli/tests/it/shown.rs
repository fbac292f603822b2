//! What `cellblock ask` looks like: plain, with colours, and at a terminal. `INSTA_UPDATE=always` writes the snapshots anew.

use crate::fake_model::{FakeModel, Said, delta, finish};
use crate::support::Place;
use crate::terminal::Terminal;
use serde_json::json;

const PLAN: &str = "\
First a plan.
```python
_ = recursive_plan_tree_todo(recursive_plan_tree={'core_goal': 'compute', 'tree_nodes': [{'task_name': 'write it down'}], 'next_action': {}})
```";
const WRONG: &str = "I use the formula.\n```python\nround(principle * 1.03 ** 12, 2)\n```";
const RIGHT: &str = "\
The name was wrong.
```python
principal = 15000  # at the beginning
open('note.txt', 'w').write('half-yearly')
print('rate', 0.03)
round(principal * 1.03 ** 12, 2)
";

/// A plan, an empty reply, a mistake, a fence that is not closed, a file, a value, and the answer.
fn model() -> FakeModel {
    let text = |text: &str| Said::Text(text.to_owned());
    FakeModel::doing([
        text(PLAN),
        Said::Chunks(vec![delta(json!({"content": ""})), finish("stop")]),
        text(WRONG),
        text(RIGHT),
        text("It is 21386.41."),
    ])
}

fn shown(place: &Place, model: &FakeModel, more: &[&str], variables: &[(&str, &str)]) -> String {
    let mut command = place.command(["ask", "How much?", "--stdlib", "--model", "fake"]);
    command.args(["--base-url", &model.url, "--format", "markdown"]);
    command.args(["--prompt", "deep-research"]);
    let output = command
        .args(more)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"It is 21386.41.\n");
    without_times(&String::from_utf8(output.stderr).unwrap())
}

/// `answered in 4 steps, 0.3 s, …`: how long it took is another matter, and so is where the workspace is.
fn without_times(text: &str) -> String {
    let lines = text.lines().map(|line| {
        if let Some((before, path)) = line.split_once("file /")
            && path.contains("/workspaces/")
        {
            let name = path.rsplit('/').next().unwrap_or_default();
            return format!("{before}file …/{name}");
        }
        let parts: Vec<&str> = line.split(", ").collect();
        match parts[..] {
            [steps, _, rest] if steps.contains("answered in") => format!("{steps}, … s, {rest}"),
            _ => line.to_owned(),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn in_plain_lines_a_run_looks_as_on_file() {
    let plain = shown(&Place::new(), &model(), &[], &[]);
    insta::assert_snapshot!(plain);
    let asked_for = shown(
        &Place::new(),
        &model(),
        &["--color", "always"],
        &[("NO_COLOR", "1")],
    );
    assert!(asked_for.contains('\u{1b}'), "a flag comes before NO_COLOR");
}

#[test]
fn in_colours_a_run_looks_as_on_file() {
    let coloured = shown(&Place::new(), &model(), &["--color", "always"], &[]);
    insta::assert_snapshot!(coloured.replace('\u{1b}', "ESC"));
}

#[test]
fn without_colours_a_terminal_shows_none() {
    let model = model();
    let arguments = [
        "ask",
        "How much?",
        "--stdlib",
        "--model",
        "fake",
        "--base-url",
        &model.url,
        "--format",
        "markdown",
        "--prompt",
        "deep-research",
    ];
    let mut terminal = Terminal::open_with(&Place::new(), &arguments, &[("NO_COLOR", "1")]);
    for text in [
        "Plan, version 1",
        "I use the formula.",
        "NameError",
        "note: the reply was repaired",
        "new file note.txt",
        "Final answer",
        "It is 21386.41.",
    ] {
        terminal.wait_for(text);
    }
    assert_eq!(terminal.ended(), 0);
    // Only the spinner moves the cursor; nothing sets a colour.
    let colours = terminal.raw.match_indices("\u{1b}[").filter(|(at, _)| {
        let rest = &terminal.raw[at + 2..];
        let end = rest.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(0);
        rest[end..].starts_with('m')
    });
    assert_eq!(colours.count(), 0, "{:?}", terminal.raw);
}

#[test]
fn compute_is_offered_unless_it_is_switched_off() {
    let offered = |more: &[&str]| {
        let place = Place::new();
        std::fs::write(place.path().join("off.toml"), "[agent]\ncompute = false\n").unwrap();
        let model = FakeModel::saying(["yes"]);
        let mut arguments = vec![
            "ask",
            "?",
            "--stdlib",
            "--quiet",
            "--model",
            "fake",
            "--base-url",
            &model.url,
        ];
        arguments.extend(["--format", "tools"]);
        arguments.extend(more);
        assert_eq!(place.run(arguments).status, 0);
        let request = model.asked()[0].clone();
        let tools = request["tools"].as_array().unwrap().iter();
        let is_tool = tools
            .filter(|tool| tool["function"]["name"] == "compute")
            .count()
            == 1;
        let system = request["messages"][0]["content"].as_str().unwrap();
        (is_tool, system.contains("last_result"))
    };
    assert_eq!(offered(&[]), (true, true));
    assert_eq!(offered(&["--no-compute"]), (false, false));
    assert_eq!(offered(&["--config", "off.toml"]), (false, false));
}
