//! Memory that a session shares with its own copies and processes (`MAP_SHARED`) goes back with the rest.

use crate::support::{Python, builder, is_root, open, session, wait};
use cellblock_protocol::{CheckpointStatus, Isolation, Rung, StateOutcome};
use cellblock_session::Existing;

const DIE: &str = "\nos._exit(3)";

/// Shared memory of every kind, and functions that change and show all of it.
const KINDS: &str = "
import mmap, multiprocessing, os, tempfile
from multiprocessing import shared_memory

anonymous = mmap.mmap(-1, 3 * 4096)
descriptor = nameless_memory(2 * 4096)
nameless = mmap.mmap(descriptor, 2 * 4096)
looks = mmap.mmap(descriptor, 2 * 4096, prot=mmap.PROT_READ)
named = shared_memory.SharedMemory('named', create=True, size=10_000)
value = multiprocessing.Value('i', 7)
array = multiprocessing.Array('i', [1, 2, 3])
lock = multiprocessing.Lock()
semaphore = multiprocessing.Semaphore(3)
lock.acquire()
not_mapped = nameless_memory(6)
os.write(not_mapped, b'before')
nowhere = tempfile.TemporaryFile()
nowhere.write(b'before'); nowhere.flush()
temporary = open('/tmp/mapped', 'wb+')
temporary.truncate(5000)
in_tmp = mmap.mmap(temporary.fileno(), 5000)
open('/dev/shm/not-mapped', 'w').write('as before')
for memory in anonymous, nameless, named.buf, in_tmp:
    memory[0:6] = b'before'
anonymous[8192:8198] = b'before'

def show():
    return (
        bytes(anonymous[0:6]), bytes(anonymous[4096:4102]), bytes(anonymous[8192:8198]),
        bytes(nameless[0:6]), bytes(looks[0:6]), bytes(named.buf[0:6]), bytes(in_tmp[0:6]),
        os.pread(not_mapped, 99, 0), os.pread(nowhere.fileno(), 99, 0), value.value, array[:], semaphore.get_value(), lock.acquire(False),
        open('/dev/shm/not-mapped').read(), sorted(os.listdir('/dev/shm')),
    )

def change():
    for memory in anonymous, nameless, named.buf, in_tmp:
        memory[0:6] = b'change'
    anonymous[4096:4102] = b'change'
    anonymous[8192:8198] = b'change'
    os.pwrite(not_mapped, b'a change', 3)
    nowhere.truncate(2)
    value.value = 8
    array[:] = [4, 5, 6]
    lock.release()
    semaphore.acquire()
    open('/dev/shm/not-mapped', 'w').write('otherwise, and longer')
    open('/dev/shm/new', 'w').write('x')
    shared_memory.SharedMemory('also-new', create=True, size=10)
";

const AS_BEFORE: &str = "(b'before', b'\\x00\\x00\\x00\\x00\\x00\\x00', b'before', b'before', b'before', b'before', b'before', b'before', b'before', 7, [1, 2, 3], 3, False, 'as before', ['named', 'not-mapped'])";

/// Makes memory without a name. Without a cgroup there is no `memfd_create`.
const NAMELESS: &str = "
import os, tempfile
def nameless_memory(size):
    try:
        number = os.memfd_create('a')
    except OSError:
        with tempfile.TemporaryFile(dir='/dev/shm') as file:
            number = os.dup(file.fileno())
    os.ftruncate(number, size)
    return number
";

fn with_nameless(code: &str) -> Python {
    let session = session();
    session.good(&format!("{NAMELESS}\n{code}"));
    session
}

fn with_all_kinds() -> Python {
    let session = with_nameless(KINDS);
    assert_eq!(session.value("show()"), AS_BEFORE);
    session
}

fn crash(session: &Python, code: &str) -> Vec<String> {
    let result = session.run(format!("{code}{DIE}"));
    let state = result.state;
    assert_eq!(
        state.checkpoint.status,
        CheckpointStatus::Armed,
        "{state:?}"
    );
    assert_eq!(state.outcome, StateOutcome::Restored);
    state.not_restored
}

#[test]
fn shared_memory_of_every_kind_is_as_before_after_crashes_an_undo_and_in_forks() {
    let session = with_all_kinds();
    for _ in 0..3 {
        assert_eq!(crash(&session, "change()"), [""; 0]);
        assert_eq!(session.value("show()"), AS_BEFORE);
    }
    session.good("change()");
    let undone = wait(session.undo(1)).unwrap();
    assert_eq!(undone.not_restored, [""; 0]);
    assert_eq!(session.value("show()"), AS_BEFORE);
    let fork = session.fork();
    for one in [&fork, &session, &fork] {
        assert_eq!(one.value("show()"), AS_BEFORE);
        assert_eq!(crash(one, "change()"), [""; 0]);
        assert_eq!(one.value("show()"), AS_BEFORE);
    }
}

