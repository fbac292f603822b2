//! A session made again.

use crate::scene::{Scene, lookup, restore, restore_as, run_with_tool};
use crate::support::{builder, wait};
use cellblock_host::journal::{CellFate, LeftOutCell, Restore, Restored};
use cellblock_protocol::{Cell, Event};
use serde_json::json;

fn value(restored: &Restored, code: &str) -> String {
    let result = wait(restored.session.run(code)).unwrap();
    result
        .value
        .unwrap_or_else(|| panic!("{:?}", result.error))
        .repr
}

fn differences(restored: &Restored) -> Vec<String> {
    let differences = restored.report.differences.iter();
    differences.map(ToString::to_string).collect()
}

#[test]
fn variables_functions_files_and_numbers_of_cells_are_back() {
    let scene = Scene::new();
    let session = scene.open(
        builder()
            .name("work")
            .import("math")
            .variable("radius", 2)
            .setup("area = math.pi * radius ** 2"),
    );
    session.good("def double(n): return 2 * n\nopen('a.txt', 'w').write('one')");
    session.run("import os; os._exit(3)");
    session.good("x = double(round(area))");
    session.good("x = None; open('a.txt', 'w').write('wrong')");
    wait(session.undo(1)).unwrap();
    session.run("y = 5\nundefined");
    let journal = scene.close(session);

    let restored = restore(&journal);
    assert_eq!(differences(&restored), Vec::<String>::new());
    assert_eq!(restored.report.replayed, [1, 3, 5]);
    assert_eq!(
        restored.report.left_out,
        [
            LeftOutCell {
                cell: 2,
                fate: CellFate::NeverHappened
            },
            LeftOutCell {
                cell: 4,
                fate: CellFate::Undone
            }
        ]
    );
    assert_eq!(
        value(&restored, "(x, y, open('a.txt').read())"),
        "(26, 5, 'one')"
    );
    assert_eq!(restored.session.id(), "work");
    let next = wait(restored.session.run("1/0")).unwrap();
    assert_eq!(next.cell, 7);
}

#[test]
fn tools_and_questions_get_the_recorded_answers() {
    let scene = Scene::new();
    let session = scene.session();
    let code = "a = look_up('x')\ntry:\n    look_up(query='nothing')\nexcept ToolError as error:\n    b = str(error)\n\
                c = await tools.look_up.aio(query='z')";
    run_with_tool(&session, code, lookup);
    let mut running = session.0.start("name = input('Who? ')").unwrap();
    while let Some(event) = wait(running.next()) {
        if let Event::InputRequest { call, .. } = event {
            running.input(&call, Ok("Ada".to_owned()));
        }
    }
    session.run("look_up('refused, for nobody listens')");
    let restored = restore(&scene.close(session));
    assert_eq!(differences(&restored), Vec::<String>::new());
    assert_eq!(
        value(&restored, "(a, b, c['found'][0], name)"),
        "({'found': ['x', 1, None, True]}, 'there is nothing', 'z', 'Ada')"
    );
}

#[test]
fn a_random_number_is_reported_as_a_difference() {
    let scene = Scene::new();
    let journal = scene.cells(&["import random", "x = random.random()", "print(x)", "x"]);
    let restored = restore(&journal);
    let what: Vec<(Option<u64>, &str)> = restored
        .report
        .differences
        .iter()
        .map(|difference| (difference.cell, &difference.what[..]))
        .collect();
    assert_eq!(
        what,
        [
            (Some(2), "variable x"),
            (Some(3), "stdout"),
            (Some(4), "value")
        ]
    );
    assert!(!restored.report.is_same());
}

#[test]
fn seeded_random_numbers_and_addresses_are_no_difference() {
    let scene = Scene::new();
    let journal = scene.cells(&[
        "import random; random.seed(1)",
        "random.random()",
        "object()",
    ]);
    assert_eq!(differences(&restore(&journal)), Vec::<String>::new());
}

