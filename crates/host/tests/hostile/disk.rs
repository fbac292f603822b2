//! Code that takes more of the disk than it may, in every way that a walk through the workspace would not see in time.
//!
//! How much it took is measured by the host: blocks of files with a name in the workspace, sampled all the time. What has no name is
//! shown by the cell's own word that it still has it all.

use super::common::{behind, is_long, run, short, wait, within};
use super::scene::Scene;
use cellblock_protocol::Status::{Crashed, Success};
use cellblock_protocol::{Cell, CellResult, Isolation, Limits, Rung};
use cellblock_session::Session;
use serde_json::Map;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fs, iter};

const LIMIT: u64 = 32 << 20;
/// What a session may have taken before it was ended. Far more than it takes, for the machine may be busy; and far less than each
/// attack wants.
const TOO_MUCH: u64 = 10 * LIMIT;

fn limits() -> Limits {
    Limits {
        disk: LIMIT,
        memory: 512 << 20,
        ..Limits::default()
    }
}

/// Bytes that files with a name take on disk below a directory.
fn taken(directory: &Path) -> u64 {
    let mut open = vec![directory.to_owned()];
    let entries = iter::from_fn(|| {
        let directory: PathBuf = open.pop()?;
        let entries: Vec<_> = fs::read_dir(directory).into_iter().flatten().collect();
        let entries: Vec<_> = entries.into_iter().flatten().collect();
        let is_directory =
            |entry: &&fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        open.extend(entries.iter().filter(is_directory).map(fs::DirEntry::path));
        Some(entries)
    });
    let blocks = |entry: fs::DirEntry| entry.metadata().map_or(0, |found| found.blocks());
    entries.flatten().map(blocks).sum::<u64>() * 512
}

/// Measures all the time, until it is asked for the most that it saw.
struct Meter {
    most: Arc<AtomicU64>,
    is_done: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Meter {
    fn of(session: &Session) -> Meter {
        let directory = session.workspace().to_owned();
        let (most, is_done) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (seen, stop) = (Arc::clone(&most), Arc::clone(&is_done));
        let thread = thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                seen.fetch_max(taken(&directory), Ordering::Relaxed);
                thread::sleep(Duration::from_millis(2));
            }
        });
        Meter {
            most,
            is_done,
            thread,
        }
    }

    fn most(self) -> u64 {
        self.is_done.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.most.load(Ordering::Relaxed)
    }
}

fn is_little(most: u64, what: &str) {
    assert!(
        most < TOO_MUCH,
        "{what}: {} MiB on disk, with a limit of {} MiB",
        most >> 20,
        LIMIT >> 20
    );
}

/// Runs code in a session with and in one without namespaces, and looks at the result and at how much it took.
fn on_each_rung(code: &str, judge: impl Fn(&CellResult, u64)) {
    for rung in [Rung::Full, Rung::Landlock] {
        let session = behind(Isolation::on(rung), limits(), &Map::new());
        let meter = Meter::of(&session);
        let result = run(&session, Cell::new(code).timeout(Duration::from_secs(25)));
        judge(&result, meter.most());
        wait(session.close());
    }
}

/// The code must not get to its end, where it has what it wants and waits.
fn is_ended(code: &str) {
    on_each_rung(&format!("{COMMON}{code}"), |result, most| {
        assert_eq!(result.status, Crashed, "{code}\n{}", short(result));
        let kind = result.error.as_ref().map(|error| error.type_.as_str());
        assert_eq!(kind, Some("DiskLimit"), "{}", short(result));
        is_little(most, code);
    });
}

/// What the snippets have in common: a file without a name, and what becomes of it.
const COMMON: &str = r"
import array, ctypes, mmap, os, signal, socket, threading, time
libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
MEGABYTE = b'x' * (1 << 20)

def nameless(megabytes):
    try:
        file = os.open('.', os.O_TMPFILE | os.O_RDWR)
    except OSError:
        name = f'gone-{os.getpid()}-{threading.get_ident()}'
        file = os.open(name, os.O_CREAT | os.O_RDWR)
        os.unlink(name)
    for _ in range(megabytes):
        os.write(file, MEGABYTE)
    return file

def send(sender, *files):
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', files))
    sender.sendmsg([b'x'], [rights])
    for file in files:
        os.close(file)
";

#[test]
fn blocks_that_are_reserved_in_no_time() {
    // A mode that grows the file, one that does not, and one that clears; and the older way to ask for it.
    for mode in [0, 1, 0x10, 0x11] {
        let code = format!(
            "{COMMON}
for number in range(40):
    libc.fallocate(os.open(f'x{{number}}', os.O_CREAT | os.O_RDWR), {mode}, 0, {LIMIT})
time.sleep(1)
"
        );
        on_each_rung(&code, |_, most| is_little(most, &format!("mode {mode}")));
    }
    let code = format!(
        "{COMMON}
import fcntl, struct
for number in range(40):
    file = os.open(f'x{{number}}', os.O_CREAT | os.O_RDWR)
    for request in (0x40305828, 0x4030582a, 0x40305839):
        try:
            fcntl.ioctl(file, request, struct.pack('hhqqiI4i', 0, 0, 0, {LIMIT}, 0, 0, 0, 0, 0, 0))
        except OSError:
            pass
time.sleep(1)
"
    );
    on_each_rung(&code, |_, most| is_little(most, "by ioctl"));
}

