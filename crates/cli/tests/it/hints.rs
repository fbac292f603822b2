//! What a hint names in each place where it appears: the flag or the command that helps there.

use crate::fake_model::FakeModel;
use crate::support::Place;

/// Code that runs into a limit or a wall, and what helps: in `exec`, in `repl`, and for a program at the pipe.
const OBSTACLES: [(&str, &str, &str, &str); 9] = [
    (
        "bytearray(200 << 30)",
        "hint: run it with --memory 8GB to allow more\n",
        "hint: start `cellblock repl` with --memory 8GB to allow more\n",
        "or raise the limit `memory`.",
    ),
    (
        "import threading, time; [threading.Thread(target=time.sleep, args=(5,)).start() for _ in range(500)]",
        "hint: run it with --processes 256 to allow more\n",
        "hint: start `cellblock repl` with --processes 256 to allow more\n",
        "or raise the limit `processes`.",
    ),
    (
        "[open('/dev/null') for _ in range(5000)]",
        "hint: run it with --open-files 8192 to allow more\n",
        "hint: start `cellblock repl` with --open-files 8192 to allow more\n",
        "or raise the limit `open_files`.",
    ),
    (
        "import socket; socket.create_connection(('example.com', 80), 5)",
        "hint: this session has no network: run it with --allow-net HOST to let it reach a host\n",
        "hint: this session has no network: start `cellblock repl` with --allow-net HOST to let it reach a host\n",
        "or open the session with `network`.",
    ),
    (
        "import urllib.request as u; u.urlopen('http://example.com')",
        "hint: this session has no network: run it with --allow-net HOST to let it reach a host\n",
        "hint: this session has no network: start `cellblock repl` with --allow-net HOST to let it reach a host\n",
        "or open the session with `network`.",
    ),
    (
        "import nowhere.at_all",
        "hint: `nowhere` is not part of this session: run it with --env NAME, after `cellblock env create NAME nowhere`\n",
        "hint: `nowhere` is not part of this session: `%pip install nowhere` installs it\n",
        "open it in an environment that has them (`env`).",
    ),
    (
        "import cv2",
        "run it with --env NAME, after `cellblock env create NAME opencv-python-headless`\n",
        "`%pip install opencv-python-headless` installs it\n",
        "The package 'opencv-python-headless', which has the module 'cv2',",
    ),
    (
        "open('sales.csv')",
        "hint: the session sees only the files of its workspace: run it with --workspace DIR to work in the directory of the file\n",
        "hint: the session sees only the files of its workspace: start `cellblock repl` with --workspace DIR to work in the directory of the file\n",
        "and this one is not among them.",
    ),
    (
        "open('/home/ada/sales.csv')",
        "run it with --workspace DIR to work in the directory of the file\n",
        "start `cellblock repl` with --workspace DIR to work in the directory of the file\n",
        "put the file into the workspace",
    ),
];

#[test]
fn a_hint_names_what_helps_in_the_place_where_it_appears() {
    for (code, in_exec, in_repl, at_the_pipe) in OBSTACLES {
        let place = Place::new();
        let said = place.run(["exec", "--stdlib", "-c", code]).stderr;
        assert!(said.contains(in_exec), "exec, {code}: {said}");
        let said = place
            .run_with(["repl", "--stdlib"], format!("{code}\n").as_bytes())
            .stderr;
        assert!(said.contains(in_repl), "repl, {code}: {said}");
        let request = serde_json::json!({"id": 1, "op": "run", "code": code});
        let said = place
            .run_with(["pipe", "--stdlib"], format!("{request}\n").as_bytes())
            .stdout;
        assert!(said.contains(at_the_pipe), "pipe, {code}: {said}");
    }
}

#[test]
fn a_person_who_named_a_workspace_is_not_told_to_name_one() {
    const SAID: &str =
        "hint: The session sees only the files of its workspace, and this one is not among them.\n";
    let place = Place::new();
    let code = "open('slaes.csv')";
    let said = place
        .run(["exec", "--stdlib", "-w", ".", "-c", code])
        .stderr;
    assert!(
        said.contains(SAID) && !said.contains("--workspace"),
        "{said}"
    );
    let said = place.run_with(["repl", "--stdlib", "-w", "."], b"open('slaes.csv')\n");
    assert!(said.stderr.contains(SAID), "{}", said.stderr);
    assert!(!said.stderr.contains("--workspace"), "{}", said.stderr);
}

#[test]
fn a_package_is_named_where_a_library_wraps_the_error_of_its_import() {
    let code = "
try:
    import nowhere
except ImportError as error:
    raise ImportError('Missing optional dependency') from error";
    let said = Place::new().run(["exec", "--stdlib", "-c", code]).stderr;
    let expected = "hint: `nowhere` is not part of this session: run it with --env NAME, after `cellblock env create NAME nowhere`\n";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn a_notebook_that_is_run_as_a_file_names_the_flags_of_exec() {
    let place = Place::new();
    let cell = serde_json::json!({
        "cell_type": "code", "id": "a", "metadata": {}, "execution_count": null, "outputs": [],
        "source": "import nowhere",
    });
    let notebook =
        serde_json::json!({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]});
    let file = place.path().join("report.ipynb");
    std::fs::write(&file, notebook.to_string()).unwrap();
    place.run(["exec", "--stdlib", "report.ipynb"]);
    let written = std::fs::read_to_string(&file).unwrap();
    let expected = "hint: `nowhere` is not part of this session: run it with --env NAME";
    assert!(written.contains(expected), "{written}");
    assert!(!written.contains("install_packages"), "{written}");
}