#[test]
fn every_checkpoint_has_shared_memory_of_its_own_time() {
    let session = session();
    session.good("import mmap, os; memory = mmap.mmap(-1, 1 << 20); x = 0");
    for n in 1..5 {
        session.good(&format!(
            "memory[0:4096] = bytes([{n}]) * 4096; memory[{n} << 16] = {n}"
        ));
    }
    for n in (1..4).rev() {
        wait(session.undo(1)).unwrap();
        let seen = "memory[0], memory[4095], [at for at in range(1, 16) if memory[at << 16]]";
        let expected: Vec<usize> = (1..=n).collect();
        assert_eq!(session.value(seen), format!("({n}, {n}, {expected:?})"));
        // That was a cell too.
        wait(session.undo(1)).unwrap();
    }
}

#[test]
fn memory_that_held_nothing_holds_nothing_again() {
    let session = with_nameless(
        "import mmap, os\ndescriptor = nameless_memory(1 << 30); memory = mmap.mmap(descriptor, 1 << 30)\nmemory[5 << 20] = 1\ndef used(): return os.fstat(descriptor).st_blocks * 512",
    );
    let before = session.value("used()");
    assert_eq!(before, "4096");
    let lost = crash(
        &session,
        "for at in range(0, 20 << 20, 4096): memory[at] = 2",
    );
    assert_eq!(lost, [""; 0]);
    assert_eq!(
        session.value("used(), memory[5 << 20], memory[6 << 20]"),
        format!("({before}, 1, 0)")
    );
}

#[test]
fn memory_that_a_cell_made_shorter_or_longer_has_its_size_again() {
    let session = with_nameless(
        "import mmap, os\nfrom multiprocessing import shared_memory\ndescriptor = nameless_memory(8192); memory = mmap.mmap(descriptor, 8192)\nnamed = shared_memory.SharedMemory('named', create=True, size=8192)\nmemory[4096] = named.buf[4096] = 5",
    );
    let sizes = "os.fstat(descriptor).st_size, os.stat('/dev/shm/named').st_size, memory[4096], named.buf[4096]";
    for length in [0, 4096, 100_000] {
        let lost = crash(
            &session,
            &format!("os.truncate(descriptor, {length}); os.truncate('/dev/shm/named', {length})"),
        );
        assert_eq!(lost, [""; 0], "{length}");
        assert_eq!(session.value(sizes), "(8192, 8192, 5, 5)", "{length}");
    }
}

#[test]
fn a_name_that_a_cell_removed_or_replaced_leads_to_the_same_memory_again() {
    let session = session();
    session.good(
        "import os\nfrom multiprocessing import shared_memory\nnamed = shared_memory.SharedMemory('named', create=True, size=5000); named.buf[4500] = 7; os.chmod('/dev/shm/named', 0o640)",
    );
    for code in [
        "named.unlink()",
        "named.close(); named.unlink()",
        "os.unlink('/dev/shm/named'); open('/dev/shm/named', 'w').write('another')",
        "os.rename('/dev/shm/named', '/dev/shm/other'); named.buf[4500] = 8",
        "os.chmod('/dev/shm/named', 0)",
    ] {
        assert_eq!(crash(&session, code), [""; 0], "{code}");
        session.good("again = shared_memory.SharedMemory('named'); named.buf[0] = 9");
        let seen = "again.buf[0], again.buf[4500], again.size, oct(os.stat('/dev/shm/named').st_mode), os.listdir('/dev/shm'), os.fstat(named._fd).st_ino == os.stat('/dev/shm/named').st_ino";
        assert_eq!(
            session.value(seen),
            "(9, 7, 5000, '0o100640', ['named'], True)",
            "{code}"
        );
        // Both were cells.
        wait(session.undo(2)).unwrap();
    }
    session.good("again = shared_memory.SharedMemory('named'); named.unlink()");
}

/// Before, its semaphores kept what the workers of the cell that was taken back had done to them.
#[test]
fn an_executor_that_was_first_used_by_a_cell_that_is_taken_back_works() {
    for method in ["fork", "spawn", "forkserver"] {
        let session = session();
        session.good(
            format!(
                "import concurrent.futures, math, multiprocessing, os, time
executor = concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context('{method}'))
def roots():
    return [future.result(20) for future in [executor.submit(math.sqrt, number) for number in (0, 1, 4, 9)]]"
            )
            .as_str(),
        );
        for code in [
            "roots()",
            "late = [executor.submit(time.sleep, 0.5) for _ in range(9)]",
        ] {
            crash(&session, code);
            let roots = session.value("roots()");
            assert_eq!(roots, "[0.0, 1.0, 2.0, 3.0]", "{method}: {code}");
            wait(session.undo(1)).unwrap();
        }
        assert_eq!(session.value("roots()"), "[0.0, 1.0, 2.0, 3.0]", "{method}");
        session.good("executor.shutdown()");
    }
}