#[test]
fn libraries_that_reserve_blocks_write_them_instead() {
    let code = r"
import os
with open('x', 'wb') as file:
    os.posix_fallocate(file.fileno(), 0, 1 << 20)
with open('x', 'r+b') as file:
    file.write(b'x' * (1 << 20))
    file.flush()
    import ctypes
    PUNCH_HOLE_KEEP_SIZE = 3
    arguments = [ctypes.c_long(value) for value in (0, 1 << 19)]
    assert ctypes.CDLL(None).fallocate(file.fileno(), PUNCH_HOLE_KEEP_SIZE, *arguments) == 0
stat = os.stat('x')
print(stat.st_size, stat.st_blocks * 512 <= 1 << 19)
";
    on_each_rung(code, |result, _| {
        assert_eq!(result.stdout, "1048576 True\n", "{}", short(result));
    });
}

#[test]
fn many_writers_at_once() {
    is_ended(
        r"
for number in range(40):
    if os.fork() == 0:
        with open(f'x{number}', 'wb') as file:
            for _ in range(30):
                file.write(MEGABYTE)
        time.sleep(30)
time.sleep(30)
",
    );
}

/// All begin at the same time, write much with each call, and ask the kernel for a processor before everyone else.
#[test]
fn many_writers_at_once_that_want_to_run_first() {
    is_ended(
        r"
import struct
begin, go = os.pipe()
much = b'x' * (30 << 20)
for number in range(40):
    if os.fork() == 0:
        SCHED_SETATTR, SHORTEST_SLICE = 314, 100_000
        wish = struct.pack('IIQiIQQQ', 48, 0, 0, 0, 0, SHORTEST_SLICE, 0, 0)
        libc.syscall(SCHED_SETATTR, 0, wish, 0)
        os.close(go)
        os.read(begin, 1)
        for part in range(10):
            file = os.open(f'x{number}-{part}', os.O_CREAT | os.O_WRONLY)
            os.write(file, much)
        time.sleep(30)
os.close(go)
time.sleep(30)
",
    );
}

/// They are made faster than a look can count them, so the session stands still during a look.
#[test]
fn directories_by_the_hundred_thousand() {
    const DISK: u64 = 96 << 20;
    /// Each takes a block of its own.
    const MOST_DIRECTORIES: u64 = DISK / 4096;
    let limits = Limits {
        disk: DISK,
        ..limits()
    };
    let session = behind(Isolation::on(Rung::Full), limits, &Map::new());
    let code = r"
import os, time
end, made = time.monotonic() + 12, 0
while time.monotonic() < end:
    os.mkdir(f'{made}')
    made += 1
    if made % 1000 == 0:
        print(made, flush=True)
";
    let result = run(&session, Cell::new(code).timeout(Duration::from_secs(30)));
    let made = 1000 * result.stdout.lines().count() as u64;
    assert!(made < MOST_DIRECTORIES * 3, "{made}");
    // On a busy machine it stands still for most of its time.
    let is_within = result.status == Success && made <= MOST_DIRECTORIES;
    assert!(is_within || result.status == Crashed, "{}", short(&result));
    wait(session.close());
}

