//! Memory of processes that are easily overlooked: where there is no cgroup, init must find each of them in `/proc` and read what it holds.

use super::common::{behind, run, short, wait};
use super::kernel_memory::is_bounded;
use cellblock_protocol::Status::Success;
use cellblock_protocol::{Cell, Isolation, Limits, Rung};
use serde_json::Map;

/// Each process takes 70 MiB, keeps them for four seconds, and then says that it still lives. What is left of them is counted.
const COMMON: &str = r"
import threading
r, w = os.pipe()
os.set_blocking(r, False)
def keep():
    kept.clear()
    kept.append(bytearray(b'x') * (70 << 20))
    time.sleep(4)
    os.write(w, b'x')
    time.sleep(60)
def count():
    time.sleep(8)
    try:
        alive = len(os.read(r, 100))
    except BlockingIOError:
        alive = 0
    hold(alive * (70 << 20), 0)
";

fn are_counted(attack: &str) {
    is_bounded(&format!("{COMMON}{attack}"));
}

#[test]
fn processes_whose_first_thread_has_ended() {
    are_counted(
        r"
for _ in range(8):
    if os.fork() == 0:
        threading.Thread(target=keep).start()
        libc.syscall(60, 0)
count()
",
    );
}

/// Each ended thread uses the same memory as another one to the kernel: none.
#[test]
fn processes_that_take_memory_after_their_first_thread_has_ended() {
    are_counted(
        r"
def keep_later():
    time.sleep(0.5)
    keep()
for _ in range(8):
    if os.fork() == 0:
        threading.Thread(target=keep_later).start()
        libc.syscall(60, 0)
count()
",
    );
}

#[test]
fn processes_that_a_second_thread_started() {
    are_counted(
        r"
def start():
    for _ in range(8):
        if os.fork() == 0:
            keep()
    time.sleep(60)
threading.Thread(target=start, daemon=True).start()
count()
",
    );
}

#[test]
fn processes_at_the_end_of_a_long_line_of_descent() {
    are_counted(
        r"
if os.fork() == 0:
    for depth in range(26):
        if os.fork() > 0:
            if depth > 17:
                keep()
            time.sleep(60)
    keep()
count()
",
    );
}

/// A call that fills a mapping holds the lock of the process's memory, and a thread that wants to change the mapping waits for it. Init, which comes
/// third, must not wait while the memory of the machine is taken.
#[test]
fn memory_that_one_call_fills_while_others_wait_for_the_lock() {
    is_bounded(
        r"
import resource, threading
TAKEN = 1 << 30
size = 4 << 30
child = os.fork()
if child == 0:
    resource.setrlimit(resource.RLIMIT_DATA, (resource.getrlimit(resource.RLIMIT_DATA)[1],) * 2)
    area = libc.mmap(None, size, 3, 0x4022, -1, 0)
    part = size // 4
    for start in range(area, area + size, part):
        threading.Thread(target=libc.madvise, args=(start, part, 23)).start()
    until = time.monotonic() + 8
    while time.monotonic() < until:
        libc.munmap(libc.mmap(None, 4096, 3, 0x22, -1, 0), 4096)
    os._exit(0)
taken = 0
while taken < TAKEN and os.waitpid(child, os.WNOHANG) == (0, 0):
    with open(f'/proc/{child}/statm') as sizes:
        taken = int(sizes.read().split()[1]) * 4096
hold(taken if taken >= TAKEN else 0, 0)
",
    );
}

/// An attack that takes areas of shared memory until they are enough, and does something to each after its pages are there.
fn shared_areas(map: &str, hide: &str) -> String {
    format!(
        r"
PART = 32 << 20
got = 0
while got < WANTED:
    area = {map}
    if area == ctypes.c_void_p(-1).value:
        break
    for page in range(area, area + PART, 4096):
        ctypes.memset(page, 1, 1)
    {hide}
    got += PART
hold(got)
"
    )
}

/// Pages of shared memory stay when a process unmaps them, or says that it does not need them: then no process shows them.
#[test]
fn shared_memory_that_no_process_shows() {
    const MAP: &str = "libc.mmap(None, PART, 3, 0x21, -1, 0)";
    for hide in [
        "libc.madvise(area, PART, 4)",
        "libc.munmap(area + 4096, PART - 4096)",
        "libc.munmap(area, PART - 4096)",
    ] {
        is_bounded(&shared_areas(MAP, hide));
    }
}

/// The same memory, from the device that gives zeros.
#[test]
fn shared_memory_of_a_device_that_no_process_shows() {
    let attack = shared_areas(
        "libc.mmap(None, PART, 3, 1, os.open('/dev/zero', os.O_RDWR), 0)",
        "libc.munmap(area + 4096, PART - 4096)",
    );
    is_bounded(&attack);
}

/// Shared memory that was given back counts no more, as long as no checkpoint can have it.
#[test]
fn shared_memory_that_is_closed_is_had_again() {
    let limits = Limits {
        memory: 256 << 20,
        ..Limits::default()
    };
    let code = "import mmap\nfor _ in range(8):\n    with mmap.mmap(-1, 60 << 20) as area:\n        area[0] = 1";
    for rung in [Rung::Full, Rung::Landlock] {
        let session = behind(Isolation::on(rung), limits.clone(), &Map::new());
        let result = run(&session, Cell::new(code));
        assert_eq!(result.status, Success, "{rung:?}: {}", short(&result));
        wait(session.close());
    }
}
