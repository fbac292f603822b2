//! Sockets to the kernel (netlink): a session has a few at once, however it holds them and however many threads ask.

use super::common::{behind, run, short, wait};
use cellblock_protocol::Status::Success;
use cellblock_protocol::{Cell, Isolation, Limits, Rung, Wall};
use serde_json::Map;
use std::time::Duration;

/// A session gets a few sockets to the kernel at once, however they are held, and gets others when it has closed these.
#[test]
fn netlink_sockets_are_few_and_are_had_again_when_they_are_closed() {
    let session = behind(Isolation::on(Rung::Full), Limits::default(), &Map::new());
    let code = r"
import array, resource, socket
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
def open_all():
    got = []
    try:
        for _ in range(200):
            got.append(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0))
    except OSError as error:
        return got, error.errno
    return got, 0
first, refusal = open_all()
near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
near.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [s.fileno() for s in first]))])
count = len(first)
del first
in_flight = len(open_all()[0])
near.close(), far.close()
counts = [count, refusal, in_flight]
for _ in range(3):
    counts.append(len(open_all()[0]))
buffer = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
before = buffer.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
buffer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 30)
grows = buffer.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) > before
print(counts, grows)
";
    let result = run(&session, Cell::new(code).timeout(Duration::from_secs(20)));
    assert_eq!(result.status, Success, "{}", short(&result));
    assert_eq!(
        result.stdout.trim(),
        "[64, 24, 0, 64, 64, 64] False",
        "{}",
        short(&result)
    );
    wait(session.close());
}

/// Threads that run only when no other does are allowed their calls long before they make them.
#[test]
fn netlink_sockets_are_few_although_many_threads_ask_at_once() {
    let code = r"
import ctypes, os, socket, threading, time
libc = ctypes.CDLL(None, use_errno=True)
for _ in range(os.cpu_count()):
    if os.fork() == 0:
        end = time.monotonic() + 4
        while time.monotonic() < end:
            pass
        os._exit(0)
got = []
begin = threading.Event()
def ask():
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    begin.wait()
    for _ in range(20):
        number = libc.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        if number >= 0:
            got.append(number)
threads = [threading.Thread(target=ask) for _ in range(40)]
for thread in threads:
    thread.start()
begin.set()
for thread in threads:
    thread.join()
print(len(got))
";
    let session = behind(Isolation::on(Rung::Full), Limits::default(), &Map::new());
    let result = run(&session, Cell::new(code).timeout(Duration::from_secs(60)));
    let got: u64 = result.stdout.trim().parse().unwrap_or(u64::MAX);
    assert!((1..=64).contains(&got), "{}", short(&result));
    wait(session.close());
}

/// Without a network of its own, a session's sockets are counted by its descriptors.
#[test]
fn netlink_sockets_that_wait_in_a_socket_that_waits_in_a_socket_are_not_given_out_again() {
    let code = r"
import array, resource, socket
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
def send(through, sockets):
    numbers = array.array('i', [s.fileno() for s in sockets])
    through.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)])
outer = socket.socketpair()
total = 0
for _ in range(5):
    got = []
    try:
        while len(got) < 64:
            got.append(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0))
    except OSError:
        pass
    total += len(got)
    inner = socket.socketpair()
    if got:
        send(inner[0], got)
    send(outer[0], inner)
    for s in [*got, *inner]:
        s.close()
print(total)
";
    let isolation = Isolation::on(Rung::Full).without(Wall::Network);
    let session = behind(isolation, Limits::default(), &Map::new());
    let result = run(&session, Cell::new(code).timeout(Duration::from_secs(20)));
    assert_eq!(result.stdout.trim(), "64", "{}", short(&result));
    wait(session.close());
}
