//! `cellblock tools`: the list, calls by hand, and a person who is asked.

use crate::support::{Ended, Place};
use crate::terminal::Terminal;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

fn call(place: &Place, name: &str, arguments: &Value, more: &[&str]) -> Ended {
    let arguments = arguments.to_string();
    let first = ["tools", "call", name, &arguments, "--stdlib"];
    place.run(first.iter().chain(more))
}

fn ended(status: i32, stdout: &str, stderr: &str) -> Ended {
    Ended {
        status,
        stdout: stdout.to_owned(),
        stderr: stderr.to_owned(),
    }
}

#[test]
fn the_schemas_are_printed_as_a_model_gets_them() {
    let ended = Place::new().run(["tools", "undo", "--json"]);
    let schemas: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(schemas.as_array().unwrap().len(), 1);
    let function = &schemas[0]["function"];
    assert_eq!(function["name"], "undo");
    assert_eq!(
        function["parameters"]["required"],
        json!(["tool_call_purpose"])
    );
    assert_eq!(function["parameters"]["additionalProperties"], false);
    let all: Value = serde_json::from_str(&Place::new().run(["tools", "--json"]).stdout).unwrap();
    assert!(all.as_array().unwrap().len() > 5);
}

#[test]
fn a_tool_can_be_called_by_hand() {
    let place = Place::new();
    let arguments = json!({"code": "2**100", "description": "a power"});
    assert_eq!(
        call(&place, "compute", &arguments, &[]),
        ended(
            0,
            "{\"result\":\"1267650600228229401496703205376\",\"error\":null}\n",
            ""
        )
    );
    fs::write(place.path().join("notes.txt"), "hello").unwrap();
    assert_eq!(
        call(
            &place,
            "file_reader",
            &json!({"file_path": "notes.txt"}),
            &["--workspace", "."]
        ),
        ended(0, "File contents (5 chars):\nhello\n", "")
    );
}

#[test]
fn arguments_can_come_from_standard_input_and_the_answer_as_json() {
    let place = Place::new();
    let input = br#"{"python_code_snippet": "print(6 * 7)"}"#;
    let ended = place.run_with(
        [
            "tools",
            "call",
            "execute_python_code",
            "-",
            "--stdlib",
            "--json",
        ],
        input,
    );
    let answer: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(answer["ok"], true);
    assert_eq!(answer["output"]["structured"]["stdout"], "42\n");
}

#[test]
fn h3_without_a_terminal_what_needs_approval_is_refused() {
    let code = json!({"python_code_snippet": "print('ran')"});
    assert_eq!(
        call(
            &Place::new(),
            "execute_python_code",
            &code,
            &["--approve", "all"]
        ),
        ended(
            1,
            "",
            "error: `execute_python_code` was not run: it needs a person's approval, and no person can be asked here\n"
        )
    );
}

/// A terminal in which a call waits for a person.
fn asked(place: &Place, environment: &[(&str, &str)]) -> Terminal {
    let arguments =
        r#"{"python_code_snippet": "print('as written')", "tool_call_purpose": "to see it run"}"#;
    let command = [
        "tools",
        "call",
        "execute_python_code",
        arguments,
        "--stdlib",
        "--approve",
        "code",
        "--color",
        "never",
    ];
    let mut terminal = Terminal::open_with(place, &command, environment);
    terminal.wait_for(
        "execute_python_code, called by you\nwhy: to see it run\n  print('as written')\n",
    );
    terminal.wait_for("this run? ");
    terminal
}

#[test]
fn h2_a_person_at_the_terminal_accepts() {
    let place = Place::new();
    let mut terminal = asked(&place, &[]);
    terminal.type_line("what?");
    terminal.wait_for("hint: answer with one of the letters in brackets\n");
    terminal.wait_for("this run? ");
    terminal.type_line("a");
    terminal.wait_for("as written\n");
    assert_eq!(terminal.ended(), 0);
}

#[test]
fn h2_a_person_at_the_terminal_edits_in_their_editor() {
    let place = Place::new();
    let editor = place.path().join("editor");
    fs::write(&editor, "#!/bin/sh\nsed -i s/written/edited/ \"$2\"\n").unwrap();
    fs::set_permissions(&editor, fs::Permissions::from_mode(0o755)).unwrap();
    let command = format!("{} --wait", editor.display());
    let mut terminal = asked(&place, &[("EDITOR", &command)]);
    terminal.type_line("e");
    terminal.wait_for(
        "Note: the user edited the code before it ran. This ran instead:\nprint('as edited')\n",
    );
    terminal.wait_for("### Terminal output:\nas edited\n");
    assert_eq!(terminal.ended(), 0);
}

#[test]
fn h2_an_editor_that_fails_or_changes_nothing_asks_again() {
    let place = Place::new();
    let mut terminal = asked(&place, &[("EDITOR", "false")]);
    terminal.type_line("e");
    terminal.wait_for("error: the editor `false` ended with exit status: 1\n");
    terminal.wait_for("this run? ");
    terminal.type_line("j");
    terminal.wait_for("error: `execute_python_code` was not run: the user rejected it\n");
    assert_eq!(terminal.ended(), 1);
    let mut terminal = asked(&place, &[("EDITOR", "true")]);
    terminal.type_line("e");
    terminal.wait_for("Nothing was changed.\n");
    terminal.wait_for("this run? ");
    terminal.type_line("w");
    terminal.wait_for("as written\n");
    assert_eq!(terminal.ended(), 0);
}

