//! Ways around what counts and what guards: data that waits in connections, protocols whose sockets are in no list, files that are opened
//! neither for reading nor for writing.

use super::common::{behind, run, short, wait};
use super::kernel_memory::is_bounded;
use cellblock_protocol::Status::{Crashed, Success};
use cellblock_protocol::{Cell, Isolation, Limits, Rung};
use cellblock_session::Cgroups;
use serde_json::Map;
use std::time::Duration;

#[test]
fn connections_whose_other_end_does_not_read() {
    is_bounded(
        r"
listener = socket.create_server(('127.0.0.1', 0), backlog=4096)
got = 0
while got < WANTED:
    # Where sockets have a limit, connections stall at it.
    sender = socket.create_connection(listener.getsockname(), timeout=2)
    sender.setblocking(False)
    try:
        while True:
            got += sender.send(bytes(65536))
    except BlockingIOError:
        kept.append(sender)
hold(got)
",
    );
}

/// The kernel keeps what was sent and not confirmed.
#[test]
fn connections_that_are_closed_before_the_other_end_has_read() {
    is_bounded(
        r"
listener = socket.create_server(('127.0.0.1', 0), backlog=4096)
got, end = 0, time.monotonic() + 8
while got < WANTED and time.monotonic() < end:
    # Where sockets have a limit, connections stall at it.
    sender = socket.create_connection(listener.getsockname(), timeout=2)
    sender.setblocking(False)
    try:
        while got < WANTED:
            got += sender.send(bytes(65536))
    except BlockingIOError:
        sender.close()
hold(got)
",
    );
}

/// Connections that are not accepted belong to no cgroup, and it does not count what they have received.
#[test]
fn connections_that_are_never_accepted() {
    is_bounded(
        r"
listeners = [socket.create_server(('127.0.0.1', 0), backlog=4096) for _ in range(4)]
got, count, end = 0, 0, time.monotonic() + 10
while got < WANTED and time.monotonic() < end:
    # Each listener has its own queue. Where sockets have a limit, connections stall at it.
    with socket.create_connection(listeners[count % 4].getsockname(), timeout=2) as sender:
        sender.setblocking(False)
        try:
            got += sender.send(bytes(60000))
        except BlockingIOError:
            pass
    count += 1
hold(got)
",
    );
}

/// A cgroup counts all sockets but connections that are not accepted. Init counts only those: its estimate for the others is far too high.
#[test]
fn sockets_that_a_cgroup_counts_are_not_counted_by_init_too() {
    if Cgroups::detect().is_none() {
        return;
    }
    let limits = Limits {
        memory: 64 << 20,
        ..Limits::default()
    };
    let session = behind(Isolation::on(Rung::Full), limits, &Map::new());
    let code = "
import socket, time
server = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(server.getsockname())
accepted = server.accept()[0]
pairs = [socket.socketpair(type=socket.SOCK_DGRAM) for _ in range(40)]
for near, _ in pairs:
    near.send(b'x')
time.sleep(1)
print([far.recv(1) for _, far in pairs] == [b'x'] * 40)";
    let result = run(&session, code);
    assert_eq!(result.stdout, "True\n", "{}", short(&result));
    wait(session.close());
}

/// What `/proc` tells of an instance of epoll has a line for each watch. The kernel keeps this text for every descriptor that was read.
#[test]
fn texts_about_watches_that_are_kept_open() {
    const ATTACK: &str = r"
import fcntl, os, select, time
TEXTS, TEXT_BYTES = 40, 4 << 20
epoll = select.epoll()
# A watch stays when its descriptor is closed and another one has the same file: so there are more watches than descriptors.
files = [fcntl.fcntl(os.eventfd(0), fcntl.F_DUPFD, 900) for _ in range(37)]
for file in files:
    for number in range(50, 890):
        os.dup2(file, number)
        epoll.register(number)
os.closerange(50, 890)
r, w = os.pipe()
for _ in range(2):
    if os.fork() == 0:
        texts = []
        while True:
            texts.append(os.open(f'/proc/self/fdinfo/{epoll.fileno()}', os.O_RDONLY))
            os.read(texts[-1], 1)
            os.write(w, b'x')
for _ in range(TEXTS):
    os.read(r, 1)
# On a busy machine the watchdog looks late.
time.sleep(60)
print('held', TEXTS * TEXT_BYTES)
";
    // The kernel writes texts as large as the limit, which takes a processor's time: so the limit is low.
    let limits = Limits {
        memory: 64 << 20,
        ..Limits::default()
    };
    let session = behind(Isolation::default(), limits, &Map::new());
    let cell = Cell::new(ATTACK).timeout(Duration::from_secs(120));
    let result = run(&session, cell);
    assert_eq!(result.status, Crashed, "{}", short(&result));
    wait(session.close());
}

#[test]
fn sockets_with_several_paths_that_are_full() {
    is_bounded(
        r"
MPTCP = 262
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, MPTCP)
listener.bind(('127.0.0.1', 0))
listener.listen(4096)
got = 0
while got < WANTED:
    sender = socket.socket(socket.AF_INET, socket.SOCK_STREAM, MPTCP)
    sender.connect(listener.getsockname())
    sender.setblocking(False)
    try:
        while True:
            got += sender.send(bytes(65536))
    except BlockingIOError:
        kept.append(sender)
hold(got)
",
    );
}

#[test]
fn sockets_with_partial_checksums_that_are_full() {
    is_bounded(
        r"
UDP_LITE, FULL = 136, 200 << 10
def fill():
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, UDP_LITE)
    for _ in range(800):
        kept.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM, UDP_LITE))
        kept[-1].bind(('127.0.0.1', 0))
        for _ in range(100):
            sender.sendto(bytes(1400), kept[-1].getsockname())
    return len(kept) * FULL
hold(in_children(4, fill))
",
    );
}

/// Opens each device for nothing, and says which of them it has.
const OPENED_FOR_NOTHING: &str = r"
import os
NOTHING = os.O_WRONLY | os.O_RDWR
had = []
for path in ['/dev/ptmx', '/dev/null', canary]:
    try:
        had.append(os.open(path, NOTHING | os.O_NOCTTY))
    except OSError:
        pass
print(len(had), end='')
";

/// Landlock asks for no right then. So every terminal of the machine could be taken on the rung `landlock`.
#[test]
fn no_file_is_opened_for_nothing() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let seeds = Map::from_iter([("canary".to_owned(), path.into())]);
    for (rung, opened) in [(Rung::None, "3"), (Rung::Landlock, "0"), (Rung::Full, "0")] {
        let session = behind(Isolation::on(rung), Limits::default(), &seeds);
        let result = run(&session, OPENED_FOR_NOTHING);
        assert_eq!(
            (result.status, result.stdout.as_str()),
            (Success, opened),
            "{rung:?}: {}",
            short(&result)
        );
        wait(session.close());
    }
}
