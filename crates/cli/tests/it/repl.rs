//! `cellblock repl`: from a file, and at a real terminal.

use crate::support::{DEAF, Place};
use crate::terminal::Terminal;
use std::fs;

#[test]
fn a_fork_goes_on_and_the_way_back_is_open() {
    let place = Place::new();
    let script = b"x = 1\n%fork\nx += 1\nx\n%checkpoints\n%switch\n%switch s1\nx\n";
    let ended = place.run_with(["repl", "--stdlib"], script);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(
        (lines[0], lines[1], lines.last()),
        (
            "2",
            "the next cell is safe: a crash in it loses nothing",
            Some(&"1")
        )
    );
    assert!(lines[2].starts_with("after cell 3 "), "{}", ended.stdout);
    let marked = lines.iter().filter(|line| line.starts_with("* s")).count();
    assert_eq!(marked, 1, "{}", ended.stdout);
}

#[test]
fn a_workspace_that_stays_empty_leaves_nothing_behind() {
    let place = Place::new();
    place.run_with(["repl", "--stdlib"], b"1\n");
    let workspaces = fs::read_dir(place.path().join("state/cellblock/workspaces")).unwrap();
    assert_eq!(workspaces.count(), 0);
}

#[test]
fn a_block_is_typed_line_by_line_and_indented_by_itself() {
    let place = Place::new();
    let mut terminal = Terminal::open(&place, &["repl", "--stdlib", "--color", "never"]);
    terminal.wait_for(">>> ");
    terminal.type_line("def double(n):");
    terminal.wait_for("... ");
    terminal.type_line("return 2 * n");
    terminal.type_line("");
    terminal.wait_for(">>> ");
    terminal.type_line("double(21)");
    terminal.wait_for("\n42\n");
    terminal.type_line("%vars");
    terminal.wait_for("double  function  double(n)");
    terminal.type_line("dou\t(1.5)");
    terminal.wait_for("\n3.0\n");
    terminal.wait_for(">>> ");
    terminal.keys("\x04");
    assert_eq!(terminal.ended(), 0);
}

#[test]
fn ctrl_c_stops_the_cell_and_clears_the_line_and_loses_nothing() {
    let place = Place::new();
    let mut terminal = Terminal::open(&place, &["repl", "--stdlib", "--color", "never"]);
    terminal.wait_for(">>> ");
    terminal.type_line("x = 20");
    terminal.wait_for(">>> ");
    terminal.type_line("import time; print('go' + 'ing'); time.sleep(60)");
    terminal.wait_for("\ngoing\n");
    terminal.keys("\x03");
    terminal.wait_for("KeyboardInterrupt\n");
    terminal.wait_for(">>> ");
    terminal.keys("half a li\x03");
    terminal.wait_for(">>> ");
    terminal.type_line("x + 1");
    terminal.wait_for("\n21\n");
    terminal.wait_for(">>> ");
    terminal.keys("\x04");
    assert_eq!(terminal.ended(), 0);
}

#[test]
fn input_is_asked_at_the_terminal() {
    let place = Place::new();
    let mut terminal = Terminal::open(&place, &["repl", "--stdlib", "--color", "never"]);
    terminal.wait_for(">>> ");
    terminal.type_line("'<' + input('who? ') + '>'");
    terminal.wait_for("\nwho? ");
    terminal.type_line("Ada");
    terminal.wait_for("\n'<Ada>'\n");
    terminal.wait_for(">>> ");
    terminal.keys("\x04");
    assert_eq!(terminal.ended(), 0);
}

#[test]
fn a_terminal_does_not_obey_the_code() {
    let place = Place::new();
    let mut terminal = Terminal::open(
        &place,
        &[
            "exec",
            "--stdlib",
            "-c",
            r"print('\x1b]0;title\x07\x1b[31mplain')",
        ],
    );
    terminal.wait_for("plain\n");
    assert_eq!(terminal.ended(), 0);
    assert!(
        !terminal.raw.contains("title") && !terminal.raw.contains("\u{1b}[31m"),
        "{:?}",
        terminal.raw
    );
}

#[test]
fn a_session_that_is_not_armed_says_so_with_the_thread_and_what_a_crash_cost() {
    let place = Place::new();
    let script = format!("{DEAF}x = 7\nos._exit(3)\nx\n");
    let shown = place.transcript_with(["repl", "--stdlib"], &script);
    let without = place.transcript_with(["repl", "--stdlib", "--no-replay"], &script);
    insta::assert_snapshot!(shown + &without);
}

#[test]
fn the_prompt_shows_that_a_crash_would_cost_more_than_the_cell() {
    let place = Place::new();
    let mut terminal = Terminal::open(&place, &["repl", "--stdlib", "--color", "never"]);
    terminal.wait_for(">>> ");
    let deaf = "import ctypes, threading, time; threading.Thread(target=lambda: (ctypes.CDLL(None).syscall(14, 0, ctypes.byref(ctypes.c_uint64(-1)), None, 8), time.sleep(600)), daemon=True).start(); time.sleep(0.3)";
    terminal.type_line(deaf);
    terminal.wait_for("not armed: ");
    terminal.wait_for("!>> ");
    terminal.keys("\x04");
    assert_eq!(terminal.ended(), 0);
}

#[test]
fn a_progress_bar_is_one_line_at_a_terminal() {
    let place = Place::new();
    let mut terminal = Terminal::open(&place, &["repl", "--stdlib", "--color", "never"]);
    terminal.wait_for(">>> ");
    terminal.type_line("import sys, time");
    terminal.wait_for(">>> ");
    terminal.type_line(r"for i in range(3): time.sleep(0.1); n = sys.stderr.write(f'\r{i} of 3'); n = sys.stderr.flush()");
    terminal.type_line("");
    terminal.wait_for("2 of 3\n");
    let states = terminal.raw.rsplit("0 of 3").next().unwrap();
    assert!(
        states.starts_with("\r\u{1b}[K1 of 3\r\u{1b}[K2 of 3\r\n"),
        "{states:?}"
    );
}

