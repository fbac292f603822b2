//! The interpreter that our guest shares with the code.

use super::common::short;
use super::scene::{Scene, harmless};
use cellblock_protocol::Status::{Crashed, Failure, Success, Timeout};
use std::time::Duration;

/// Runs code after which the session must go on as if nothing had been.
fn survived(code: &str) {
    let scene = Scene::new();
    let result = scene.run(code);
    assert!(
        [Success, Failure].contains(&result.status),
        "{code}\n{}",
        short(&result)
    );
    scene.goes_on();
    scene.ends_clean();
}

#[test]
fn the_builtins_replaced() {
    survived(
        "import builtins\nfor name in list(vars(builtins)):\n    if not name.startswith('_'): setattr(builtins, name, None)",
    );
}

#[test]
fn the_builtins_removed() {
    survived("import builtins; vars(builtins).clear()");
}

#[test]
fn the_modules_that_we_use_replaced() {
    survived(
        "import json, os, sys, time\nfor module in (json, os, time):\n    for name in list(vars(module)):\n        if not name.startswith('__'): setattr(module, name, None)",
    );
}

#[test]
fn every_module_forgotten() {
    survived("import sys; sys.modules.clear()");
}

#[test]
fn its_own_main_deleted() {
    survived("import sys; del sys.modules['__main__']; globals().clear()");
}

#[test]
fn hooks_that_raise_and_never_end() {
    survived(
        r"
import sys, gc, threading
def evil(*_):
    raise SystemExit(9)
sys.excepthook = sys.displayhook = sys.unraisablehook = threading.excepthook = evil
gc.callbacks.append(evil)
sys.setswitchinterval(1000)
",
    );
}

#[test]
fn tracing_that_never_ends() {
    let scene = Scene::new();
    let result = scene.run_for(
        2.0,
        "import sys\ndef trace(*_):\n    while True: pass\nsys.settrace(trace)\ndef f(): pass\nf()",
    );
    assert_eq!(result.status, Timeout);
    scene.goes_on_or_has_ended();
    scene.ends_clean();
}

#[test]
fn values_that_lie_about_themselves() {
    survived(
        r"
class Evil:
    def __repr__(self): raise SystemExit(9)
    __str__ = __len__ = __hash__ = __eq__ = __bool__ = __getattr__ = __repr__
    __class__ = property(__repr__)
x = [Evil(), {1: Evil()}]
y = Evil()
y
",
    );
}

#[test]
fn a_value_whose_repr_never_ends() {
    let scene = Scene::new();
    let result = scene.run_for(
        2.0,
        "class Evil:\n    def __repr__(self):\n        while True: pass\nEvil()",
    );
    assert_eq!(result.status, Timeout);
    scene.goes_on_or_has_ended();
    scene.ends_clean();
}

#[test]
fn recursion_without_a_floor() {
    // Through C, where there is no counting on some versions of Python.
    let result = harmless(
        "import sys; sys.setrecursionlimit(2**31 - 1)\ndef f(_=0): return sorted([1], key=f)\nf()",
        &[Crashed, Failure],
    );
    assert!(
        result.signal.is_none() || result.signal == Some(11),
        "{}",
        short(&result)
    );
}

#[test]
fn memory_that_is_not_ours() {
    let result = harmless(
        "import ctypes; print('before', flush=True); ctypes.string_at(0)",
        &[Crashed],
    );
    assert_eq!(
        (result.signal, result.stdout.as_str()),
        (Some(11), "before\n")
    );
}

#[test]
fn our_own_guest_taken_apart() {
    // It shares the interpreter: it can be found and broken. That ends this session's honesty, and nothing else.
    let code = r"
import gc, types
for thing in gc.get_objects():
    if isinstance(thing, types.FunctionType) and 'cellblock_guest' in (thing.__module__ or ''):
        thing.__code__ = (lambda *_, **__: None).__code__
";
    let scene = Scene::new();
    let _ = scene.run_for(3.0, code);
    let next = super::common::wait(
        scene
            .session
            .run(cellblock_protocol::Cell::new("40 + 2").timeout(Duration::from_secs(3))),
    );
    assert!(next.is_ok() || next.is_err_and(|error| error.code() == "ended"));
    scene.ends_clean();
}

#[test]
fn a_fork_that_goes_on_as_the_cell() {
    let scene = Scene::new();
    let result = scene.run("import os; pid = os.fork(); print('one', flush=True)");
    assert_eq!(result.status, Success);
    scene.goes_on();
    scene.ends_clean();
}