#[test]
fn another_call_of_a_tool_is_reported_and_answered_with_an_error() {
    let scene = Scene::new();
    let session = scene.session();
    session.good("import uuid");
    let code = "try:\n    answer = look_up(str(uuid.uuid4()))\nexcept ToolError as error:\n    answer = str(error)";
    run_with_tool(&session, code, |_, _| Ok(json!("found")));
    let restored = restore(&scene.close(session));
    let told = differences(&restored);
    assert!(
        told.iter()
            .any(|line| line.starts_with("cell 2: no call of look-up with {\"query\":")),
        "{told:?}"
    );
    assert!(
        told.contains(&"cell 2: the recorded call of look-up was not made".to_owned()),
        "{told:?}"
    );
    let answer = value(&restored, "answer");
    assert!(answer.contains("replayed: no call of look-up"), "{answer}");
}

#[test]
fn a_cell_that_was_interrupted_is_left_out_and_named() {
    let scene = Scene::new();
    let session = scene.session();
    let mut running = session.start("x = 1\nprint('on', flush=True)\nimport time\ntime.sleep(600)");
    running.until("on");
    session.interrupt();
    running.result();
    session.good("y = 2");
    let restored = restore(&scene.close(session));
    let interrupted = LeftOutCell {
        cell: 1,
        fate: CellFate::Interrupted,
    };
    assert_eq!(restored.report.left_out, [interrupted]);
    assert_eq!(
        differences(&restored),
        ["cell 1: it was interrupted; what it had done by then is not there"]
    );
    assert_eq!(value(&restored, "'x' in globals(), y"), "(False, 2)");
}

#[test]
fn a_directory_of_the_user_s_is_copied_unless_it_is_named() {
    let scene = Scene::new();
    let own = tempfile::tempdir().unwrap();
    std::fs::write(own.path().join("in.txt"), "3").unwrap();
    let session = scene.open(builder().workspace(own.path()));
    session.good("n = int(open('in.txt').read()); open('log.txt', 'a').write('once\\n')");
    let journal = scene.close(session);

    let restored = restore(&journal);
    assert_ne!(restored.session.workspace(), own.path());
    assert_eq!(value(&restored, "n"), "3");
    let log = own.path().join("log.txt");
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "once\n");
    assert_eq!(
        differences(&restored),
        ["cell 1: file log.txt was of 5 bytes, is of 10 bytes"]
    );

    let again = restore_as(Restore::default().workspace(own.path()), &journal);
    assert_eq!(value(&again, "n"), "3");
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "once\nonce\n");
}

#[test]
fn what_the_host_put_seeded_and_reset_is_done_again() {
    let scene = Scene::new();
    let session = scene.session();
    wait(session.put_file("in/numbers.txt", b"1\n2\n".to_vec())).unwrap();
    session.good("gone = 1");
    wait(session.reset()).unwrap();
    wait(session.seed([("n".to_owned(), json!(3))].into_iter().collect())).unwrap();
    session.good("total = n + sum(map(int, open('in/numbers.txt')))");
    let restored = restore(&scene.close(session));
    assert_eq!(differences(&restored), Vec::<String>::new());
    assert_eq!(value(&restored, "total, 'gone' in globals()"), "(6, False)");
}

#[test]
fn a_restored_session_keeps_a_journal_of_its_own_that_restores_too() {
    let scene = Scene::new();
    let session = scene.session();
    run_with_tool(&session, "a = look_up('x')['found'][0]", lookup);
    let journal = scene.close(session);
    let second = tempfile::tempdir().unwrap();
    let how = Restore::default().journal(second.path());
    let restored = wait(how.run(crate::support::host(), &journal)).unwrap();
    wait(restored.session.run(Cell::new("a += '!'"))).unwrap();
    wait(restored.session.close());
    let journals = cellblock_host::journal::Journals::new(second.path());
    let again = restore(&journals.find("last").unwrap().read().unwrap());
    assert_eq!(again.report.replayed, [1, 2]);
    assert_eq!(value(&again, "a"), "'x!'");
}

#[test]
fn a_fork_is_restored_with_what_happened_before_it_was_forked() {
    let scene = Scene::new();
    let parent = scene.session();
    parent.good("x = [1]");
    let fork = parent.fork();
    fork.good("x.append('fork')");
    parent.good("x.append('parent')");
    let (forked, first) = (scene.close(fork), scene.close(parent));
    assert_eq!(value(&restore(&forked), "x"), "[1, 'fork']");
    assert_eq!(value(&restore(&first), "x"), "[1, 'parent']");
}
