//! Processes that pretend to be a checkpoint: those do not count as the head's, and are not ended with it.

use super::common::{run, short, within};
use super::scene::Scene;
use cellblock_protocol::Status::Success;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Puts a function in the place of ours that makes a standby. The process that it names is adopted by init, like a standby, but `disguise()` and
/// then runs on: it adds its id to a file all the time. The host asks for another copy when that one is ended.
const FORGE: &str = r"
import ctypes, gc, os, struct, time, types
gc.unfreeze()
make = next(
    thing
    for thing in gc.get_objects()
    if isinstance(thing, types.FunctionType) and thing.__module__ == 'cellblock_guest.checkpoints' and thing.__name__ == 'make'
)
def run_on(signs):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        os.write(signs, b'%d\n' % os.getpid())
        time.sleep(0.01)
def announce(channel, answer, places, pid):
    for place, number in zip(places, (pid, 0)):
        answer = answer[:place] + str(number).rjust(10).encode() + answer[place + 10:]
    os.write(channel, answer)
def stand_by(channel, next_channel, answer, places, *more):
    r, w = os.pipe()
    if os.fork() == 0:
        if os.fork() == 0:
            os.close(r)
            time.sleep(0.05)
            signs = os.open('signs', os.O_CREAT | os.O_WRONLY | os.O_APPEND)
            os.write(signs, b'%d\n' % os.getpid())
            os.write(w, struct.pack('i', os.getpid()))
            disguise()
            run_on(signs)
        os._exit(0)
    os.wait()
    pid, = struct.unpack('i', os.read(r, 4))
    os.close(r)
    os.close(w)
    announce(channel, answer, places, pid)
    return pid, 0
make.__globals__['native'].stand_by = stand_by
";

/// Such a process does not run for long: what runs takes memory, and init does not count that of a checkpoint.
fn does_not_run(disguise: &str) {
    const TIMEOUT: Duration = Duration::from_secs(60);
    /// Longer than any disguise.
    const STANDSTILL: Duration = Duration::from_secs(3);
    let scene = Scene::new();
    let result = scene.run(&format!("{FORGE}{disguise}"));
    assert_eq!(result.status, Success, "{}", short(&result));
    let signs = scene.session.workspace().join("signs");
    let signs = || {
        let text = fs::read_to_string(&signs).unwrap_or_default();
        let of_first = |line: &&str| text.lines().next() == Some(line);
        text.lines().filter(of_first).count()
    };
    assert!(within(TIMEOUT, || signs() > 0), "none was forged");
    let begin = Instant::now();
    let mut last = (signs(), Instant::now());
    while last.1.elapsed() < STANDSTILL {
        assert!(begin.elapsed() < TIMEOUT, "it runs: {} signs", last.0);
        sleep(Duration::from_millis(20));
        if signs() != last.0 {
            last = (signs(), Instant::now());
        }
    }
    scene.goes_on_or_has_ended();
    scene.ends_clean();
}

#[test]
fn a_process_that_only_says_that_it_is_a_checkpoint() {
    does_not_run("def disguise(): pass");
}

#[test]
fn a_process_that_waits_like_a_checkpoint_and_then_goes_on() {
    does_not_run(
        r"
def disguise():
    # By the bare calls: libc leaves some signals unblocked.
    libc, number = ctypes.CDLL(None), ctypes.c_uint64
    libc.syscall(14, 0, ctypes.byref(number(2**64 - 1)), None, 8)
    libc.syscall(128, ctypes.byref(number(0xFF << 39)), None, (number * 2)(0, 500_000_000), 8)
",
    );
}

#[test]
fn a_process_that_was_there_before_a_checkpoint_was_asked_for() {
    let scene = Scene::new();
    let code = r"
r, w = os.pipe()
if os.fork() == 0:
    if os.fork() == 0:
        os.write(w, struct.pack('i', os.getpid()))
        time.sleep(60)
    os._exit(0)
os.wait()
old, = struct.unpack('i', os.read(r, 4))
# The kernel says in steps of 10 ms when a process was made.
time.sleep(0.1)
def stand_by(channel, next_channel, answer, places, *more):
    announce(channel, answer, places, old)
    return old, 0
make.__globals__['native'].stand_by = stand_by
";
    let result = scene.run(&format!("{FORGE}{code}"));
    assert_eq!(result.status, Success, "{}", short(&result));
    sleep(Duration::from_millis(200));
    let result = run(&scene.session, "x = 1");
    let reason = result.state.checkpoint.reason.unwrap_or_default();
    assert!(reason.contains("not the copy"), "{reason:?}");
    scene.goes_on_or_has_ended();
    scene.ends_clean();
}
