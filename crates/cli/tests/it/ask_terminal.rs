//! `cellblock ask` at a real terminal: what a person sees while it runs, approvals and Ctrl-C.

use crate::ask::arguments;
use crate::fake_model::FakeModel;
use crate::support::Place;
use crate::terminal::Terminal;

fn at_a_terminal(place: &Place, model: &FakeModel, more: &[&str]) -> Terminal {
    let question = ["?"].iter().chain(more);
    Terminal::open(
        place,
        &arguments(model, &question.copied().collect::<Vec<_>>()),
    )
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
