//! Tools for an agent that works with a shell and on files, over a real session.

use crate::support::{answer, execute, python_with, text};
use cellblock_tools::{ToolRunner, shell_tools};
use serde_json::{Value, json};

fn runner() -> ToolRunner {
    python_with(|registry| registry.extend(shell_tools()))
}

fn shell(runner: &ToolRunner, arguments: Value) -> String {
    text(runner, "run_shell", arguments)
}

#[test]
fn a_shell_command_works_on_the_files_of_the_session() {
    let runner = runner();
    execute(&runner, "open('a.txt', 'w').write('three\\none\\ntwo\\n')");
    assert_eq!(
        shell(
            &runner,
            json!({"command": "sort a.txt; echo oops >&2; exit 3"})
        ),
        "output:\none\nthree\ntwo\nerrors:\noops\nexit code: 3"
    );
}

#[test]
fn a_shell_command_is_behind_the_walls_of_the_session() {
    let runner = runner();
    let seen = shell(
        &runner,
        json!({"command": "cat /etc/shadow; ls /root; id -u"}),
    );
    assert!(seen.contains("1000\n"), "{seen}");
    assert!(!seen.contains("root:"), "{seen}");
}

#[test]
fn a_shell_command_ends_with_its_time() {
    let runner = runner();
    let seen = shell(
        &runner,
        json!({"command": "echo begun; sleep 100", "timeout": 1}),
    );
    assert_eq!(seen, "output:\nbegun\nIt was ended: its time was over.");
}

#[test]
fn a_named_process_lives_on_across_cells_until_it_is_ended() {
    let runner = runner();
    let command = "python3 -m http.server 8765 --bind 127.0.0.1";
    let started = shell(&runner, json!({"command": command, "name": "web"}));
    assert!(started.starts_with("`web` was started."), "{started}");
    let code = "import time, urllib.request\nfor _ in range(100):\n    try:\n        print(urllib.request.urlopen('http://127.0.0.1:8765/').status)\n        break\n    except OSError:\n        time.sleep(0.1)";
    let seen = execute(&runner, code);
    assert!(seen.contains("200"), "{seen}");
    let listed = text(&runner, "background_process", json!({}));
    assert_eq!(listed, "These processes run: web");
    let twice = answer(
        &runner,
        "run_shell",
        json!({"command": "true", "name": "web"}),
    );
    assert!(
        twice
            .outcome
            .unwrap_err()
            .to_string()
            .contains("runs already")
    );
    let ended = text(
        &runner,
        "background_process",
        json!({"name": "web", "end": true}),
    );
    assert!(
        ended.contains("GET / HTTP/1.1") && ended.ends_with("It was ended."),
        "{ended}"
    );
    let listed = text(&runner, "background_process", json!({}));
    assert_eq!(listed, "No background process runs.");
}

#[test]
fn an_edit_changes_one_place_and_shows_the_change() {
    let runner = runner();
    let edit = |old: &str, new: &str| {
        let arguments = json!({"file_path": "/workspace/m.py", "old_text": old, "new_text": new});
        answer(&runner, "edit_file", arguments).outcome
    };
    let made = edit("", "def area(r):\n    return 3 * r\n").unwrap();
    assert!(made.to_text().contains("+def area(r):"));
    let diff = edit("3 * r", "3.14 * r ** 2").unwrap().to_text();
    assert_eq!(
        diff,
        "--- m.py\n+++ m.py\n@@ -1,2 +1,2 @@\n def area(r):\n-    return 3 * r\n+    return 3.14 * r ** 2"
    );
    assert!(
        edit("not there", "x")
            .unwrap_err()
            .to_string()
            .contains("not in the file")
    );
    assert!(edit("", "x").unwrap_err().to_string().contains("exists"));
    let outside = json!({"file_path": "/etc/passwd", "old_text": "root", "new_text": "x"});
    assert!(answer(&runner, "edit_file", outside).outcome.is_err());
    assert!(execute(&runner, "import m\nm.area(1)").contains("3.14"));
}

#[test]
fn lines_are_found_by_a_pattern_in_text_files_alone() {
    let runner = runner();
    execute(
        &runner,
        "import os\nos.mkdir('src')\nopen('src/a.py', 'w').write('x = 1\\nFIND: y\\n')\nopen('b.bin', 'wb').write(b'FIND \\xff')\nopen('c.txt', 'w').write('find\\n')",
    );
    let search = |arguments: Value| text(&runner, "search_files", arguments);
    assert_eq!(search(json!({"pattern": "FIND"})), "src/a.py:2: FIND: y");
    assert_eq!(
        search(json!({"pattern": "^find$", "ignore_case": true, "ending": ".txt"})),
        "c.txt:1: find"
    );
    assert_eq!(search(json!({"pattern": "z{3}"})), "No line matches.");
    let bad = answer(&runner, "search_files", json!({"pattern": "("})).outcome;
    assert!(
        bad.unwrap_err()
            .to_string()
            .contains("the pattern cannot be used")
    );
}