#[test]
fn blocks_beyond_the_end_of_a_file_count() {
    // Without the filter, they can be had: only what is counted ends the session.
    let isolation = Isolation::default().without(cellblock_protocol::Wall::Seccomp);
    let session = behind(isolation, limits(), &Map::new());
    let code = format!(
        "{COMMON}
for number in range(3):
    libc.fallocate(os.open(f'x{{number}}', os.O_CREAT | os.O_RDWR), 1, 0, {LIMIT} // 2)
time.sleep(5)
"
    );
    let result = run(&session, Cell::new(code).timeout(Duration::from_secs(25)));
    assert_eq!(result.status, Crashed, "{}", short(&result));
    wait(session.close());
}

#[test]
fn files_without_a_name_that_wait_in_a_socket() {
    is_ended(
        r"
sender, kept = socket.socketpair()
for _ in range(40):
    send(sender, nameless(30))
time.sleep(5)
",
    );
}

#[test]
fn files_without_a_name_that_wait_in_a_socket_that_waits_in_a_socket() {
    is_ended(
        r"
outer, kept = socket.socketpair()
for _ in range(10):
    sender, receiver = socket.socketpair()
    for _ in range(4):
        send(sender, nameless(30))
    send(outer, receiver.detach())
    sender.close()
time.sleep(5)
",
    );
}

#[test]
fn files_without_a_name_that_short_lived_processes_leave_in_a_socket() {
    // The kernel forgets what a child wrote when its parent does not wait for it.
    is_ended(
        r"
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
sender, kept = socket.socketpair()
for _ in range(120):
    if os.fork() == 0:
        send(sender, nameless(10))
        os._exit(0)
    time.sleep(0.02)
time.sleep(5)
",
    );
}

#[test]
fn files_without_a_name_that_a_short_cell_leaves_in_a_socket() {
    let scene = Scene::with(limits());
    let code = format!(
        "{COMMON}
sender, kept = socket.socketpair()
def leave():
    time.sleep(0.5)
    for _ in range(40):
        send(sender, nameless(30))
    while True:
        time.sleep(1)
threading.Thread(target=leave, daemon=True).start()
"
    );
    assert_eq!(scene.run(&code).status, Success);
    is_over(&scene);
    scene.ends_clean();
}

#[test]
fn files_without_a_name_of_which_one_page_is_mapped() {
    is_ended(
        r"
kept = []
for _ in range(80):
    file = nameless(15)
    kept.append(mmap.mmap(file, 4096))
    os.close(file)
    # Python keeps a descriptor of what it maps.
    for number in range(4, 200):
        try:
            os.close(number)
        except OSError:
            pass
time.sleep(5)
",
    );
}

#[test]
fn files_without_a_name_of_a_process_whose_first_thread_has_ended() {
    is_ended(
        r"
if os.fork() == 0:
    def keep():
        for _ in range(40):
            nameless(30)
        time.sleep(30)
    threading.Thread(target=keep).start()
    libc.pthread_exit(None)
time.sleep(20)
",
    );
}

#[test]
fn a_process_that_a_cell_left_behind() {
    let scene = Scene::with(limits());
    let code = format!(
        "{COMMON}
if os.fork() == 0:
    os.setsid()
    time.sleep(0.5)
    for number in range(40):
        with open(f'x{{number}}', 'wb') as file:
            for _ in range(30):
                file.write(MEGABYTE)
    time.sleep(60)
"
    );
    let meter = Meter::of(&scene.session);
    assert_eq!(scene.run(&code).status, Success);
    is_over(&scene);
    is_little(meter.most(), "left behind");
    scene.ends_clean();
}

#[test]
fn a_thread_that_a_cell_left_behind_in_directories_of_its_own() {
    let scene = Scene::with(limits());
    let code = format!(
        "{COMMON}
def fill():
    for number in range(40):
        os.makedirs(f'a{{number}}/b/c')
        with open(f'a{{number}}/b/c/x', 'wb') as file:
            for _ in range(30):
                file.write(MEGABYTE)
    time.sleep(60)
threading.Timer(0.5, fill).start()
"
    );
    let meter = Meter::of(&scene.session);
    assert_eq!(scene.run(&code).status, Success);
    is_over(&scene);
    is_little(meter.most(), "left behind");
    scene.ends_clean();
}

/// The session ends by itself, and says why.
fn is_over(scene: &Scene) {
    let is_over = || scene.session.end().is_some();
    assert!(within(Duration::from_secs(20), is_over), "it goes on");
    let reason = scene.session.end().unwrap();
    assert!(
        reason.contains("wrote more than its 32 MiB to the workspace"),
        "{reason}"
    );
}

#[test]
fn files_that_the_user_brings_between_cells_end_nothing() {
    let scene = Scene::with(limits());
    // A thread that does next to nothing, as those of many libraries do.
    let code = r"
import threading, time
def idle():
    while True:
        time.sleep(0.02)
threading.Thread(target=idle, daemon=True).start()
";
    assert_eq!(scene.run(code).status, Success);
    let path = scene.session.workspace().join("brought");
    for _ in 0..20 {
        let mut file = fs::File::options()
            .create(true)
            .append(true)
            .open(&path)
            .unwrap();
        std::io::Write::write_all(&mut file, &vec![1; 4 << 20]).unwrap();
        thread::sleep(Duration::from_millis(20));
    }
    thread::sleep(Duration::from_millis(500));
    assert_eq!(scene.session.end(), None);
    assert_eq!(fs::metadata(&path).unwrap().len(), 80 << 20);
    scene.ends_clean();
}

#[test]
fn temporary_files_count_where_they_are_on_disk() {
    // Without namespaces, the session's temporary directory is one of the host's.
    let session = behind(Isolation::on(Rung::Landlock), limits(), &Map::new());
    let code = r"
import tempfile, time
kept = []
for _ in range(30):
    file = tempfile.NamedTemporaryFile()
    for _ in range(20):
        file.write(b'x' * (1 << 20))
    file.flush()
    kept.append(file)
time.sleep(5)
";
    let result = run(&session, Cell::new(code).timeout(Duration::from_secs(25)));
    assert_eq!(result.status, Crashed, "{}", short(&result));
    wait(session.close());
}

#[test]
fn pipes_and_sockets_are_entries_too() {
    if !is_long() {
        return;
    }
    let code = r"
import os
for number in range(105_000):
    os.mkfifo(f'{number}')
import time
time.sleep(5)
";
    let scene = Scene::with(limits());
    let result = scene.run_for(60.0, code);
    assert_eq!(result.status, Crashed, "{}", short(&result));
    scene.ends_clean();
}
