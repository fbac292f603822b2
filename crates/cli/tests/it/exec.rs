//! `cellblock exec`: where the code comes from, and what is printed.

use crate::support::{Ended, Place, normal};
use serde_json::{Value, json};
use std::fs;
use std::io::Read as _;
use std::process::Stdio;

#[test]
fn none_is_not_printed_and_a_value_begins_its_own_line() {
    let ended = Place::new().exec("print('a', end='')\nNone", &[]);
    assert_eq!(ended.stdout, "a");
    let ended = Place::new().exec("print('a', end='')\n5", &[]);
    assert_eq!(ended.stdout, "a\n5\n");
}

#[test]
fn each_stream_goes_to_its_own() {
    let ended = Place::new().exec(
        "import sys, os\nprint('out')\nprint('err', file=sys.stderr)\nos.write(1, b'low\\n')",
        &[],
    );
    assert_eq!((ended.status, &ended.stderr[..]), (0, "err\n"));
    assert!(ended.stdout.starts_with("out\nlow\n"), "{ended:?}");
}

#[test]
fn code_comes_from_a_file_or_from_standard_input() {
    let place = Place::new();
    fs::write(
        place.path().join("script.py"),
        "\u{feff}print('from a file: é')",
    )
    .unwrap();
    let outputs = [
        place.run(["exec", "--stdlib", "script.py"]).stdout,
        place
            .run_with(["exec", "--stdlib"], b"print('piped')")
            .stdout,
        place
            .run_with(["exec", "--stdlib", "-"], b"print('dash')")
            .stdout,
    ];
    assert_eq!(outputs, ["from a file: é\n", "piped\n", "dash\n"]);
}

#[test]
fn run_is_another_name_of_the_command() {
    let place = Place::new();
    let ended = place.run(["run", "--stdlib", "-c", "6 * 7"]);
    assert_eq!((ended.status, &ended.stdout[..]), (0, "42\n"), "{ended:?}");
}

#[test]
fn a_script_finds_its_name_and_its_arguments_as_under_python() {
    let place = Place::new();
    let script = "import sys\nprint(__file__, sys.argv, __name__)\nsys.exit(0)\n";
    fs::write(place.path().join("script.py"), script).unwrap();
    let ended = place.run(["exec", "--stdlib", "script.py", "--", "--rows", "a b"]);
    assert_eq!(
        (ended.status, ended.stdout.trim(), ended.stderr.trim()),
        (0, "script.py ['script.py', '--rows', 'a b'] __main__", "")
    );
}

#[test]
fn a_picture_is_saved_and_named() {
    let place = Place::new();
    let code = "class Dot:\n    def _repr_png_(self):\n        return b'not really a picture'\ndisplay(Dot())";
    insta::assert_snapshot!(place.transcript(["exec", "--stdlib", "--workspace", ".", "-c", code]));
    let saved = place.path().join("plots/cell-1.png");
    assert_eq!(fs::read(saved).unwrap(), b"not really a picture");
}

#[test]
fn modules_and_variables_are_there_beforehand() {
    let arguments = [
        "--import",
        "math",
        "--import",
        "json as j",
        "--var",
        "n=9",
        "--var",
        "who=\"Ada\"",
    ];
    let ended = Place::new().exec("math.sqrt(n), j.dumps(who)", &arguments);
    assert_eq!(ended.stdout, "(3.0, '\"Ada\"')\n");
}

#[test]
fn files_stay_in_the_workspace_that_was_named() {
    let place = Place::new();
    let workspace = place.path().join("data");
    fs::create_dir(&workspace).unwrap();
    fs::write(workspace.join("in.txt"), "given").unwrap();
    let code = "open('out.txt', 'w').write(open('in.txt').read().upper())";
    let ended = place.exec(code, &["--workspace", "data", "--verbose"]);
    assert_eq!(
        fs::read_to_string(workspace.join("out.txt")).unwrap(),
        "GIVEN"
    );
    let path = fs::canonicalize(&workspace).unwrap().join("out.txt");
    assert_eq!(
        ended.stderr.lines().next().unwrap(),
        format!("created {} (5 bytes)", path.display())
    );
    assert!(
        ended
            .stderr
            .lines()
            .nth(1)
            .unwrap()
            .starts_with("success in "),
        "{ended:?}"
    );
}

#[test]
fn json_is_the_whole_result_and_nothing_else() {
    let ended = Place::new().exec(
        "print('start')\nk = 0\n1/k",
        &["--json", "--isolation", "full"],
    );
    assert_eq!((ended.status, &ended.stderr[..]), (1, ""));
    let result: Value = serde_json::from_str(&ended.stdout).unwrap();
    let expected = json!({
        "session": "s1", "cell": 1, "status": "failure", "exit_code": null, "signal": null,
        "stdout": "start\n", "stderr": "", "output": "start\n", "truncated": null,
        "value": null, "displays": [],
        "error": {
            "type": "ZeroDivisionError", "value": "division by zero", "repr": "ZeroDivisionError('division by zero')",
            "traceback": "Traceback (most recent call last):\n  File \"<cell 1>\", line 3, in <module>\n    1/k\nZeroDivisionError: division by zero\n",
            "frames": [{"file": "<cell 1>", "line": 3, "function": "<module>", "source": "1/k", "locals": {"k": "0"}}],
        },
        "variables": {"added": [{"name": "k", "type": "int", "summary": "0"}], "changed": [], "removed": []},
        "files": {"created": [], "changed": [], "deleted": []},
        "state": {"outcome": "kept", "checkpoint": 0},
        "usage": {"wall_ms": 0, "cpu_ms": 0, "peak_bytes": 0, "stdout_bytes": 6, "stderr_bytes": 0},
        "tool_calls": [], "strategy": "direct", "backend": "local", "isolation": "full",
    });
    assert_eq!(normal(result), expected);
}

