//! `cellblock chat`, from a file and at a real terminal: every command, the history, and what is kept of it.

use crate::fake_model::FakeModel;
use crate::support::{DEAF, Place};
use crate::terminal::Terminal;
use std::fs;

const KEEP: &str = "\
I keep it.
```python
x = 41
open('note.txt', 'w').write('hello')
_ = recursive_plan_tree_todo(recursive_plan_tree={'core_goal': 'count', 'tree_nodes': [{'task_name': 'look'}], 'next_action': {}})
```";
const MORE: &str = "```python\nx = x + 1\nprint('now', x)\n```";

const MORE_DEAF: &str = "```python\nx = 7\n```";

fn chat(place: &Place, model: &FakeModel, format: &str) -> Terminal {
    let arguments = [
        "chat",
        "--stdlib",
        "--model",
        "fake",
        "--base-url",
        &model.url,
        "--format",
        format,
        "--prompt",
        "deep-research",
    ];
    Terminal::open(place, &arguments)
}

#[test]
fn every_command_does_what_it_says() {
    let place = Place::new();
    let model = FakeModel::saying([KEEP, "It is kept.", MORE, "It is 42.", "Once more."]);
    let mut terminal = chat(&place, &model, "markdown");
    terminal.wait_for("ask anything");
    for (typed, seen) in [
        ("Keep 41.", "It is kept."),
        ("/vars", "x: int 41"),
        ("/files", "note.txt (5 bytes)"),
        ("/plan", "**look**"),
        ("/fork", "this is conversation 2, a copy"),
        ("One more?", "It is 42."),
        ("/vars", "x: int 42"),
        ("/undo", "the session is as at its beginning"),
        ("/vars", "x: int 41"),
        ("/switch 1", "this is conversation 1"),
        ("/vars", "x: int 41"),
        ("/model other", "the model is other now"),
        ("And now?", "Once more."),
        ("/save talk.md", "saved as talk.md"),
        ("/nonsense", "there is no command /nonsense"),
    ] {
        terminal.wait_for("> ");
        terminal.type_line(typed);
        terminal.wait_for(seen);
    }
    // Up brings the last lines back; Tab completes a command.
    terminal.wait_for("> ");
    terminal.keys("\u{1b}[A\u{1b}[A\u{15}/he\t");
    terminal.type_line("");
    terminal.wait_for("/undo [N], /fork");
    terminal.wait_for("> ");
    terminal.type_line("/quit");
    assert_eq!(terminal.ended(), 0);

    assert_eq!(model.asked().last().unwrap()["model"], "other");
    let saved = fs::read_to_string(place.path().join("talk.md")).unwrap();
    for part in ["## Keep 41.", "## One more?", "now 42", "Once more."] {
        assert!(saved.contains(part), "{part}: {saved}");
    }
    let history = fs::read_to_string(place.path().join("state/cellblock/chat_history")).unwrap();
    assert!(history.contains("Keep 41.\n"), "{history}");
}

/// The command line of a chat with this model, from a file.
fn arguments<'a>(model: &'a FakeModel, more: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["chat", "--stdlib", "--model", "fake"];
    arguments.extend(["--base-url", &model.url, "--format", "markdown"]);
    arguments.extend(more);
    arguments
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
    let input =
        "Keep 41.\n/vars\n/fork\n/switch 1\nOne more?\n/undo\n/frok\n/save talk.md\n/quit\n";
    let shown = place.transcript_with(arguments(&model, &[]), input);
    let saved = fs::read_to_string(place.path().join("talk.md")).unwrap();
    insta::assert_snapshot!(shown + "----- talk.md\n" + &saved);
}

