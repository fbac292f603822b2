//! Random system calls with random arguments: whatever the kernel or init makes of them, only the process that makes them suffers.

use super::common::{behind, is_long, run, short, wait};
use super::scene::Scene;
use cellblock_protocol::{Cell, Isolation, Limits, Rung};
use cellblock_session::Session;
use cellblock_test_support::{Dice, seed};
use serde_json::Map;
use std::time::Duration;

/// Children make the calls, for most of them are ended by it. What they leave in the workspace is removed between two rounds.
const CALLS: &str = r"
import ctypes, os, random, signal, time
PRLIMIT64, RLIMIT_CPU = 302, 0
libc = ctypes.CDLL(None, use_errno=True)
buffer = ctypes.create_string_buffer(b'/workspace/file\0' + bytes(4096))
texts = [ctypes.create_string_buffer(text) for text in (
    b'/proc/1/mem', b'/proc/self/mem', b'/proc/self/fd/3', b'/workspace', b'.', b'..', b'/', b'/dev/null',
    b'file', b'pipe', b'user.mark', b'/tmp/x', b'')]
def argument(dice):
    kind = dice.randrange(8)
    if kind == 0: return dice.randrange(-1, 12)
    if kind == 1: return dice.choice((1, 2, -1, os.getpid(), os.getppid(), 0x7fffffff, -100))
    if kind == 2: return ctypes.addressof(buffer) + dice.randrange(0, 4096, 8)
    if kind == 3: return ctypes.addressof(dice.choice(texts))
    if kind == 4: return dice.getrandbits(64)
    if kind == 5: return 1 << dice.randrange(64)
    if kind == 6: return dice.choice((0, 1, 4096, 65536, 0xffffffff, 0xffffffffffffffff))
    return dice.getrandbits(12)
def call(dice, numbers):
    words = [argument(dice) & 0xffffffffffffffff for _ in range(6)]
    number = dice.choice(numbers)
    # Code may limit the processor time of the process that runs the cells. The kernel then ends that process, as it was told to.
    if (number, words[1] & 0xffffffff) == (PRLIMIT64, RLIMIT_CPU): return
    libc.syscall(ctypes.c_long(number), *map(ctypes.c_ulong, words))
def round(seed, calls, numbers):
    child = os.fork()
    if child == 0:
        try:
            dice = random.Random(seed)
            for _ in range(calls): call(dice, numbers)
        finally:
            os._exit(0)
    end = time.monotonic() + 2
    while time.monotonic() < end:
        if os.waitpid(child, os.WNOHANG)[0]: return
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
# A child that calls exit, pause or kill too often gets nowhere.
every = [number for number in range(470) if number not in (34, 60, 231, 130)]
# Those that init is asked about, or does.
asked = [0x3e, 0xc8, 0xea, 2, 257, 85, 76, 90, 91, 268, 452, 92, 93, 94, 260, 132, 235, 261, 280, 188, 189, 190,
         197, 198, 199, 86, 265, 141, 251, 302, 72, 308, 41, 22, 293, 133, 259, 253, 294, 213, 291, 445, 87, 263,
         82, 264, 316, 434, 129, 297, 203, 144, 142, 314, 83, 258, 84]
";

fn rounds(session: &Session, dice: &mut Dice, numbers: &str) {
    let rounds = if is_long() { 1500 } else { 25 };
    run(session, CALLS);
    for round in 0..rounds {
        let seed = dice.number();
        let cell = format!("round({seed}, 60, {numbers})");
        let result = run(session, Cell::new(cell).timeout(Duration::from_secs(20)));
        // A child of the cell may have taken the memory or the descriptors away that the cell needs, but not from the host.
        let value = run(session, "40 + 2").value.map(|value| value.repr);
        assert_eq!(
            value.as_deref(),
            Some("42"),
            "round {round}, seed {seed}: {}",
            short(&result)
        );
    }
}

#[test]
fn random_system_calls_hurt_no_process_but_their_own() {
    let mut dice = Dice::new(seed("calls"));
    for numbers in ["every", "asked"] {
        let scene = Scene::new();
        rounds(&scene.session, &mut dice, numbers);
        scene.goes_on();
        scene.ends_clean();
    }
}

#[test]
fn random_system_calls_after_a_fork_hurt_no_process_but_their_own() {
    let mut dice = Dice::new(seed("calls after a fork"));
    let scene = Scene::new();
    run(&scene.session, "x = 'of the parent'");
    // From here on init does what opens and changes files.
    let fork = wait(scene.session.fork()).unwrap();
    rounds(&fork, &mut dice, "asked");
    let value = run(&scene.session, "x").value.map(|value| value.repr);
    assert_eq!(value.as_deref(), Some("'of the parent'"));
    wait(fork.close());
    scene.goes_on();
    scene.ends_clean();
}

#[test]
fn random_system_calls_hurt_no_process_but_their_own_where_there_are_no_namespaces() {
    let mut dice = Dice::new(seed("calls on landlock"));
    let landlock = Isolation::on(Rung::Landlock);
    let session = behind(landlock.clone(), Limits::default(), &Map::new());
    let beside = behind(landlock, Limits::default(), &Map::new());
    run(&beside, "x = 'untouched'");
    rounds(&session, &mut dice, "asked");
    let value = run(&beside, "x").value.map(|value| value.repr);
    assert_eq!(value.as_deref(), Some("'untouched'"));
    wait(session.close());
    wait(beside.close());
}