#[test]
fn more_shared_memory_than_a_checkpoint_notes_is_said_before_and_after() {
    let session = session();
    session.good("import mmap, os; small = mmap.mmap(-1, 4096); small[0] = 1; memory = mmap.mmap(-1, 80 << 20)\nfor at in range(0, 80 << 20, 4096): memory[at] = 1");
    let result = session.run(format!("memory[0] = small[0] = 2{DIE}"));
    let checkpoint = result.state.checkpoint;
    assert_eq!(checkpoint.status, CheckpointStatus::Behind);
    let reason = checkpoint.reason.unwrap_or_default();
    assert!(reason.starts_with("80.0 MiB of shared memory"), "{reason}");
    let lost = result.state.not_restored;
    assert!(lost.contains(&reason), "{lost:?}");
    // What fits goes back all the same.
    assert_eq!(session.value("memory[0], small[0]"), "(2, 1)");
    session.good("memory.close(); del memory");
    assert_eq!(session.value("small[0]"), "1");
    assert_eq!(crash(&session, "small[0] = 2"), [""; 0]);
    assert_eq!(session.value("small[0]"), "1");
}

/// A process on that rung cannot read which memory it shares, so the host looks.
#[test]
fn on_the_rung_landlock_shared_memory_is_named() {
    if is_root() {
        return;
    }
    let session = open(builder().isolation(Isolation::on(Rung::Landlock)));
    session.good("import mmap; x = 1");
    let result = session.good("memory = mmap.mmap(-1, 1 << 20); memory[0] = 1");
    assert_eq!(result.state.checkpoint.status, CheckpointStatus::Armed);
    let result = session.run("memory[0] = 2; import os; os._exit(3)");
    let checkpoint = result.state.checkpoint;
    assert_eq!(checkpoint.status, CheckpointStatus::Behind);
    let reason = checkpoint.reason.unwrap_or_default();
    assert!(reason.starts_with("1.0 MiB of shared memory"), "{reason}");
    assert!(result.state.not_restored.contains(&reason));
}

#[test]
fn a_file_that_the_host_put_into_dev_shm_stays() {
    let session = session();
    session.good("import os; x = 1");
    let write = |name: &str| {
        let path = format!("/dev/shm/{name}");
        let contents = b"given".to_vec();
        wait(session.0.paths().write(&path, 0, contents, Existing::Kept)).unwrap();
    };
    for name in ["first", "second"] {
        write(name);
        crash(&session, "open('/dev/shm/new', 'w').write('x')");
    }
    let seen = "{name: open('/dev/shm/' + name).read() for name in sorted(os.listdir('/dev/shm'))}";
    assert_eq!(session.value(seen), "{'first': 'given', 'second': 'given'}");
}

/// A child process shares the memory, and has written to it after the checkpoint was made.
#[test]
fn what_a_child_process_wrote_is_taken_back() {
    let session = session();
    session.good("import mmap, os, time; memory = mmap.mmap(-1, 4096); memory[0] = 1");
    crash(
        &session,
        "if os.fork() == 0:\n    memory[0] = 2; time.sleep(60)\nwhile memory[0] != 2: time.sleep(0.01)",
    );
    assert_eq!(session.value("memory[0]"), "1");
}

/// Threads that are carried find the memory as it was, and write to it while checkpoints are made.
#[test]
fn threads_that_write_to_shared_memory_go_on_from_where_they_were() {
    let session = session();
    session.good(
        "import mmap, os, struct, threading, time
memory = mmap.mmap(-1, 4096); count = 0; strange = []
def write():
    global count
    while True:
        if (found := struct.unpack_from('q', memory, 0)[0]) != count:
            strange.append((found, count))
        count += 1
        struct.pack_into('q', memory, 0, count)
        time.sleep(0.0005)
threading.Thread(target=write, daemon=True).start()",
    );
    for _ in 0..5 {
        crash(&session, "time.sleep(0.2)");
        session.good(
            "seen = count; time.sleep(0.05)\nassert count > seen and not strange, (seen, count, strange)",
        );
    }
}

#[test]
fn what_is_noted_counts_for_the_session_and_its_memory_is_given_back() {
    let session = session();
    session.good("import mmap, os\ndef own():\n    fields = open('/proc/self/statm').read().split()\n    return (int(fields[1]) - int(fields[2])) * 4096");
    session.good("before = own()");
    session.good(
        "memory = mmap.mmap(-1, 32 << 20)\nfor at in range(0, 32 << 20, 4096): memory[at] = 1",
    );
    session.good("noted = own() - before");
    assert_eq!(session.value("noted > 30 << 20"), "True");
    session.good("memory.close()");
    session.good("x = 1");
    session.good("left = own() - before");
    assert_eq!(session.value("left < 8 << 20"), "True");
}