#[test]
fn h2_a_person_at_the_terminal_answers_the_model() {
    let place = Place::new();
    let mut terminal = asked(&place, &[]);
    terminal.type_line("r");
    terminal.wait_for("Your answer to the model: ");
    terminal.type_line("use the other file");
    terminal.wait_for(
        "error: `execute_python_code` was not run; the user answers: use the other file\n",
    );
    assert_eq!(terminal.ended(), 1);
}

#[test]
fn a_person_who_goes_away_has_not_agreed() {
    let place = Place::new();
    let mut terminal = asked(&place, &[]);
    terminal.keys("\x04");
    terminal.wait_for("was not run: the user rejected it: no person answered\n");
    assert_eq!(terminal.ended(), 1);
    let mut terminal = asked(&place, &[]);
    terminal.keys("\x03");
    assert_eq!(terminal.ended(), 130);
}

#[test]
fn the_python_tools_of_the_page_are_listed_and_called() {
    let page =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tools.md")).unwrap();
    let section = page.split("## Tools written in Python").nth(1).unwrap();
    let block = |kind: &str| {
        let rest = section.split(&format!("```{kind}\n")).nth(1).unwrap();
        rest.split("```").next().unwrap()
    };
    let place = Place::new();
    fs::create_dir(place.path().join("my-tools")).unwrap();
    fs::write(place.path().join("my-tools/weather.py"), block("python")).unwrap();
    let mut told = block("console").lines();
    while let (Some(command), Some(printed)) = (told.next(), told.next()) {
        let script = command.strip_prefix("$ cellblock ").unwrap();
        let ended = place.shell(&script.replacen("--tools-dir", "--stdlib --tools-dir", 1));
        assert_eq!(
            (ended.status, ended.stdout),
            (0, format!("{printed}\n")),
            "{}",
            ended.stderr
        );
    }
    let listed = place.run([
        "tools",
        "temperature",
        "--tools-dir",
        "my-tools",
        "--stdlib",
    ]);
    assert_eq!(
        listed.stdout,
        "temperature\n  The temperature in a city, in degrees.\n    city (string): The name of the city, such as Oslo.\n    \
         unit (any, default \"C\"): The scale.\n"
    );
}

#[test]
fn python_tools_that_cannot_be_used_are_named() {
    let place = Place::new();
    fs::create_dir(place.path().join("bad")).unwrap();
    fs::write(
        place.path().join("bad/a.py"),
        "import re\ndef f(x: re.Pattern): ...",
    )
    .unwrap();
    let told = place.run(["tools", "--tools-dir", "bad", "--stdlib"]);
    assert_eq!((told.status, &told.stdout[..]), (2, ""));
    assert!(
        told.stderr.starts_with(
            "error: the tools in bad cannot be used: a.py: f(): the parameter 'x' has the type"
        ),
        "{}",
        told.stderr
    );
    fs::write(
        place.path().join("bad/a.py"),
        "def undo():\n    'Same name as one of ours.'",
    )
    .unwrap();
    let told = place.run(["tools", "--tools-dir", "bad", "--stdlib"]);
    assert_eq!(
        told,
        ended(
            2,
            "",
            "error: two tools are called `undo`; rename one of them\n"
        )
    );
    let told = place.run([
        "tools",
        "--tools-dir",
        "bad",
        "--tools-secret",
        "NO_SUCH_VARIABLE",
    ]);
    assert_eq!(
        told,
        ended(
            2,
            "",
            "error: --tools-secret NO_SUCH_VARIABLE: there is no such variable in the environment\n"
        )
    );
}

/// A page on the loopback of the host, for one visitor.
fn page(text: &'static str) -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        let (mut visitor, _) = listener.accept().unwrap();
        let _ = visitor.read(&mut [0; 4096]);
        let length = text.len();
        let _ = write!(
            visitor,
            "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{text}"
        );
    });
    port
}

#[test]
fn python_tools_reach_the_hosts_that_they_are_given_and_the_code_of_models_does_not() {
    let place = Place::new();
    let port = page("the news");
    fs::create_dir(place.path().join("web")).unwrap();
    let fetch = format!(
        "import urllib.request\ndef fetch() -> str:\n    'The news.'\n    return urllib.request.urlopen('http://127.0.0.1:{port}/').read().decode()\n"
    );
    fs::write(place.path().join("web/news.py"), fetch).unwrap();
    let rule = format!("127.0.0.1:{port}");
    let code = format!(
        r#"{{"python_code_snippet": "import urllib.request\ntry: urllib.request.urlopen('http://{rule}/')\nexcept OSError: print('no way out')\nprint(fetch())"}}"#
    );
    let call = |rule: &[&str]| {
        let mut words = vec![
            "tools",
            "call",
            "execute_python_code",
            &code,
            "--stdlib",
            "--for-model",
        ];
        words.extend(["--tools-dir", "web"]);
        words.extend(rule);
        place.transcript(words)
    };
    let seen = call(&[]) + &call(&["--tools-allow-net", &rule]);
    insta::assert_snapshot!(seen);
}
