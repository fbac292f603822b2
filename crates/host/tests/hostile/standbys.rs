//! Processes that pretend to be a checkpoint: those do not count as the head's, and are not ended with it.

use super::common::{Process, in_process_namespace, run, short};
use super::scene::Scene;
use cellblock_protocol::Limits;
use cellblock_protocol::Status::Success;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Puts a function in the place of ours that makes a standby. The process that it names is adopted by init, like a standby, but `disguise()` and then
/// take a gigabyte, little by little.
const FORGE: &str = r"
import ctypes, gc, mmap, os, struct, time, types
gc.unfreeze()
make = next(
    thing
    for thing in gc.get_objects()
    if isinstance(thing, types.FunctionType) and thing.__module__ == 'cellblock_guest.checkpoints' and thing.__name__ == 'make'
)
def grow():
    area = mmap.mmap(-1, 1 << 30)
    for page in range(0, 1 << 30, 4096):
        area[page] = 1
        if page % (16 << 20) == 0:
            time.sleep(0.05)
    time.sleep(60)
def stand_by(channel, next_channel, answer, place, has_threads):
    r, w = os.pipe()
    if os.fork() == 0:
        if os.fork() == 0:
            os.close(r)
            time.sleep(0.05)
            os.write(w, struct.pack('i', os.getpid()))
            disguise()
            grow()
        os._exit(0)
    os.wait()
    pid, = struct.unpack('i', os.read(r, 4))
    os.close(r)
    os.close(w)
    os.write(channel, answer[:place] + str(pid).rjust(10).encode() + answer[place + 10:])
    return pid, 0
make.__globals__['native'].stand_by = stand_by
";

/// The most memory that a session had at any time in the next seconds.
fn peak_for(seconds: u64, scene: &Scene) -> u64 {
    let begin = Instant::now();
    let mut most = 0;
    while begin.elapsed() < Duration::from_secs(seconds) {
        let now = in_process_namespace(&scene.namespace);
        most = most.max(now.iter().map(memory_in_status).sum());
        sleep(Duration::from_millis(20));
    }
    most
}

/// What a process has of its own and in shared memory.
fn memory_in_status(process: &Process) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.pid)).unwrap_or_default();
    let kilobytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    ["RssAnon:", "RssShmem:"]
        .into_iter()
        .filter_map(kilobytes)
        .sum::<u64>()
        << 10
}

fn is_bounded(disguise: &str) {
    const MEMORY: u64 = 128 << 20;
    let scene = Scene::with(Limits {
        memory: MEMORY,
        ..Limits::default()
    });
    let result = scene.run(&format!("{FORGE}{disguise}"));
    assert_eq!(result.status, Success, "{}", short(&result));
    // The checkpoint before this cell is the forged one.
    run(&scene.session, "x = 1");
    let most = peak_for(5, &scene);
    // The limit, the budget of the checkpoints, room for our own processes as for any session, and what a burst can take before init looks.
    let limits = Limits {
        memory: MEMORY,
        ..Limits::default()
    };
    let allowed = MEMORY + limits.checkpoint_budget() + (64 << 20) + (128 << 20);
    assert!(most < allowed, "{} MiB", most >> 20);
    scene.goes_on_or_has_ended();
    scene.ends_clean();
}

#[test]
fn a_process_that_only_says_that_it_is_a_checkpoint() {
    is_bounded("def disguise(): pass");
}

#[test]
fn a_process_that_waits_like_a_checkpoint_and_then_goes_on() {
    is_bounded(
        r"
def disguise():
    # By the bare calls: libc leaves some signals unblocked.
    libc, number = ctypes.CDLL(None), ctypes.c_uint64
    libc.syscall(14, 0, ctypes.byref(number(2**64 - 1)), None, 8)
    libc.syscall(128, ctypes.byref(number(0b1111 << 39)), None, (number * 2)(0, 500_000_000), 8)
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
def stand_by(channel, next_channel, answer, place, has_threads):
    os.write(channel, answer[:place] + str(old).rjust(10).encode() + answer[place + 10:])
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
