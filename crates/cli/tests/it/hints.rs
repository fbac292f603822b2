//! What a hint names in each place where it appears: the flag or the command that helps there.

use crate::fake_model::FakeModel;
use crate::support::Place;

/// Code that runs into a limit or a wall, and what helps: in `exec`, in `repl`, and for a program at the pipe.
const OBSTACLES: [(&str, &str, &str, &str); 5] = [
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
        "hint: run it with --allow-net HOST to let it reach a host\n",
        "hint: start `cellblock repl` with --allow-net HOST to let it reach a host\n",
        "This session has no network",
    ),
    (
        "import nowhere.at_all",
        "hint: `nowhere` is not part of this session: run it with --env NAME, in an environment that has it (`cellblock env create`)\n",
        "hint: `nowhere` is not part of this session: `%pip install nowhere` installs it, where the package has the name of its module\n",
        "ask for them with install_packages.",
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
