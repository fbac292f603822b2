//! Memory that the kernel holds for a session and that no process shows as its own: pages in pipes and sockets, page tables, semaphores,
//! locks, and the like. Where there is a cgroup it counts them; elsewhere init does, or the filter refuses the call.
//!
//! Each attack says how much it got hold of, and fails by itself where that is not beyond every limit. So an attack that succeeds has found
//! memory that nobody bounds.

use super::common::{behind, is_root, run, short, wait};
use super::resources::is_refused;
use super::scene::Scene;
use cellblock_protocol::Status::{Crashed, Failure, Success};
use cellblock_protocol::{Cell, Isolation, Limits, Rung};
use serde_json::Map;
use std::time::Duration;

/// What every attack has: libc, and how to end.
const PRELUDE: &str = r"
import ctypes, os, socket, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
WANTED = 500 << 20
kept = []
def check(outcome):
    if outcome < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return outcome
def hold(got, seconds=2):
    if got < WANTED:
        raise SystemExit(f'only {got >> 20} MiB')
    time.sleep(seconds)
def in_children(count, work):
    # Each says when it has what it wants, and keeps it.
    r, w = os.pipe()
    for _ in range(count):
        if os.fork() == 0:
            try:
                os.write(w, struct.pack('q', work()))
                time.sleep(60)
            finally:
                os._exit(0)
    os.close(w)
    return sum(struct.unpack('q', os.read(r, 8) or bytes(8))[0] for _ in range(count))
";

fn limits() -> Limits {
    Limits {
        memory: 128 << 20,
        ..Limits::default()
    }
}

/// Runs an attack on both rungs. It must fail by itself or be ended.
pub(crate) fn is_bounded(attack: &str) {
    is_bounded_within(limits(), attack);
}

fn is_bounded_within(limits: Limits, attack: &str) {
    let code = format!("{PRELUDE}{attack}");
    is_refused(limits.clone(), &code);
    // Without namespaces, less can be told of what is the session's.
    let session = behind(Isolation::on(Rung::Landlock), limits, &Map::new());
    let result = run(&session, Cell::new(code).timeout(Duration::from_secs(20)));
    assert!(
        [Failure, Crashed].contains(&result.status),
        "on the rung landlock: {}",
        short(&result)
    );
    wait(session.close());
}

#[test]
fn huge_pages_that_only_a_pipe_holds() {
    is_bounded(
        r"
HUGE = 2 << 20
got = 0
while got < WANTED:
    kept.append(os.pipe())
    size = 17 * HUGE
    area = libc.mmap(None, size, 3, 0x22, -1, 0)
    first = (area + HUGE - 1) // HUGE * HUGE
    libc.madvise(first, 16 * HUGE, 14)
    for number in range(16):
        at = first + number * HUGE
        ctypes.memset(at, 1, HUGE)
        one = (ctypes.c_size_t * 2)(at, 1)
        check(libc.vmsplice(kept[-1][1], one, 1, 8))
    libc.munmap(area, size)
    got += 16 * HUGE
hold(got)
",
    );
}

#[test]
fn pipes_that_are_full() {
    is_bounded(
        r"
import fcntl
def fill():
    got = 0
    try:
        while True:
            kept.append(os.pipe())
            w = kept[-1][1]
            try:
                fcntl.fcntl(w, 1031, 1 << 20)
            except OSError:
                pass
            os.set_blocking(w, False)
            try:
                while True:
                    got += os.write(w, bytes(4096))
            except BlockingIOError:
                pass
    except OSError:
        return got
hold(in_children(50, fill))
",
    );
}

#[test]
fn page_tables_of_areas_that_are_only_read() {
    is_bounded(
        r"
GIGABYTE, STEP = 1 << 30, 2 << 20
got = 0
while got < WANTED:
    area = libc.mmap(None, GIGABYTE, 1, 0x4022, -1, 0)
    for offset in range(0, GIGABYTE, STEP):
        ctypes.c_ubyte.from_address(area + offset).value
    got += GIGABYTE // STEP * 4096
hold(got)
",
    );
}

#[test]
fn sockets_that_are_full() {
    is_bounded(
        r"
def fill():
    got = 0
    while got < WANTED // 4:
        pair = socket.socketpair()
        for end in pair:
            end.setblocking(False)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24)
            try:
                while True:
                    got += end.send(bytes(65536))
            except BlockingIOError:
                pass
        kept.append(pair)
    return got
hold(in_children(4, fill))
",
    );
}

#[test]
fn sockets_that_are_full_and_whose_other_end_is_gone() {
    is_bounded(
        r"
def fill():
    got = 0
    while got < WANTED // 4:
        near, far = socket.socketpair()
        near.setblocking(False)
        near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24)
        try:
            # The kernel takes 768 bytes and more for each of these.
            while True:
                got += 768 * near.send(b'x')
        except BlockingIOError:
            pass
        near.close()
        kept.append(far)
    return got
hold(in_children(4, fill))
",
    );
}

#[test]
fn sockets_that_wait_to_be_accepted() {
    is_bounded(
        r"
got = 0
server = socket.socket(socket.AF_UNIX)
server.bind('\0server')
server.listen(4096)
while got < WANTED:
    client = socket.socket(socket.AF_UNIX)
    client.setblocking(False)
    client.connect('\0server')
    try:
        while True:
            got += client.send(bytes(65536))
    except BlockingIOError:
        pass
    client.close()
hold(got)
",
    );
}

