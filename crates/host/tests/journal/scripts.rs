//! A journal as a script for `python3` alone.

use crate::scene::{Scene, lookup, python3, run_with_tool};
use crate::support::{builder, wait};
use cellblock_host::journal::script;
use cellblock_protocol::Event;

/// What the last cell left on a terminal: its output, and its value on a line of its own.
fn last_output(journal: &cellblock_host::journal::Journal) -> String {
    let summary = journal.summary();
    let last = summary.kept().last().unwrap().ended.clone().unwrap().result;
    let line_break =
        if !last.stdout.is_empty() && !last.stdout.ends_with('\n') && last.value.is_some() {
            "\n"
        } else {
            ""
        };
    let value = last
        .value
        .map(|value| value.repr + "\n")
        .unwrap_or_default();
    format!("{}{line_break}{value}", last.stdout)
}

#[test]
fn the_script_prints_the_same_last_output() {
    let sessions: [&[&str]; 9] = [
        &["x = 2", "print(x, end='')\nx * 21"],
        &[
            "import asyncio",
            "await asyncio.sleep(0)\nx = 5",
            "await asyncio.sleep(0, x)",
        ],
        &[
            "class A:\n    pass",
            "import pickle; pickle.loads(pickle.dumps(A())).__class__.__module__",
        ],
        &["a = 1\n1/0", "import sys; sys.exit(3)", "print('still', a)"],
        &[
            "from __future__ import annotations",
            "def f(x: Nothing): return x",
            "f.__annotations__",
        ],
        &[
            "text = '''three'''",
            "other = \"\"\"'''\"\"\" + '\\\\'",
            "print(text, other)",
            "r'\\n'",
        ],
        &["%matplotlib inline\nx = 1", "    y = 2\n    x + y"],
        &[
            "display([1, 2], {'a': 3})",
            "print('a', end=''); display(7); None",
        ],
        &[
            "import sys; print('ä€😀', file=sys.stdout)",
            "'ä\\x00\\n€😀'",
        ],
    ];
    for cells in sessions {
        let scene = Scene::new();
        let journal = scene.cells(cells);
        let (stdout, stderr, status) = python3(&script(&journal), &[]);
        assert_eq!(status, 0, "{cells:?}: {stderr}");
        let expected = last_output(&journal);
        let shown = journal
            .summary()
            .kept()
            .last()
            .unwrap()
            .cell
            .code
            .contains("display");
        assert!(
            stdout.ends_with(&expected) || shown,
            "{cells:?}: {stdout:?} does not end with {expected:?}; {stderr}"
        );
    }
}

#[test]
fn displays_and_all_cells_are_printed_as_a_terminal_would() {
    let scene = Scene::new();
    let journal = scene.cells(&[
        "print('a', end=''); display(7)",
        "8",
        "None",
        "display('x'); 9",
    ]);
    let (stdout, ..) = python3(&script(&journal), &[]);
    assert_eq!(stdout, "a\n7\n8\n'x'\n9\n");
}

#[test]
fn recorded_answers_files_seeds_and_imports_come_along() {
    let scene = Scene::new();
    let session = scene.open(
        builder()
            .import("math")
            .variable("raw", cellblock_protocol::bytes_seed(&[0, 255]))
            .variable("settings", serde_json::json!({"deep": [null, true, 1.5]}))
            .setup("base = 10"),
    );
    wait(session.put_file("in/a.bin", vec![1, 2, 3])).unwrap();
    run_with_tool(
        &session,
        "import asyncio\na = look_up('x')\nb, c = await asyncio.gather(tools.look_up.aio(query='b'), tools.look_up.aio('c'))\n\
         try:\n    look_up('nothing')\nexcept ToolError as error:\n    d = str(error)",
        lookup,
    );
    let mut running = session.0.start("name = input('Who? ')").unwrap();
    while let Some(event) = wait(running.next()) {
        if let Event::InputRequest { call, .. } = event {
            running.input(&call, Ok("Ada".to_owned()));
        }
    }
    session.good("wrong = 1");
    wait(session.undo(1)).unwrap();
    session.good(
        "(raw, settings, base, math.floor(2.5), open('in/a.bin', 'rb').read(), a['found'], b['found'][0], c['found'][0], d, name, 'wrong' in globals())",
    );
    let journal = scene.close(session);
    let (stdout, stderr, status) = python3(&script(&journal), &[]);
    assert_eq!((stdout, status), (last_output(&journal), 0), "{stderr}");
    assert!(stderr.starts_with("files are in "), "{stderr}");
}

#[test]
fn it_works_in_a_directory_of_its_own_or_in_one_that_is_named() {
    let scene = Scene::new();
    let journal = scene.cells(&[
        "open('made.txt', 'w').write('made')",
        "open('made.txt').read()",
    ]);
    let place = tempfile::tempdir().unwrap();
    let (stdout, stderr, status) = python3(&script(&journal), &[place.path().to_str().unwrap()]);
    assert_eq!((&stdout[..], &stderr[..], status), ("4\n'made'\n", "", 0));
    assert!(place.path().join("made.txt").exists());
    let (stdout, stderr, _) = python3(&script(&journal), &[]);
    assert_eq!(stdout, "4\n'made'\n");
    let made = stderr.strip_prefix("files are in ").unwrap().trim();
    std::fs::remove_dir_all(made).unwrap();
}

#[test]
fn a_session_in_the_user_s_directory_becomes_a_script_for_the_current_one() {
    let scene = Scene::new();
    let own = tempfile::tempdir().unwrap();
    std::fs::write(own.path().join("in.txt"), "3").unwrap();
    let session = scene.open(builder().workspace(own.path()));
    session.good("open('in.txt').read()");
    let journal = scene.close(session);
    let (stdout, ..) = python3(&script(&journal), &[own.path().to_str().unwrap()]);
    assert_eq!(stdout, "'3'\n");
    // Without it, the file is not where the script is run.
    let (_, stderr, status) = python3(&script(&journal), &[]);
    assert!(
        status == 1 && stderr.contains("FileNotFoundError"),
        "{stderr}"
    );
}

#[test]
fn a_cell_that_ends_otherwise_is_told_by_the_status() {
    let scene = Scene::new();
    let journal = scene.cells(&[
        "import os",
        "os.environ.get('HOME') == '/nowhere' or 1/0",
        "'end'",
    ]);
    assert_eq!(python3(&script(&journal), &[]).2, 0);
    let changed = script(&journal).replace("or 1/0", "or 1/1");
    let (stdout, stderr, status) = python3(&changed, &[]);
    assert_eq!((&stdout[..], status), ("1.0\n'end'\n", 1));
    assert!(
        stderr.contains("cell 2: it was ZeroDivisionError, is a success"),
        "{stderr}"
    );
}
