//! Taking cells back.

use crate::support::{builder, open, session, tool, wait};
use cellblock_protocol::{
    FileChange, FileChanges, StateOutcome, Undone, VariableChange, VariableChanges,
};
use serde_json::json;

#[test]
fn the_last_cell_is_taken_back_with_its_variables_and_files() {
    let session = session();
    session.good("x = 1");
    session.good("x = 2; y = 3; open('a.txt', 'w').write('hello')");
    let change = |name: &str, summary: &str| VariableChange {
        name: name.into(),
        type_: "int".into(),
        summary: summary.into(),
    };
    let file = FileChange {
        path: "a.txt".into(),
        bytes: 5,
        mime: "text/plain".into(),
    };
    let expected = Undone {
        cell: 1,
        variables: VariableChanges {
            added: vec![],
            changed: vec![change("x", "1")],
            removed: vec![change("y", "3")],
        },
        files: FileChanges {
            deleted: vec![file],
            ..FileChanges::default()
        },
        not_restored: vec![],
    };
    assert_eq!(wait(session.undo(1)).unwrap(), expected);
    assert_eq!(session.value("x, 'y' in globals()"), "(1, False)");
}

#[test]
fn several_cells_are_taken_back_at_once() {
    let session = session();
    for n in 1..=4 {
        session.good(&format!("x = {n}"));
    }
    assert_eq!(wait(session.undo(3)).unwrap().cell, 1);
    assert_eq!(session.value("x"), "1");
}

#[test]
fn cell_numbers_are_never_used_twice() {
    let session = session();
    session.good("x = 1");
    wait(session.undo(1)).unwrap();
    assert_eq!(session.good("x = 2").cell, 2);
}

#[test]
fn a_cell_that_was_restored_does_not_count() {
    let session = session();
    session.good("x = 1");
    session.good("x = 2");
    session.run("import os; os._exit(1)");
    assert_eq!(wait(session.undo(1)).unwrap().cell, 1);
    assert_eq!(session.value("x"), "1");
}

#[test]
fn more_than_there_is_cannot_be_taken_back() {
    let session = session();
    session.good("x = 1");
    let error = wait(session.undo(2)).unwrap_err();
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        ("not_found", "there are only 1 cells to take back")
    );
    assert_eq!(session.value("x"), "1");
}

#[test]
fn everything_can_be_taken_back() {
    let session = session();
    session.good("x = 1");
    session.good("y = 1");
    assert_eq!(wait(session.undo(2)).unwrap().cell, 0);
    assert_eq!(
        session.value("[name for name in ('x', 'y') if name in globals()]"),
        "[]"
    );
}

#[test]
fn what_the_user_did_to_the_files_since_is_left_alone_and_told() {
    let session = session();
    session.good("x = 1");
    session.good("open('shared', 'w').write('by the cell'); open('own', 'w').write('by the cell')");
    std::fs::write(session.workspace().join("shared"), "by the user").unwrap();
    std::fs::write(session.workspace().join("notes"), "by the user").unwrap();
    let undone = wait(session.undo(1)).unwrap();
    assert_eq!(
        undone.not_restored,
        ["shared: it was changed from outside since, and was left alone"]
    );
    let content = "import os; sorted((name, open(name).read()) for name in os.listdir())";
    assert_eq!(
        session.value(content),
        "[('notes', 'by the user'), ('shared', 'by the user')]"
    );
}

#[test]
fn a_cell_that_changed_nothing_is_taken_back_like_any_other() {
    let session = session();
    session.good("x = 1");
    session.good("1 + 1");
    session.good("2 + 2");
    assert_eq!(wait(session.undo(1)).unwrap().cell, 2);
    assert_eq!(wait(session.undo(1)).unwrap().cell, 1);
    assert_eq!(session.value("x"), "1");
    wait(session.undo(1)).unwrap();
    assert_eq!(wait(session.undo(1)).unwrap().cell, 0);
}

#[test]
fn what_was_given_after_a_cell_that_changed_nothing_is_taken_back_with_it() {
    let session = session();
    session.good("x = 1");
    session.good("1 + 1");
    wait(session.seed(serde_json::json!({"x": 2}).as_object().unwrap().clone())).unwrap();
    assert_eq!(wait(session.undo(1)).unwrap().cell, 1);
    assert_eq!(session.value("x"), "1");
}

#[test]
fn setup_code_is_no_cell_that_could_be_taken_back() {
    let session = open(builder().setup("x = 1"));
    session.good("x = 2");
    let error = wait(session.undo(2)).unwrap_err();
    assert_eq!(error.to_string(), "there are only 1 cells to take back");
    assert_eq!(wait(session.undo(1)).unwrap().cell, 0);
    assert_eq!(session.value("x"), "1");
}

#[test]
fn what_a_forgotten_file_object_wrote_is_taken_back() {
    let session = session();
    session.good("file = open('a', 'w')");
    session.good("file.write('not flushed')");
    wait(session.reset()).unwrap();
    assert_eq!(session.value("open('a').read()"), "'not flushed'");
    assert_eq!(wait(session.undo(2)).unwrap().cell, 1);
    assert_eq!(session.value("open('a').read()"), "''");
}

#[test]
fn files_that_an_undo_put_back_are_taken_back_by_the_next() {
    let session = session();
    session.good("open('a', 'w').write('one')");
    session.good("x = 1");
    session.good("open('a', 'w').write('two')");
    let changed = wait(session.undo(2)).unwrap().files.changed;
    assert_eq!(changed.len(), 1, "{changed:?}");
    let undone = wait(session.undo(1)).unwrap();
    assert_eq!((undone.cell, undone.not_restored), (0, Vec::new()));
    assert_eq!(session.value("import os; os.listdir()"), "[]");
}

#[test]
fn r32_what_a_tool_did_outside_is_named_after_a_crash_and_an_undo() {
    let session = session();
    session.offer([
        tool("mail", "Sends a mail.", &["to"]),
        tool("weather", "Tells the weather.", &["city"]),
    ]);
    let run = |code: &str| session.start(code).answering(|_, _| Ok(json!("done")));
    let of_mail = "the tool `mail`: what it did outside the session".to_owned();
    let of_weather = "the tool `weather`: what it did outside the session".to_owned();
    let crashed = run("mail('a'); mail('b'); weather('Oslo'); import os; os._exit(3)");
    assert_eq!(crashed.state.outcome, StateOutcome::Restored);
    assert_eq!(
        crashed.state.not_restored,
        [of_mail.clone(), of_weather.clone()]
    );
    assert_eq!(run("x = weather('Oslo')").state.not_restored, [""; 0]);
    run("y = mail('c')");
    run("z = 1");
    assert_eq!(wait(session.undo(2)).unwrap().not_restored, [of_mail]);
    assert_eq!(wait(session.undo(1)).unwrap().not_restored, [of_weather]);
}