#[test]
fn a_chat_takes_files_in_and_out() {
    let place = Place::new();
    fs::write(place.path().join("a.csv"), "1\n").unwrap();
    fs::write(place.path().join("b.csv"), "2\n").unwrap();
    let code =
        "```python\nopen('sum.txt', 'w').write(open('a.csv').read() + open('b.csv').read())\n```";
    let model = FakeModel::saying([code, "done"]);
    let arguments = arguments(&model, &["--file", "a.csv", "--out", "taken"]);
    let input = "/attach b.csv\n/attach nowhere\nAdd them.\n";
    insta::assert_snapshot!(place.transcript_with(arguments, input));
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

#[test]
fn each_question_is_a_run_that_is_kept_traced_and_exported() {
    let place = Place::new();
    let model = FakeModel::saying([KEEP, "It is kept.", MORE, "It is 42."]);
    let mut shown = place.transcript_with(arguments(&model, &[]), "Keep 41.\nOne more?\n");
    shown += &place.transcript(["runs"]);
    let listed = place.run(["runs"]).stdout;
    let id = listed.split_whitespace().next().unwrap();
    let trace = place.run(["trace", id]);
    assert!(trace.stdout.contains("model_call"), "{}", trace.stdout);
    // The script has the helpers of every script, and the version of Python.
    let script = place.run(["runs", "export", id, "--script", "-"]);
    assert!(
        script.stdout.contains("print('now', x)"),
        "{}",
        script.stdout
    );
    shown += &place.transcript(["runs", "resume", id]);
    insta::assert_snapshot!(shown);
}

#[test]
fn what_a_person_takes_back_is_told_to_the_model() {
    let place = Place::new();
    let model = FakeModel::saying([KEEP, "It is kept.", "Gone."]);
    place.run_with(arguments(&model, &[]), b"Keep 41.\n/undo\nIs it there?\n");
    let asked = model.asked();
    let last = asked.last().unwrap()["messages"].as_array().unwrap().last();
    assert_eq!(
        last.unwrap()["content"],
        "The user took back the last 1 cell: variables and files are as they were before.\n\nIs it there?"
    );
}

#[test]
fn an_answer_that_streams_is_shown_once() {
    for format in ["tools", "markdown", "xml"] {
        let model = FakeModel::saying(["The answer to this is forty-two."]);
        let mut terminal = chat(&Place::new(), &model, format);
        terminal.wait_for("> ");
        terminal.type_line("?");
        terminal.wait_for("Final answer");
        terminal.wait_for("The answer to this is forty-two.");
        terminal.wait_for("> ");
        terminal.type_line("/quit");
        assert_eq!(terminal.ended(), 0);
        let screen = terminal.plain();
        assert_eq!(screen.matches("Thinking").count(), 0, "{format}: {screen}");
        let lines = screen.lines();
        let answers = lines.filter(|line| *line == "The answer to this is forty-two.");
        assert_eq!(answers.count(), 1, "{format}: {screen}");
    }
}

#[test]
fn a_person_is_told_once_that_the_session_is_not_armed_before_the_next_question() {
    let place = Place::new();
    let deaf = format!("```python\n{DEAF}```");
    let replies = [&deaf, "Begun.", MORE_DEAF, "Done.", MORE_DEAF, "Again."];
    let model = FakeModel::saying(replies);
    let reason = "a thread cannot be copied (deaf): it blocks all signals";
    let mut terminal = chat(&place, &model, "markdown");
    terminal.wait_for("> ");
    terminal.type_line("Begin.");
    terminal.wait_for("Begun.");
    terminal.wait_for(&format!("not armed: there is no checkpoint of the last 1 cell, which would have to run again after a crash: {reason}"));
    for (typed, seen) in [("More.", "Done."), ("More.", "Again."), ("/quit", "")] {
        terminal.wait_for("> ");
        terminal.type_line(typed);
        terminal.wait_for(seen);
    }
    assert_eq!(terminal.ended(), 0);
    let screen = terminal.plain();
    assert_eq!(screen.matches("not armed: ").count(), 1, "{screen}");
}

/// No model is there to be found: the option is refused before one is looked for.
#[test]
fn a_bad_option_is_refused_before_a_model_is_looked_for() {
    let place = Place::new();
    let shown = [&["chat"][..], &["ask", "?"]].map(|command| {
        let bad = ["--templates-dir", "nowhere"];
        place.transcript(command.iter().chain(&bad))
    });
    insta::assert_snapshot!(shown.concat());
}
