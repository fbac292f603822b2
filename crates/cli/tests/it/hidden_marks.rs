//! Text that would turn its direction, hide a part of itself, or command the terminal: a person at a terminal sees what is there.

use crate::support::{Ended, Place};
use crate::terminal::Terminal;
use serde_json::Value;
use std::fs;

/// What may not reach a terminal: one of each kind.
const HIDDEN: [char; 20] = [
    '\u{202e}',
    '\u{202a}',
    '\u{2066}',
    '\u{2069}',
    '\u{200e}',
    '\u{200f}',
    '\u{61c}',
    '\u{ad}',
    '\u{200b}',
    '\u{2060}',
    '\u{feff}',
    '\u{e0041}',
    '\u{3164}',
    '\u{115f}',
    '\u{2028}',
    '\u{fe00}',
    '\u{9b}',
    '\u{9d}',
    '\u{7}',
    '\u{8}',
];
/// The same as Python writes them in a text.
const WRITTEN: &str = r"\u202e\u202a\u2066\u2069\u200e\u200f\u061c\xad\u200b\u2060\ufeff\U000e0041\u3164\u115f\u2028\ufe00\x9b\x9d\x07\x08\x1b]0;owned\x07";

/// Whether the screen got nothing of it. What the line editor and our own colours need is left out.
fn assert_clean(raw: &str) {
    for hidden in HIDDEN {
        assert!(!raw.contains(hidden), "{hidden:?} is in {raw:?}");
    }
    assert!(!raw.contains("\u{1b}]"), "{raw:?}");
}

fn at_a_terminal(place: &Place, arguments: &[&str]) -> String {
    let mut terminal = Terminal::open(place, arguments);
    if arguments.contains(&"restore") {
        terminal.wait_for(">>> ");
        terminal.keys("\u{4}");
    }
    terminal.ended();
    terminal.raw.clone()
}

#[test]
fn names_of_files_and_what_code_prints_hide_nothing_from_a_person() {
    let place = Place::new();
    let code = format!(
        "import sys
name = 'photo{WRITTEN}gpj.exe'
open(name, 'w').close()
print('out' + name)
print('err' + name, file=sys.stderr)
raise ValueError('no ' + name)"
    );
    let raw = at_a_terminal(&place, &["exec", "--stdlib", "-c", &code]);
    assert_clean(&raw);
    // Two names that differ do not look the same.
    assert!(raw.contains("photo\\u{202e}\\u{202a}"), "{raw:?}");
    assert!(raw.contains("outphoto"), "{raw:?}");
}

#[test]
fn json_at_a_terminal_hides_nothing_and_is_still_exact() {
    let place = Place::new();
    let code = format!("print('a{WRITTEN}b', end='')");
    let arguments = ["exec", "--stdlib", "--json", "-c", &code];
    let raw = at_a_terminal(&place, &arguments);
    assert_clean(&raw);
    let line = raw.lines().find(|line| line.starts_with('{')).unwrap();
    let shown: Value = serde_json::from_str(line).unwrap();
    let Ended { stdout, .. } = place.run(arguments);
    assert!(stdout.contains('\u{202e}'), "{stdout:?}");
    let exact: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(shown["stdout"], exact["stdout"]);
}

#[test]
fn the_prompt_lists_variables_and_files_without_hidden_marks() {
    let place = Place::new();
    let mut terminal = Terminal::open(&place, &["repl", "--stdlib"]);
    terminal.wait_for(">>> ");
    // What is waited for does not stand in what is typed, for that is echoed.
    for (line, shown) in [
        (
            format!("globals()['zebra{WRITTEN}'] = 'x{WRITTEN}'; 'do' 'ne'"),
            "'done'",
        ),
        (
            format!("open('ya' 'k{WRITTEN}', 'w').write('1'); 'writ' 'ten'"),
            "'written'",
        ),
        ("%vars".to_owned(), "zebra\\u{202e}"),
        ("%files".to_owned(), "yak\\u{202e}"),
        (format!("input('wh' 'y{WRITTEN}? ')"), "why"),
        ("because".to_owned(), "'because'"),
    ] {
        terminal.type_line(&line);
        terminal.wait_for(shown);
    }
    terminal.wait_for(">>> ");
    terminal.keys("zeb\t\t");
    // The line is taken back.
    terminal.keys("\u{15}");
    terminal.type_line("%quit");
    terminal.ended();
    // The line editor rings where there is nothing to complete.
    assert_clean(&terminal.raw.replace('\u{7}', ""));
}

#[test]
fn lines_of_the_pipe_at_a_terminal_are_escaped() {
    let place = Place::new();
    let mut terminal = Terminal::open(&place, &["pipe", "--stdlib"]);
    terminal.type_line(r#"{"id": "1", "op": "run", "code": "print('a\\u202eb', end='')"}"#);
    terminal.wait_for(r#""event":"result""#);
    terminal.wait_for("\n");
    terminal.keys("\u{4}");
    terminal.ended();
    assert_clean(&terminal.raw);
    assert!(terminal.raw.contains(r"a\u202eb"), "{:?}", terminal.raw);
}

#[test]
fn journals_tools_and_errors_hide_nothing() {
    let place = Place::new();
    let mark = "\u{202e}\u{200b}\u{1b}]0;owned\u{7}";
    let code = format!("note = 'a{WRITTEN}'  # {mark}");
    let ended = place.run(["exec", "--stdlib", "--journal", "-c", &code]);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    let listed = place.run(["sessions", "list", "--json"]).stdout;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let id = listed[0]["id"].as_str().unwrap();
    fs::create_dir(place.path().join("tools")).unwrap();
    fs::write(
        place.path().join("tools/evil.py"),
        format!("def evil(text: str) -> str:\n    \"\"\"Does{mark} it.\"\"\"\n    return text\n"),
    )
    .unwrap();
    let missing = format!("no{mark}such.py");
    let option = format!("--no{mark}such");
    let config = place.path().join("broken.toml");
    fs::write(&config, format!("\"{mark}\" = 1\n")).unwrap();
    let config = config.display().to_string();
    for arguments in [
        vec!["sessions", "list"],
        vec!["sessions", "show", id],
        vec!["sessions", "show", id, "--json"],
        vec!["sessions", "export", id],
        vec!["sessions", "export", id, "--as", "notebook"],
        vec!["sessions", "restore", id],
        vec!["sessions", "show", &missing],
        vec!["tools", "--tools-dir", "tools"],
        vec!["tools", "--tools-dir", "tools", "--json"],
        vec!["exec", "--stdlib", &missing],
        vec!["exec", &option],
        vec!["config", "--config", &config],
        vec!["env", "show", &missing],
        vec!["trace", &missing],
        vec!["runs", "show", &missing],
    ] {
        let raw = at_a_terminal(&place, &arguments);
        assert!(!raw.trim().is_empty(), "{arguments:?} printed nothing");
        assert_clean(&raw);
    }
}