#[test]
fn pages_in_sockets_of_which_one_byte_counts() {
    is_bounded(
        r"
r, w = os.pipe2(os.O_DIRECT | os.O_NONBLOCK)
got = 0
while got < WANTED:
    near, far = socket.socketpair()
    near.setblocking(False)
    kept.append((near, far))
    try:
        while True:
            for _ in range(16):
                os.write(w, b'x')
            moved = 0
            while moved < 16:
                moved += os.splice(r, near.fileno(), 16 - moved)
            got += 16 * 4096
    except BlockingIOError:
        pass
    try:
        while True:
            os.read(r, 4096)
    except BlockingIOError:
        pass
hold(got)
",
    );
}

#[test]
fn semaphores() {
    is_bounded(
        r"
got = 0
while got < WANTED:
    check(libc.semget(0, 32000, 0o1600))
    got += 32000 * 64
hold(got)
",
    );
}

#[test]
fn notes_of_how_semaphores_are_to_be_put_back() {
    // The semaphores themselves are within the limit. For each process the kernel keeps a note about each set.
    let limits = Limits {
        memory: 512 << 20,
        // What a cgroup allows for them could be used for the notes.
        checkpoint_memory: Some(1 << 20),
        ..Limits::default()
    };
    is_bounded_within(
        limits,
        r"
SETS, SEMAPHORES, PROCESSES, UNDO = 1104, 2020, 58, 0o10000
def note():
    change = struct.pack('Hhh', 0, 0, UNDO)
    for number in sets:
        check(libc.semop(number, change, 1))
    return len(sets) * 8192
sets = [check(libc.semget(0, SEMAPHORES, 0o600)) for _ in range(SETS)]
hold(in_children(PROCESSES, note))
",
    );
}

#[test]
fn message_queues() {
    is_bounded(
        r"
got = 0
message = struct.pack('l', 1) + bytes(8000)
while got < WANTED:
    queue = check(libc.msgget(0, 0o1600))
    while libc.msgsnd(queue, message, 8000, 0o4000) == 0:
        got += 8192
hold(got)
",
    );
}

#[test]
fn a_table_for_futexes() {
    is_bounded(
        r"
check(libc.prctl(78, 1, ctypes.c_ulong(1 << 23), ctypes.c_ulong(0), ctypes.c_ulong(0)))
hold(64 << 23)
",
    );
}

#[test]
fn lists_of_users_at_files_in_memory() {
    is_bounded(
        r"
entry = lambda tag, user: struct.pack('<HHI', tag, 6, user)
NOBODY, COUNT = 0xFFFF_FFFF, 8000
text = struct.pack('<I', 2) + entry(1, NOBODY) + entry(2, os.getuid()) * COUNT + entry(4, NOBODY) + entry(16, NOBODY) + entry(32, NOBODY)
got = 0
while got < WANTED:
    path = f'/tmp/{got}'
    os.close(os.open(path, os.O_CREAT))
    os.setxattr(path, 'system.posix_acl_access', text)
    got += 12 * COUNT
hold(got)
",
    );
}

#[test]
fn areas_of_memory_by_the_ten_thousand() {
    is_bounded(
        r"
area = libc.mmap(None, 256 << 20, 1, 0x4022, -1, 0)
for page in range(0, 64000, 2):
    libc.mprotect(area + 4096 * page, 4096, 0)
# To count them takes a while.
hold(in_children(50, lambda: 64000 * 200), 10)
",
    );
}

#[test]
fn locks_on_files() {
    let code = r"
import fcntl, os, time
files = [os.open(f'/tmp/{number}', os.O_CREAT | os.O_RDWR) for number in range(200)]
for number in range(200):
    for file in files:
        fcntl.lockf(file, fcntl.LOCK_EX, 1, 2 * number)
time.sleep(2)
";
    let scene = Scene::new();
    let result = scene.run_for(20.0, code);
    // Where there is a cgroup, they are memory like any other.
    let is_counted = is_root() && result.status == Success;
    assert!(is_counted || result.status == Crashed, "{}", short(&result));
    scene.goes_on();
    scene.ends_clean();
}

#[test]
fn asynchronous_requests_to_files() {
    // The kernel counts these for the whole machine, and there are only 65 536.
    is_bounded(
        r"
context = ctypes.c_ulong(0)
check(libc.syscall(206, 64, ctypes.byref(context)))
hold(WANTED)
",
    );
}

#[test]
fn programs_at_sockets() {
    is_bounded(
        r"
step = struct.pack('HBBI', 0, 0, 0, 1)
program = ctypes.create_string_buffer(step * 4095 + struct.pack('HBBI', 6, 0, 0, 0))
def fill():
    got = 0
    try:
        while True:
            end = socket.socket(socket.AF_UNIX)
            end.setsockopt(socket.SOL_SOCKET, 26, struct.pack('HxxxxxxP', 4096, ctypes.addressof(program)))
            kept.append(end)
            got += 96 << 10
    except OSError:
        return got
hold(in_children(6, fill))
",
    );
}

#[test]
fn answers_of_the_kernel_that_nobody_reads() {
    is_bounded(
        r"
LINK = struct.pack('IHHIIBxHiII', 32, 18, 1, 1, 0, 0, 0, 1, 0, 0)
def work():
    for _ in range(1000):
        asking = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        asking.bind((0, 0))
        for _ in range(40):
            asking.send(LINK)
        kept.append(asking)
    return 50 << 20
hold(in_children(12, work))
",
    );
}