#[test]
fn colours_come_when_they_are_asked_for() {
    let place = Place::new();
    let last = |ended: Ended| ended.stderr.lines().last().unwrap().to_owned();
    assert_eq!(
        last(place.exec("1/0", &[])),
        "ZeroDivisionError: division by zero"
    );
    let coloured = "\u{1b}[1;31mZeroDivisionError: division by zero\u{1b}[0m";
    assert_eq!(last(place.exec("1/0", &["--color", "always"])), coloured);
}

#[test]
fn escapes_of_the_code_reach_a_pipe_as_they_are() {
    assert_eq!(
        Place::new().exec(r"print('\x1b[31mred')", &[]).stdout,
        "\u{1b}[31mred\n"
    );
}

#[test]
fn a_flood_arrives_whole() {
    let ended = Place::new().exec("for n in range(300_000): print('line', n)", &[]);
    let expected: String = (0..300_000).map(|n| format!("line {n}\n")).collect();
    assert_eq!(ended.status, 0);
    assert!(
        ended.stdout == expected,
        "{} bytes of {}",
        ended.stdout.len(),
        expected.len()
    );
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let place = Place::new();
    let mut command = place.command(["exec", "--stdlib", "-c", "while True: print('x' * 1000)"]);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let mut stderr = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut stderr)
        .unwrap();
    assert_eq!((child.wait().unwrap().code(), &stderr[..]), (Some(141), ""));
}

#[test]
fn how_cells_run_is_a_choice() {
    let state = |flags: &[&str], code: &str| {
        let flags = [flags, &["--json"]].concat();
        let ended = Place::new().exec(code, &flags);
        let result: Value = serde_json::from_str(&ended.stdout).unwrap();
        let state = &result["state"];
        (
            result["strategy"].clone(),
            state["outcome"].clone(),
            state["checkpoint"]["status"].clone(),
        )
    };
    let failing = "open('made', 'w').close()\n1 / 0";
    let cases = [
        (&[][..], "x = 1", ["direct", "kept", "unavailable"]),
        (
            &["--strategy", "process"],
            "x = 1",
            ["process", "kept", "armed"],
        ),
        (
            &["--strategy", "thread"],
            "x = 1",
            ["thread", "kept", "armed"],
        ),
        (&["--atomic"], failing, ["process", "restored", "armed"]),
    ];
    for (flags, code, expected) in cases {
        let [strategy, outcome, checkpoint] = expected.map(|word| json!(word));
        assert_eq!(
            state(flags, code),
            (strategy, outcome, checkpoint),
            "{flags:?}"
        );
    }
    let flags = ["--atomic", "--strategy", "direct"];
    let refused = ["exec", "--stdlib", "-c", "1"].into_iter().chain(flags);
    insta::assert_snapshot!(Place::new().transcript(refused));
}

/// Code of an earlier session can have put a pipe in the place of a notebook. Reading it would wait for ever.
#[test]
fn a_notebook_that_became_a_pipe_is_refused() {
    let place = Place::new();
    let workspace = place.path().join("work");
    fs::create_dir(&workspace).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(workspace.join("n.ipynb"))
        .status();
    assert!(made.unwrap().success());
    insta::assert_snapshot!(place.transcript(["exec", "-w", "work", "work/n.ipynb"]));
}

/// Code of a notebook can put a link in the place of the notebook, which lies in the workspace. Its outputs are not written through the link.
#[test]
fn a_notebook_is_written_back_through_no_link() {
    let place = Place::new();
    let (workspace, profile) = (place.path().join("work"), place.path().join("profile"));
    fs::create_dir(&workspace).unwrap();
    fs::write(&profile, "precious").unwrap();
    let code = format!(
        "import os\nos.unlink('n.ipynb')\nos.symlink({profile:?}, 'n.ipynb')\nprint('seen')"
    );
    let notebook = workspace.join("n.ipynb");
    let text = json!({
        "cells": [{
            "cell_type": "code", "id": "a", "metadata": {}, "execution_count": null,
            "outputs": [], "source": code,
        }],
        "metadata": {}, "nbformat": 4, "nbformat_minor": 5,
    });
    fs::write(&notebook, text.to_string()).unwrap();
    let ended = place.run(["exec", "-w", "work", "work/n.ipynb"]);
    assert_eq!(ended.status, 0, "{ended:?}");
    assert_eq!(fs::read_to_string(&profile).unwrap(), "precious");
    assert!(fs::symlink_metadata(&notebook).unwrap().is_file());
    assert!(fs::read_to_string(&notebook).unwrap().contains("seen"));
}
