//! R2, R4, R6, R7, R25, R26, R35, R36: what lasts from cell to cell.

use super::failure;
use crate::support::{builder, open, session, wait};
use cellblock_protocol::Status;

#[test]
fn r2_everything_that_a_cell_bound_is_there_in_the_next() {
    let session = session();
    session.good(
        "
import math
from collections import OrderedDict as Ordered
def double(n):
    return 2 * n
class Point:
    def __init__(self, x):
        self.x = x
point = Point(7)
numbers = (n * n for n in range(10))
next(numbers), next(numbers)
file = open('notes.txt', 'w+')
file.write('one\\n')
x = []
y = x
",
    );
    assert_eq!(
        session.value(
            "math.sqrt(16), Ordered(a=1)['a'], double(21), point.x, isinstance(point, Point)"
        ),
        "(4.0, 1, 42, 7, True)"
    );
    assert_eq!(session.value("next(numbers), y is x"), "(4, True)");
    session.good("file.write('two\\n'); file.seek(0)");
    assert_eq!(session.value("file.read()"), r"'one\ntwo\n'");
}

#[test]
fn r4_a_cell_holds_many_statements() {
    let code: String = (0..1000).map(|n| format!("v{n} = {n}\n")).collect();
    assert_eq!(session().value(&format!("{code}v0 + v999")), "999");
}

#[test]
fn r6_a_syntax_error_is_a_failure_and_changes_nothing() {
    let session = session();
    session.good("x = 1");
    let result = session.run("x = 2\ny = 3\nthis is no python");
    assert!(result.variables.is_empty());
    assert_eq!(failure(result), (Status::Failure, "SyntaxError".into()));
    assert_eq!(session.value("x, 'y' in globals()"), "(1, False)");
}

#[test]
fn r7_after_an_exception_the_next_cell_runs() {
    let session = session();
    assert_eq!(
        session.exception("raise ValueError('no')"),
        "ValueError('no')"
    );
    assert_eq!(session.value("'still here'"), "'still here'");
}

#[test]
fn r25_a_value_that_cannot_be_pickled_changes_no_status() {
    let session = session();
    session.good(
        "import threading
lock = threading.Lock()
f = lambda: 1
g = (i for i in 'ab')
lock",
    );
    assert_eq!(
        session.value("lock.locked(), f(), next(g)"),
        "(False, 1, 'a')"
    );
}

#[test]
fn r26_cells_run_as_main_and_their_classes_pickle() {
    let session = session();
    session.good("class Point:\n    def __init__(self, x): self.x = x");
    assert_eq!(
        session.value(
            "import pickle
__name__, pickle.loads(pickle.dumps(Point(3))).x, Point.__module__"
        ),
        "('__main__', 3, '__main__')"
    );
}

#[test]
fn r35_a_new_session_has_fresh_entropy() {
    let code = "import os, random, tempfile, uuid
random.random(), uuid.uuid4(), os.urandom(8), next(tempfile._get_candidate_names())";
    assert_ne!(session().value(code), session().value(code));
}

#[test]
fn r36_cell_numbers_are_never_used_twice() {
    let session = session();
    let mut numbers = vec![
        session.run("1").cell,
        session.run("1/0").cell,
        session.run("no python").cell,
    ];
    wait(session.reset()).unwrap();
    numbers.push(session.run("1").cell);
    assert_eq!(numbers, [1, 2, 3, 4]);
}

#[test]
fn r36_reset_clears_variables_and_keeps_files_and_imports_of_the_session() {
    let session = open(builder().import("math"));
    session.good("x = 1\nopen('kept.txt', 'w').write('text')");
    wait(session.reset()).unwrap();
    let result = session.good("math.floor(1.5), 'x' in globals(), open('kept.txt').read()");
    assert_eq!(result.value.unwrap().repr, "(1, False, 'text')");
    assert!(result.variables.is_empty(), "the cell bound nothing");
}

#[test]
fn what_python_code_does_to_its_surroundings_lasts() {
    let session = session();
    session.good(
        "import os, sys
os.mkdir('sub')
os.chdir('sub')
os.environ['A'] = 'b'
sys.setrecursionlimit(2000)",
    );
    assert_eq!(
        session.value("os.path.basename(os.getcwd()), os.environ['A'], sys.getrecursionlimit()"),
        "('sub', 'b', 2000)"
    );
}
