//! Whole commands with everything that they print: results, and the main errors with their hints.

use crate::snapshot::normal_text;
use crate::support::Place;
use std::fs;
use std::net::TcpListener;

/// A directory with the files that the commands below name.
fn place() -> Place {
    let place = Place::new();
    let write = |name: &str, contents: &[u8]| fs::write(place.path().join(name), contents).unwrap();
    write("broken.py", b"def f():\n    return 1 / 0\nf()\n");
    write("latin.py", b"s = 'caf\xe9'");
    write("notes.txt", b"hello");
    write("unknown-key.toml", b"[mcp.servers.web]\ncomand = \"x\"\n");
    write("wrong-mode.toml", b"[approval]\nmode = \"sometimes\"\n");
    write("broken.toml", b"[tools\n");
    write("no-suite.toml", b"[[task]]\n");
    write(
        "suite.toml",
        b"name = \"s\"\n[[tasks]]\nname = \"t\"\nquestion = \"?\"\nchecks = [{ check = \"exact\", answer = \"x\" }]\n",
    );
    write("schema.json", b"{not json");
    place
}

/// Runs each command line, with this text as standard input, and prints what it printed.
fn transcript(lines: &[(&[&str], &str)]) -> String {
    let place = place();
    let shown = lines
        .iter()
        .map(|(arguments, input)| place.transcript_with(arguments.iter(), input));
    shown.collect()
}

macro_rules! transcripts {
    ($($name:ident: $([$($argument:expr),*] $(<< $input:expr)?),*;)*) => {$(
        #[test]
        fn $name() {
            let lines: &[(&[&str], &str)] = &[$((&[$($argument),*], concat!("" $(, $input)?))),*];
            insta::assert_snapshot!(transcript(lines));
        }
    )*};
}