/// A host beside those that a session may reach, asked for in two ways.
const OTHER_HOST: [&str; 2] = [
    "import urllib.request as u; u.urlopen('http://example.com')",
    "import urllib.request as u; u.urlopen('https://example.com')",
];

#[test]
fn a_host_that_no_rule_names_is_answered_with_the_hosts_that_rules_name_and_the_flag() {
    const KNOWN: &str = "This session may reach only example.org, by way of the proxy";
    for code in OTHER_HOST {
        let place = Place::new();
        let flags = ["--stdlib", "--allow-net", "example.org"];
        let said = place
            .run(["exec", "-c", code].into_iter().chain(flags))
            .stderr;
        let flag = "hint: run it with --allow-net HOST to let it reach a host\n";
        assert!(said.contains(KNOWN) && said.contains(flag), "{said}");
        let typed = format!("{code}\n");
        let said = place.run_with(["repl"].into_iter().chain(flags), typed.as_bytes());
        let flag = "hint: start `cellblock repl` with --allow-net HOST to let it reach a host\n";
        assert!(
            said.stderr.contains(KNOWN) && said.stderr.contains(flag),
            "{}",
            said.stderr
        );
        let requests = [
            serde_json::json!({"id": 1, "op": "open", "network": ["example.org"]}),
            serde_json::json!({"id": 2, "op": "run", "code": code}),
        ];
        let lines: String = requests.iter().map(|line| format!("{line}\n")).collect();
        let said = place
            .run_with(["pipe", "--stdlib"], lines.as_bytes())
            .stdout;
        assert!(said.contains(KNOWN), "{said}");
    }
}

#[test]
fn memory_that_ends_the_process_is_answered_with_the_flag() {
    let code = "import mmap; held = mmap.mmap(-1, 2 << 30, flags=0x4022); [held.__setitem__(n, 1) for n in range(0, 2 << 30, 4096)]";
    let place = Place::new();
    let flags = ["--stdlib", "--memory", "200MB"];
    let said = place
        .run(["exec", "-c", code].into_iter().chain(flags))
        .stderr;
    let expected = "hint: run it with --memory 8GB to allow more\n";
    assert!(said.contains(expected), "{said}");
    let typed = format!("{code}\n");
    let said = place.run_with(["repl"].into_iter().chain(flags), typed.as_bytes());
    let expected = "hint: start `cellblock repl` with --memory 8GB to allow more\n";
    assert!(said.stderr.contains(expected), "{}", said.stderr);
    let requests = [
        serde_json::json!({"id": 1, "op": "open", "limits": {"memory": "200MB"}}),
        serde_json::json!({"id": 2, "op": "run", "code": code}),
    ];
    let lines: String = requests.iter().map(|line| format!("{line}\n")).collect();
    let said = place.run_with(["pipe", "--stdlib"], lines.as_bytes());
    let expected = "work on less at a time, or raise the limit `memory`";
    assert!(said.stdout.contains(expected), "{}", said.stdout);
}

#[test]
fn an_environment_that_is_not_there_is_answered_with_the_commands_for_environments() {
    let model = FakeModel::saying(["Hello."]);
    let with_model = ["--model", "fake", "--base-url", &model.url];
    let commands = [
        &["exec", "-c", "1"][..],
        &["repl"],
        &["pipe"],
        &["mcp"],
        &["serve", "--listen", "127.0.0.1:0"],
        &["ask", "?", "--model", "fake", "--base-url", &model.url],
        &[["chat"].as_slice(), &with_model].concat(),
    ];
    let hint =
        "hint: `cellblock env list` shows them, and `cellblock env create NAME PACKAGE…` makes one";
    for command in commands {
        let flags = ["--env", "nowhere"];
        let said = Place::new().run(command.iter().copied().chain(flags));
        assert!(said.stderr.contains(hint), "{command:?}: {}", said.stderr);
    }
}

#[test]
fn a_person_is_told_the_flag_of_ask_when_the_code_of_a_model_meets_a_limit() {
    let model = FakeModel::saying(["```python\nbytearray(200 << 30)\n```", "It is too much."]);
    let arguments = [
        "ask",
        "--stdlib",
        "--model",
        "fake",
        "--base-url",
        &model.url,
        "--format",
        "markdown",
        "Take it.",
    ];
    let said = Place::new().run(arguments).stderr;
    let hint = "hint: start `cellblock ask` with --memory 8GB to allow more\n";
    assert!(said.contains(hint), "{said}");
}

#[test]
fn a_cell_that_takes_too_long_is_told_how_to_get_more_time() {
    let place = Place::new();
    let code = "import time; time.sleep(60)";
    let said = place.run(["exec", "--stdlib", "--timeout", "1", "-c", code]);
    let expected = "hint: run it with --timeout 10min to allow more\n";
    assert!(said.stderr.ends_with(expected), "{}", said.stderr);
}