#[test]
fn a_silent_cell_shows_that_it_runs() {
    let place = Place::new();
    let mut terminal = Terminal::open(&place, &["repl", "--stdlib", "--color", "never"]);
    terminal.wait_for(">>> ");
    terminal.type_line("import time; time.sleep(600)");
    terminal.wait_for("running, Ctrl-C stops it");
    terminal.keys("\u{3}");
    terminal.wait_for("KeyboardInterrupt");
    terminal.wait_for(">>> ");
}

#[test]
fn a_line_of_the_shell_runs_in_the_session() {
    let place = Place::new();
    let script = "!echo $((6 * 7)) 'and \"this\"'; pwd; exit 3\n%vars\n";
    insta::assert_snapshot!(place.transcript_with(["repl", "--stdlib"], script));
}

#[test]
fn code_is_timed_once_or_many_times() {
    let place = Place::new();
    let ended = place.run_with(
        ["repl", "--stdlib"],
        b"%%time\nfor i in range(3):\n    x = i\n\nx\n%timeit x + 1\n%%nothing\nx\n",
    );
    let (first, second) = ended.stdout.split_once('\n').unwrap();
    assert_eq!(first, "2");
    assert!(
        second.contains(" for one run (the best of 5 times "),
        "{second}"
    );
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert!(lines[0].contains(" on the clock, "), "{lines:?}");
    assert_eq!(
        lines[1..],
        ["error: there is no %%nothing; there are %%time and %%timeit"]
    );
}

#[test]
fn the_last_value_is_an_underscore_and_goes_back_with_the_state() {
    let place = Place::new();
    let script =
        "6 * 7\n_ + 1\nNone\n_\nimport os\n_; os._exit(3)\n_\n1\n%undo\n_\n%vars\n%reset\n_\n";
    insta::assert_snapshot!(place.transcript_with(["repl", "--stdlib"], script));
}

#[test]
fn an_underscore_is_there_again_when_the_cells_run_again() {
    let place = Place::new();
    let script = format!("{DEAF}6 * 7\nx = _\nos._exit(3)\nx, _\n");
    insta::assert_snapshot!(place.transcript_with(["repl", "--stdlib"], &script));
}

#[test]
fn a_question_mark_shows_help_and_two_show_the_source() {
    let place = Place::new();
    let script = "def double(n):\n    'Twice.'\n    return 2 * n\ndouble?\ndouble??\n?x\n# why?\n";
    insta::assert_snapshot!(place.transcript_with(["repl", "--stdlib"], script));
}

#[test]
fn tab_completes_attributes_keys_and_paths() {
    let place = Place::new();
    fs::create_dir(place.path().join("work")).unwrap();
    fs::write(place.path().join("work/numbers.txt"), "1 2 3").unwrap();
    let mut terminal = Terminal::open(
        &place,
        &[
            "repl",
            "--stdlib",
            "--color",
            "never",
            "--workspace",
            "work",
        ],
    );
    terminal.wait_for(">>> ");
    terminal.type_line("import math; table = {'alpha': 41}");
    for (typed, shown) in [
        ("math.isq\t(49) * 3", "\n21\n"),
        ("table['al\t'] + 1", "\n42\n"),
        ("open('numb\t').read() + '!'", "\n'1 2 3!'\n"),
        ("!cat numb\t; echo '?'", "\n1 2 3?\n"),
        ("%time math.isq\t(49) * 4", "\n28\n"),
        ("import jso\t.decod\t", "import json.decoder\n"),
    ] {
        terminal.wait_for(">>> ");
        terminal.type_line(typed);
        terminal.wait_for(shown);
    }
    // In a block, behind the mark of its second line.
    terminal.wait_for(">>> ");
    terminal.type_line("if True:");
    terminal.wait_for("... ");
    terminal.type_line("print(math.isq\t(64))");
    terminal.type_line("");
    terminal.wait_for("\n8\n");
    terminal.wait_for(">>> ");
    terminal.keys("\x04");
    assert_eq!(terminal.ended(), 0);
}

#[test]
fn a_statement_that_python_wants_more_of_is_not_run_yet() {
    let place = Place::new();
    let mut terminal = Terminal::open(&place, &["repl", "--stdlib", "--color", "never"]);
    terminal.wait_for(">>> ");
    terminal.type_line("if 0: print('on' + 'e')");
    terminal.wait_for("... ");
    terminal.type_line("else: print('tw' + 'o')");
    terminal.type_line("");
    terminal.wait_for("\ntwo\n");
    terminal.wait_for(">>> ");
    terminal.keys("\x04");
    assert_eq!(terminal.ended(), 0);
}

#[test]
fn keys_are_answered_while_a_thread_keeps_the_interpreter_busy() {
    let place = Place::new();
    let mut terminal = Terminal::open(&place, &["repl", "--stdlib", "--color", "never"]);
    terminal.wait_for(">>> ");
    // The call keeps the lock of the interpreter.
    terminal.type_line("import ctypes, threading; threading.Timer(1, ctypes.PyDLL(None).sleep, (600,)).start(); first_name = 1");
    terminal.wait_for(">>> ");
    std::thread::sleep(std::time::Duration::from_secs(2));
    terminal.keys("first_na\t");
    terminal.wait_for("first_name");
    terminal.keys("\x03");
    terminal.wait_for(">>> ");
    terminal.keys("\x04");
    assert_eq!(terminal.ended(), 0);
}
