//! What a fork has of its parent.

use crate::support::{builder, open, packages, session, tool, wait};
use cellblock_protocol::{Status, Strategy};
use serde_json::json;

#[test]
fn variables_are_copied_and_then_apart() {
    let parent = session();
    parent.good("x = [1]");
    let fork = parent.fork();
    assert_ne!(fork.id(), parent.id());
    fork.good("x.append(2); y = 3");
    parent.good("x.append(9); z = 4");
    let look = "x, 'y' in globals(), 'z' in globals()";
    assert_eq!(fork.value(look), "([1, 2], True, False)");
    assert_eq!(parent.value(look), "([1, 9], False, True)");
}

#[test]
fn what_cannot_be_pickled_is_there_too() {
    let parent = session();
    parent.good("def count():\n    yield from range(10)\nnumbers = count(); next(numbers)");
    parent.good("import sqlite3; rows = sqlite3.connect(':memory:')");
    parent
        .good("rows.execute('create table t (x)'); rows.execute('insert into t values (7)'); None");
    let fork = parent.fork();
    assert_eq!(fork.value("next(numbers)"), "1");
    assert_eq!(fork.value("next(numbers)"), "2");
    assert_eq!(parent.value("next(numbers)"), "1");
    fork.good("rows.execute('delete from t'); None");
    assert_eq!(
        parent.value("rows.execute('select x from t').fetchall()"),
        "[(7,)]"
    );
}

#[test]
fn a_seeded_generator_goes_on_as_it_would_have() {
    let parent = session();
    parent.good("import random; random.seed(42); random.random()");
    let fork = parent.fork();
    let next = "[random.random() for _ in range(3)]";
    assert_eq!(fork.value(next), parent.value(next));
}

#[test]
fn a_generator_that_was_never_seeded_draws_other_numbers() {
    let parent = session();
    parent.good("import random; random.random()");
    parent.good("random.seed(7); random.seed()");
    let fork = parent.fork();
    let next = "[random.random() for _ in range(3)]";
    assert_ne!(fork.value(next), parent.value(next));
}

#[test]
fn the_generators_of_numpy_are_kept_or_refreshed_as_well() {
    let parent = open(packages().import("np"));
    let next = "np.random.random(3).tolist()";
    parent.good("np.random.random()");
    let fresh = parent.fork();
    assert_ne!(fresh.value(next), parent.value(next));
    parent.good("np.random.seed(1)");
    let seeded = parent.fork();
    assert_eq!(seeded.value(next), parent.value(next));
}

/// Fresh numbers are drawn for a fork before it is made. A state that the code has read is still its own afterwards.
#[test]
fn a_fork_does_not_disturb_the_generator_of_its_session() {
    let parent = open(packages().import("np"));
    parent.good("before = np.random.get_state()");
    let fork = parent.fork();
    let is_same = "[str(part) for part in np.random.get_state()] == [str(part) for part in before]";
    assert_eq!(
        [parent.value(is_same), fork.value(is_same)],
        ["True", "False"]
    );
}

#[test]
fn a_generator_that_cannot_be_seeded_hinders_no_fork() {
    let parent = open(packages().import("np"));
    parent.good(
        "class Stubborn(np.random.PCG64):
    def __init__(self): super().__init__(1)
np.random.set_bit_generator(Stubborn())",
    );
    let fork = parent.fork();
    assert_eq!(fork.value("np.random.random() < 1"), "True");
    parent.good("del np.random.set_state; np.random.get_state = None");
    let fork = parent.fork();
    assert_eq!(fork.value("np.random.random() < 1"), "True");
}

#[test]
fn a_fitted_model_predicts_and_fits_in_the_fork() {
    let parent = open(packages().import("np"));
    parent.good(
        "from sklearn.cluster import KMeans\npoints = np.array([[0, 0], [0, 1], [9, 9], [9, 8]])\nmodel = KMeans(2, n_init=1, random_state=0).fit(points)",
    );
    let fork = parent.fork();
    let predict = "len(set(model.predict(points).tolist()))";
    assert_eq!(fork.value(predict), "2");
    assert_eq!(fork.value("model.fit(points * 2).n_clusters"), "2");
    assert_eq!(parent.value(predict), "2");
}

/// Code keeps them to redirect its output for a while, and to write logs.
#[test]
fn a_duplicate_of_the_output_leads_to_the_output_of_the_fork() {
    let parent = session();
    parent.good(
        "import os, sys
saved, log = os.dup(1), os.fdopen(os.dup(2), 'w')
def write(): os.write(saved, b'out'); print('log', file=log, flush=True)",
    );
    let fork = parent.fork();
    for one in [&fork, &parent, &fork] {
        let result = one.good("write()");
        assert_eq!(
            (result.stdout, result.stderr),
            ("out".into(), "log\n".into())
        );
    }
    // There and back, as those do who catch what a library of C prints.
    fork.good("file = os.open('file', os.O_WRONLY | os.O_CREAT); os.dup2(file, 1); os.write(1, b'caught'); os.dup2(saved, 1)");
    assert_eq!(fork.stdout("print(open('file').read())"), "caught\n");
}