transcripts! {
    exec_prints_values_and_exceptions:
        ["exec", "--stdlib", "-c", "x = 20\nprint('hello')\nx + 1"],
        ["exec", "--stdlib", "-c", "k = 0\n1/k"],
        ["exec", "--stdlib", "broken.py"],
        ["exec", "--stdlib", "-c", "import sys; sys.exit(0)"],
        ["exec", "--stdlib", "-c", "import sys; sys.exit('bad input')"];
    exec_explains_what_is_refused:
        ["exec", "--stdlib", "-c", "import socket; socket.create_connection(('example.com', 80), 5)"],
        ["exec", "-c", "import numpy"],
        ["exec", "--stdlib", "-c", "import numpy"];
    exec_answers_input_from_standard_input:
        ["exec", "--stdlib", "-c", "input('who? ') + input()"] << "Ada\r\n Lovelace",
        ["exec", "--stdlib"] << "input()",
        ["exec", "--stdlib", "-c", "input()"];
    exec_tells_how_code_ended:
        ["exec", "--stdlib", "-c", "import ctypes; ctypes.string_at(0)"],
        ["exec", "--stdlib", "-c", "import os; os._exit(7)"],
        ["exec", "--stdlib", "--timeout", "1", "-c", "while True: pass"];
    exec_saves_a_plot_and_lists_files:
        ["exec", "--stdlib", "--workspace", ".", "--verbose", "-c", "class Dot:\n    def _repr_png_(self):\n        return b'not really a picture'\ndisplay(Dot())\nopen('out.txt', 'w').write('x')"];
    exec_prints_the_text_for_a_model:
        ["exec", "--stdlib", "--for-model", "-c", "print('hi')\n1/0"],
        ["exec", "--stdlib", "--for-model", "--locale", "zh", "-c", "print('hi')"];
    exec_refuses_wrong_flags:
        ["exec", "nowhere.py"],
        ["exec", "latin.py"],
        ["exec", "-c", "1", "file.py"],
        ["exec", "-c", "1", "--json", "--for-model"],
        ["exec", "-c", "1", "--timeout", "0"],
        ["exec", "-c", "1", "--memory", "1"],
        ["exec", "-c", "1", "--memory", "much"],
        ["exec", "-c", "1", "--processes", "0"],
        ["exec", "-c", "1", "--isolation", "strong"],
        ["exec", "-c", "1", "--without", "wall"],
        ["exec", "-c", "1", "--var", "x"],
        ["exec", "-c", "1", "--var", "x=hello"],
        ["exec", "-c", "1", "--import", "os; evil()"],
        ["exec", "-c", "1", "--image", "python:3.12"],
        ["exec", "-c", "1", "--allow-net", "not a host"];
    exec_says_what_could_not_start:
        ["exec", "-c", "1", "--stdlib", "--python", "/nowhere/python"],
        ["exec", "-c", "1", "--stdlib", "--workspace", "nowhere"],
        ["exec", "-c", "1", "--stdlib", "--workspace", "notes.txt"];
    an_unknown_command_is_answered_with_the_nearest:
        ["exce"],
        ["sessions", "lsit"];
    repl_runs_each_statement_of_its_input:
        ["repl", "--stdlib"] << "x = 20\nx + 1\n\ndef double(n):\n    y = n\n\n    return 2 * y\ndouble(x)\n1/0\n%vars\n'still here'\n";
    repl_has_commands:
        ["repl", "--stdlib"] << "%help\nopen('a.txt', 'w').write('hi')\n%files\n%reset\n%vars\n%time 6 * 7\n%time\n%undo x\n%what\n%pip remove x\n%quit\n'not reached'\n";
    repl_forks_and_goes_back:
        ["repl", "--stdlib"] << "x = 1\n%fork\nx += 1\nx\n%switch s1\nx\n%undo\n%switch nowhere\n";
    tools_lists_every_tool: ["tools"];
    tools_shows_one_tool: ["tools", "undo"], ["tools", "wether"];
    tools_call_answers_and_refuses:
        ["tools", "call", "compute", "{\"code\": \"2**100\", \"description\": \"a power\"}", "--stdlib"],
        ["tools", "call", "file_reader", "{\"file_path\": \"notes.txt\"}", "--stdlib", "--workspace", "."],
        ["tools", "call", "wether", "{}", "--stdlib"],
        ["tools", "call", "compute", "{\"code\": 1}", "--stdlib"],
        ["tools", "call", "compute", "{code: 1}", "--stdlib"],
        ["tools", "call", "undo", "{\"count\": 3}", "--stdlib"],
        ["tools", "call", "compute", "{}", "--stdlib", "--for-model", "--locale", "zh"];
    a_configuration_with_a_mistake_is_named_with_its_line:
        ["tools", "--config", "unknown-key.toml"],
        ["tools", "--config", "wrong-mode.toml"],
        ["tools", "--config", "broken.toml"],
        ["tools", "--config", "nowhere.toml"];
    config_shows_every_setting_and_its_source:
        ["config", "--max-steps", "5", "--model", "fake", "--base-url", "http://localhost:1/v1"];
    ask_refuses_what_it_cannot_use:
        ["ask", "Why?", "--stdlib"],
        ["ask", " ", "--stdlib", "--model", "fake"],
        ["ask", "Why?", "--stdlib", "--model", "fake", "--schema", "schema.json"],
        ["ask", "Why?", "--stdlib", "--model", "fake", "--file", "nowhere.csv"],
        ["ask", "--template", "nowhere.md", "--stdlib", "--model", "fake"],
        ["ask", "Why?", "--stdlib", "--model", "replay:nowhere.jsonl"];
    what_is_not_there_is_answered_with_where_to_look:
        ["runs"],
        ["runs", "show", "nowhere"],
        ["runs", "resume", "last"],
        ["sessions"],
        ["sessions", "show", "nowhere"],
        ["sessions", "remove"],
        ["trace", "nowhere"],
        ["env", "show", "nowhere"],
        ["env", "create", "mine"];
    eval_refuses_what_it_cannot_use:
        ["eval"],
        ["eval", "nowhere.toml", "--model", "fake"],
        ["eval", "no-suite.toml", "--model", "fake"],
        ["eval", "suite.toml", "--cluster", "nats://127.0.0.1:4222"],
        ["eval", "suite.toml", "--cluster", "http://user:password@127.0.0.1:8742"],
        ["eval", "suite.toml", "--cluster", "http://127.0.0.1:8742", "--plain"],
        ["eval", "suite.toml", "--cluster", "http://127.0.0.1:8742", "--tools-dir", "tools"],
        ["eval", "table", "notes.txt"];
    mcp_refuses_addresses_of_other_machines:
        ["mcp", "--http", "0.0.0.0:0"],
        ["mcp", "--http", "localhost"];
    serve_refuses_what_would_be_open_to_others:
        ["serve", "--listen", "0.0.0.0:0"],
        ["serve", "--listen", "0.0.0.0:0", "--no-auth", "--behind-proxy"],
        ["serve", "--listen", "nowhere"],
        ["serve", "--auth-header", "X-User"],
        ["serve", "--quota", "horses=1"];
    pipe_answers_lines_that_are_no_requests:
        ["pipe", "--stdlib"] << "hello?\n{\"id\": 1, \"op\": \"dance\"}\n{\"id\": 2, \"op\": \"compute\", \"code\": \"6*7\", \"description\": \"a product\"}\n{\"id\": 3, \"op\": \"run\"}\n";
}

#[test]
fn a_port_alone_is_one_of_the_loopback() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let port = address.port().to_string();
    let place = Place::new();
    let seen = place.transcript(["serve", "--no-auth", "--stdlib", "--port", &port]);
    insta::assert_snapshot!(seen.replace(&port, "[PORT]"));
}

#[test]
fn the_tour_on_the_standard_library_does_what_it_claims() {
    let place = Place::new();
    let ended = place.run(["demo", "--stdlib"]);
    assert_eq!(
        (ended.status, &ended.stderr[..]),
        (0, ""),
        "{}",
        ended.stdout
    );
    insta::assert_snapshot!(normal_text(&ended.stdout, &place));
}
