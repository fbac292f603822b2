//! Limits of memory: what a cell is told that wants too much, and what counts as memory of a session.

use super::*;

const HINT: &str = "The session's memory limit was reached: work on smaller parts, delete what is no longer needed, or raise the limit `memory`.";

fn small() -> Python {
    limited(Limits {
        memory: 256 << 20,
        ..Limits::default()
    })
}

#[test]
fn l_an_absurd_allocation_is_a_memory_error_and_the_session_lives() {
    let session = session();
    session.good("x = 1");
    let result = session.run("bytearray(200 << 30)");
    assert_eq!(
        told(result),
        (Status::Failure, "MemoryError".into(), Some(HINT.into()))
    );
    assert_eq!(session.value("x"), "1");
}

/// A map says so with another exception than an allocation does.
#[test]
fn l_a_shared_map_that_does_not_fit_has_the_same_hint() {
    let result = small().run("import mmap\nmmap.mmap(-1, 1 << 47)");
    let (status, error, hint) = told(result);
    assert_eq!((status, error.as_str()), (Status::Failure, "OSError"));
    let text = "The session's memory limit was reached, of which shared memory may take half: work on smaller parts, delete what is no longer needed, or raise the limit `memory`.";
    assert_eq!(hint.as_deref(), Some(text));
}

/// A small session has a `MemoryError` where its limit is, and goes on.
fn assert_fills_up_at_the_limit(session: &Python) {
    let result = session.run("hoard = []\nwhile True: hoard.append(b'x' * (4 << 20))");
    assert_eq!(
        told(result),
        (Status::Failure, "MemoryError".into(), Some(HINT.into()))
    );
    assert_eq!(
        session.value("mib = 4 * len(hoard)\nhoard.clear()\n100 < mib < 260"),
        "True"
    );
}

#[test]
fn l_memory_that_grows_over_the_limit_is_a_memory_error_and_the_session_lives() {
    let session = small();
    assert_fills_up_at_the_limit(&session);
}

/// Reserves memory without touching it: as allocators and databases do, and in large blocks that stay empty.
const RESERVE: &str = "
import mmap
anonymous = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
NO_RESERVE = 0x4000
arena = mmap.mmap(-1, 4 << 30, flags=anonymous | NO_RESERVE)
blocks = [mmap.mmap(-1, 100 << 20, flags=anonymous) for _ in range(10)]
closed = mmap.mmap(-1, 4 << 30, flags=anonymous, prot=0)";

#[test]
fn l_memory_that_is_reserved_and_not_touched_does_not_count() {
    let session = small();
    session.good(RESERVE);
    // What is used still counts, and the limit is where it was.
    assert_fills_up_at_the_limit(&session);
    let result = session.run("b'x' * (300 << 20)");
    assert_eq!(
        told(result),
        (Status::Failure, "MemoryError".into(), Some(HINT.into()))
    );
    assert_eq!(session.value("len(blocks), len(arena) >> 30"), "(10, 4)");
}

#[test]
fn l_a_limit_that_code_sets_for_itself_stays() {
    let code = "
import resource
limits = (300 << 20, resource.getrlimit(resource.RLIMIT_DATA)[1])
resource.setrlimit(resource.RLIMIT_DATA, limits)
def is_refused():
    try:
        bytearray(400 << 20)
    except MemoryError:
        return True
is_refused(), resource.getrlimit(resource.RLIMIT_DATA) == limits";
    assert_eq!(session().value(code), "(True, True)");
}

/// Without a cgroup, init must not take the copy of a large process for as much memory again.
#[test]
fn l_memory_filled_to_the_limit_is_kept_and_the_next_cells_run() {
    let session = limited(Limits {
        memory: 1 << 30,
        ..Limits::default()
    });
    let result = session.run("hoard = []\nwhile True: hoard.append(bytearray(b'x') * 50_000_000)");
    assert_eq!(told(result).1, "MemoryError");
    for round in 0..5 {
        let result = session.run("n = len(hoard)\nprint(n > 10)");
        assert_eq!(
            (result.status, result.stdout.as_str()),
            (Status::Success, "True\n"),
            "{round}: {:?}",
            result.error
        );
    }
}

/// A child that has not yet begun its program uses the memory of its parent, as `subprocess` starts all of its children.
#[test]
fn l_memory_that_a_child_uses_together_with_its_parent_counts_once() {
    let session = limited(Limits {
        memory: 1 << 30,
        ..Limits::default()
    });
    let code = "
import os, subprocess
os.mkfifo('gate')
large = bytearray(b'x') * (800 << 20)
opener = subprocess.Popen(['sh', '-c', 'sleep 2; : > gate'])
# The child waits in this step until the gate is opened, and its parent waits for the child.
wait_at_gate = [(os.POSIX_SPAWN_OPEN, 9, 'gate', os.O_RDONLY, 0)]
child = os.posix_spawn('/bin/true', ['true'], {}, file_actions=wait_at_gate)
os.waitpid(child, 0)[1], opener.wait()";
    assert_eq!(session.value(code), "(0, 0)");
}

#[test]
fn l_memory_that_python_does_not_count_ends_the_cell_and_is_explained() {
    let code = "import mmap
print('begun')
NO_RESERVE = 0x4000
held = mmap.mmap(-1, 2 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE)
for n in range(0, 2 << 30, 4096): held[n] = 1";
    let result = small().run(code);
    assert_eq!(
        (result.status, result.signal, result.stdout.as_str()),
        (Status::Crashed, Some(9), "begun\n")
    );
    let error = result.error.unwrap();
    assert_eq!(
            error.traceback,
            "MemoryLimit: the session needed more than its 256 MiB of memory and was ended; work on less at a time, or raise the limit `memory`
"
        );
}

/// Value and checkpoint together are too much, and the interpreter alone is not: the error says what else counts.
#[test]
fn l_a_checkpoint_that_keeps_a_replaced_value_is_named_as_a_cause() {
    let session = small();
    session.good("x = bytearray(b'x') * (200 << 20)");
    // By mere writing, so that no request for memory is refused, and for so long that init looks at it.
    let code = "import time\nfor n in range(0, len(x), 4096): x[n] = 1\ntime.sleep(20)";
    let result = session.run(code);
    assert_eq!((result.status, result.signal), (Status::Crashed, Some(9)));
    let message = result.error.unwrap().value;
    let (before, after) = (
        "the session needed more than its 256 MiB of memory and was ended, although its interpreter took only ",
        ": processes that it started count too, and so does the last checkpoint, which keeps the values that a cell replaces; work on less at a time, or raise the limit `memory`",
    );
    assert!(message.starts_with(before), "{message}");
    assert!(message.ends_with(after), "{message}");
    assert_eq!(session.value("x[0]"), "120");
}

#[test]
fn l_what_fits_into_the_limit_is_allowed() {
    assert_eq!(
        session().value("x = bytearray(1 << 30)\nx[-1] = 7\nlen(x) >> 20, x[-1]"),
        "(1024, 7)"
    );
}