#[test]
fn the_working_directory_is_the_same() {
    let parent = session();
    parent.good("import os; os.makedirs('a/b'); os.chdir('a/b')");
    let fork = parent.fork();
    assert_eq!(fork.value("os.getcwd()"), "'/workspace/a/b'");
    fork.good("open('here', 'w').close()");
    assert_eq!(parent.value("os.listdir()"), "[]");
}

#[test]
fn cells_are_counted_on_and_sources_of_earlier_ones_are_known() {
    let parent = session();
    parent.good("def fail():\n    raise ValueError('from cell one')");
    let fork = parent.fork();
    let result = fork.run("fail()");
    assert_eq!(result.cell, 2);
    let traceback = result.error.unwrap().traceback;
    assert!(
        traceback.contains("raise ValueError('from cell one')"),
        "{traceback}"
    );
}

#[test]
fn a_fork_has_a_history_of_its_own_that_begins_with_it() {
    let parent = session();
    parent.good("x = 1");
    parent.good("x = 2");
    let fork = parent.fork();
    let error = wait(fork.undo(1)).unwrap_err();
    assert_eq!(error.code(), "not_found");
    assert!(error.to_string().contains("fork"), "{error}");
    fork.good("x = 3");
    fork.good("x = 4; open('new', 'w').close()");
    wait(fork.undo(2)).unwrap();
    assert_eq!(fork.value("x, __import__('os').listdir()"), "(2, [])");
    wait(parent.undo(1)).unwrap();
    assert_eq!(
        (parent.value("x"), fork.value("x")),
        ("1".into(), "2".into())
    );
}

#[test]
fn a_session_can_be_forked_after_it_went_back() {
    let parent = session();
    parent.good("x = 1; handle = open('log', 'w')");
    parent.good("x = 2");
    wait(parent.undo(1)).unwrap();
    let fork = parent.fork();
    fork.good("x += 10; print('fork', file=handle, flush=True)");
    assert_eq!(parent.value("x, open('log').read()"), "(1, '')");
    assert_eq!(fork.value("x, open('log').read()"), "(11, 'fork\\n')");
}

#[test]
fn the_result_of_a_fork_says_that_its_cells_are_safe() {
    let fork = session().fork();
    fork.good("x = 1");
    let crash = fork.run("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)");
    assert_eq!(
        crash.state.checkpoint,
        cellblock_protocol::CheckpointState::armed()
    );
    assert_eq!(fork.value("x"), "1");
}

#[test]
fn a_session_without_checkpoints_can_be_forked() {
    let parent = open(builder().strategy(Strategy::Direct));
    parent.good("x = 1");
    let fork = parent.fork();
    fork.good("x += 1");
    assert_eq!(
        (parent.value("x"), fork.value("x")),
        ("1".into(), "2".into())
    );
}

#[test]
fn a_busy_session_is_not_forked() {
    let parent = session();
    let mut cell = parent.start("print('go', flush=True); import time; time.sleep(1); x = 1");
    cell.until("go");
    assert_eq!(wait(parent.0.fork()).unwrap_err().code(), "busy");
    assert_eq!(cell.result().status, Status::Success);
    assert_eq!(parent.fork().value("x"), "1");
}

#[test]
fn tools_are_offered_in_the_fork_as_well() {
    let parent = session();
    parent.offer([tool("lookup", "Looks up.", &["query"])]);
    let fork = parent.fork();
    let mut cell = fork.start("lookup(query='x')");
    let result = cell.answering(|_, arguments| Ok(json!(format!("{}!", arguments["query"]))));
    assert_eq!(result.value.unwrap().repr, "'\"x\"!'");
}

#[test]
fn an_event_loop_goes_on_in_both() {
    let parent = session();
    parent.good("import asyncio; await asyncio.sleep(0)");
    let fork = parent.fork();
    let work = "async def work():\n    await asyncio.sleep(0.01)\n    return await asyncio.to_thread(lambda: 5)\nawait work()";
    assert_eq!(
        (fork.value(work), parent.value(work)),
        ("5".into(), "5".into())
    );
}

/// From the first fork on, init opens files for writing in the place of code.
#[test]
fn a_pseudo_terminal_can_be_opened_on_both_sides_of_a_fork() {
    let parent = session();
    parent.good("import os");
    let fork = parent.fork();
    let terminal = "
master, slave = os.openpty()
os.write(slave, b'hello')
first = os.read(master, 10)
again = os.open(os.ttyname(slave), os.O_RDWR | os.O_NOCTTY)
os.write(again, b'again')
first, os.read(master, 10), os.isatty(again)";
    for session in [&parent, &fork] {
        assert_eq!(session.value(terminal), "(b'hello', b'again', True)");
    }
}
