//! What a failed cell did to things that were open before it, beside reading and writing: it is put back, or the result names it.

use crate::support::{Python, session};
use cellblock_protocol::CheckpointStatus;

/// Runs a cell that ends its process, and returns what could not be put back.
fn crash(session: &Python, code: &str) -> Vec<String> {
    let crashed = session.run(format!("{code}\nimport os; os._exit(3)").as_str());
    assert_eq!(crashed.state.checkpoint.status, CheckpointStatus::Armed);
    crashed.state.not_restored
}

const NOTHING: Vec<String> = Vec::new();

#[test]
fn flags_of_open_files_pipes_and_sockets_are_as_they_were() {
    let session = session();
    session.good(
        "import fcntl, os, socket, sys
file = open('file', 'wb', buffering=0)
appending = os.open('file', os.O_WRONLY | os.O_APPEND)
reader, writer = os.pipe2(os.O_NONBLOCK)
near, far = socket.socketpair()
everything = [file.fileno(), appending, reader, writer, near.fileno(), 0, 1, 2]
def flags():
    return [fcntl.fcntl(number, fcntl.F_GETFL) for number in everything]
before = flags()",
    );
    let change = "for number in everything:
    fcntl.fcntl(number, fcntl.F_SETFL, fcntl.fcntl(number, fcntl.F_GETFL) ^ os.O_NONBLOCK ^ os.O_APPEND)
assert all(now != earlier for now, earlier in zip(flags(), before))";
    for _ in 0..2 {
        assert_eq!(crash(&session, change), NOTHING);
        assert_eq!(session.value("flags() == before"), "True");
    }
    session.good("x = 1");
    session.good(change);
    crate::support::wait(session.undo(1)).unwrap();
    assert_eq!(session.value("flags() == before"), "True");
}

#[test]
fn options_of_sockets_are_as_they_were() {
    let session = session();
    session.good(
        "import socket, struct
near, far = socket.socketpair()
server = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(server.getsockname())
accepted, _ = server.accept()
alone = socket.socket()
OPTIONS = [(socket.SOL_SOCKET, option) for option in (socket.SO_KEEPALIVE, socket.SO_LINGER, socket.SO_RCVTIMEO, socket.SO_PRIORITY)]
INTERNET = [(socket.IPPROTO_TCP, socket.TCP_NODELAY), (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE), (socket.IPPROTO_IP, socket.IP_TTL), (socket.IPPROTO_IP, socket.IP_TOS)]
def options():
    return [one.getsockopt(*name, 16) for one in (near, client, alone, server) for name in OPTIONS + (INTERNET if one is not near else [])]
before = options(), near.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)",
    );
    let change = "for one in (near, client, alone, server):
    one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 7))
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack('ll', 3, 0))
    if one is near:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 9000)
    else:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 77)
        one.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 9)
assert options() != before[0]";
    for _ in 0..2 {
        assert_eq!(crash(&session, change), NOTHING);
        assert_eq!(
            session.value(
                "(options(), near.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)) == before"
            ),
            "True"
        );
    }
}

#[test]
fn a_connection_that_was_made_or_ended_is_named() {
    let session = session();
    session.good(
        "import socket
near, far = socket.socketpair()
other, other_far = socket.socketpair()
server = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(server.getsockname())
accepted, _ = server.accept()
alone, packets = socket.socket(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
    );
    assert_eq!(crash(&session, "x = 1"), NOTHING);
    for (act, socket) in [
        ("near.shutdown(socket.SHUT_WR)", "near"),
        ("other.shutdown(socket.SHUT_RD)", "other"),
        ("client.shutdown(socket.SHUT_WR)", "client"),
        ("alone.connect(server.getsockname())", "alone"),
        ("packets.connect(('127.0.0.1', 9))", "packets"),
    ] {
        let number = session.value(format!("{socket}.fileno()").as_str());
        let lost = crash(&session, act);
        let line =
            format!("a socket (descriptor {number}): its connection was made, shut down or ended");
        assert!(lost.contains(&line), "{act}: {lost:?}");
        session.good("x = 2");
        assert_eq!(crash(&session, "x = 3"), NOTHING, "{act}: named once");
    }
}

#[test]
fn what_an_inotify_does_not_watch_any_more_is_named() {
    let session = session();
    session.good(
        "import ctypes, os
libc = ctypes.CDLL(None)
watches = libc.inotify_init()
watched = libc.inotify_add_watch(watches, b'/tmp', 0x100)",
    );
    let number = session.value("watches");
    assert_eq!(crash(&session, "x = 1"), NOTHING);
    let line = format!("anon_inode:inotify (descriptor {number}): what it watches");
    assert_eq!(
        crash(&session, "libc.inotify_rm_watch(watches, watched)"),
        [line]
    );
}

#[test]
fn locks_of_open_files_are_as_they_were() {
    let session = session();
    session.good(
        "import fcntl, os, struct
file = open('file', 'wb+'); file.write(bytes(100)); file.flush()
def lock(kind, start, length, file=file):
    fcntl.fcntl(file.fileno(), 37, struct.pack('hhqqi4x', kind, 0, start, length, 0))
def locks():
    with open(f'/proc/self/fdinfo/{file.fileno()}') as information:
        return sorted(line.split()[2:] for line in information if line.startswith('lock'))
try:
    lock(fcntl.F_WRLCK, 10, 5)
    lock(fcntl.F_RDLCK, 50, 0)
except OSError as error:
    refused = error.errno == 22
before = locks()",
    );
    if session.value("'refused' in globals() and refused") == "True" {
        // Where no cgroup counts the kernel's memory, the filter refuses such locks (`walls/seccomp/memory.rs`): there is nothing to put back.
        return;
    }
    assert_eq!(session.value("len(before)"), "2");
    for act in [
        "lock(fcntl.F_UNLCK, 0, 0)",
        "lock(fcntl.F_WRLCK, 30, 5)",
        "lock(fcntl.F_RDLCK, 10, 5); lock(fcntl.F_UNLCK, 60, 10)",
    ] {
        assert_eq!(crash(&session, act), NOTHING, "{act}");
        assert_eq!(session.value("locks() == before"), "True", "{act}");
    }
}
