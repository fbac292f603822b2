//! Servers on the session's own loopback: they listen again after a crash, a time-out or an undo, and a checkpoint holds no address that the
//! code has given up.

use crate::support::{session, wait};
use cellblock_protocol::{
    Cell, CheckpointState, CheckpointStatus, ProcessStatus, Spawn, StateOutcome, Status,
};
use std::time::Duration;

const NOTHING: Vec<String> = Vec::new();
const SEGFAULT: &str = "import ctypes; ctypes.string_at(0)";

/// An HTTP server in a thread, and `fetch()`, which asks it.
const HTTP_SERVER: &str = "
import http.server, threading, urllib.request
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b'x = %d' % x)
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', 8123), Answer)
threading.Thread(target=server.serve_forever, daemon=True).start()
def fetch():
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return opener.open('http://127.0.0.1:8123/', timeout=5).read().decode()
x = 1";

#[test]
fn a_server_in_a_thread_survives_each_kind_of_end() {
    let session = session();
    session.good(HTTP_SERVER);
    assert_eq!(session.value("fetch()"), "'x = 1'");
    let endings = [
        (Cell::new(SEGFAULT), Status::Crashed),
        (
            Cell::new("x = 5; fetch(); os._exit(3)".replace("os", "__import__('os')")),
            Status::Crashed,
        ),
        (
            Cell::new("while True: fetch()").timeout(Duration::from_millis(300)),
            Status::Timeout,
        ),
        (
            Cell::new("server.shutdown(); server.server_close(); __import__('os').abort()"),
            Status::Crashed,
        ),
    ];
    for (cell, status) in endings {
        let result = session.run(cell);
        assert_eq!(result.status, status);
        assert_eq!(result.state.outcome, StateOutcome::Restored);
        assert_eq!(result.state.checkpoint, CheckpointState::armed());
        assert_eq!(result.state.not_restored, NOTHING);
        assert_eq!(session.value("fetch()"), "'x = 1'");
    }
}

#[test]
fn a_server_that_was_closed_listens_again_after_an_undo() {
    let session = session();
    session.good(HTTP_SERVER);
    session.good("server.shutdown(); server.server_close(); x = 2");
    assert_eq!(wait(session.undo(1)).unwrap().cell, 1);
    assert_eq!(session.value("fetch()"), "'x = 1'");
}

#[test]
fn a_checkpoint_holds_no_address_that_was_given_up() {
    let session = session();
    session.good(
        "import socket
server = socket.create_server(('127.0.0.1', 8124))
datagrams = socket.socket(type=socket.SOCK_DGRAM); datagrams.bind(('127.0.0.1', 8124))
abstract = socket.socket(socket.AF_UNIX); abstract.bind('\\0name'); abstract.listen()",
    );
    assert_eq!(
        session.good("x = 1").state.checkpoint,
        CheckpointState::armed()
    );
    session.good("server.close(); datagrams.close(); abstract.close()");
    let refused = "
try: socket.create_connection(('127.0.0.1', 8124))
except ConnectionRefusedError: print('refused')";
    assert_eq!(session.good(refused).stdout, "refused\n");
    session.good(
        "server = socket.create_server(('127.0.0.1', 8124), reuse_port=False)
datagrams = socket.socket(type=socket.SOCK_DGRAM); datagrams.bind(('127.0.0.1', 8124))
abstract = socket.socket(socket.AF_UNIX); abstract.bind('\\0name')",
    );
}

#[test]
fn sockets_are_again_what_they_were() {
    let session = session();
    session.good(
        "import os, socket
server = socket.create_server(('127.0.0.1', 8125), backlog=7)
server.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 50000)
server.setblocking(False)
second = server.dup()
os.set_inheritable(second.fileno(), True)
six = socket.create_server(('::1', 8125), family=socket.AF_INET6)
datagrams = socket.socket(type=socket.SOCK_DGRAM); datagrams.bind(('127.0.0.1', 8125))
abstract = socket.socket(socket.AF_UNIX); abstract.bind('\\0name'); abstract.listen()
def look():
    everything = [server, second, six, datagrams, abstract]
    options = [socket.SO_KEEPALIVE, socket.SO_RCVBUF, socket.SO_SNDBUF, socket.SO_REUSEADDR, socket.SO_ACCEPTCONN]
    return [
        (s.getsockname(), os.get_blocking(s.fileno()), s.get_inheritable(), [s.getsockopt(socket.SOL_SOCKET, o) for o in options])
        for s in everything
    ] + [os.fstat(server.fileno()).st_ino == os.fstat(second.fileno()).st_ino]
before = look()",
    );
    let result = session.run("os.abort()");
    assert_eq!(result.state.not_restored, NOTHING);
    assert_eq!(session.value("look() == before"), "True");
    session.good(
        "for address in [('127.0.0.1', 8125), ('::1', 8125)]: socket.create_connection(address).close()
datagrams.sendto(b'x', datagrams.getsockname()); assert datagrams.recv(9) == b'x'
server.accept(), six.accept()",
    );
}

#[test]
fn an_event_loop_in_a_thread_serves_on() {
    let session = session();
    session.good(
        "import asyncio, socket, threading
async def answer(reader, writer):
    writer.write(b'line of ' + str(x).encode()); await writer.drain(); writer.close()
ready = threading.Event()
async def serve():
    server = await asyncio.start_server(answer, '127.0.0.1', 8126)
    ready.set()
    async with server: await server.serve_forever()
threading.Thread(target=lambda: asyncio.run(serve()), daemon=True).start()
ready.wait()
x = 1
def ask():
    with socket.create_connection(('127.0.0.1', 8126), timeout=5) as client: return client.recv(99)",
    );
    for _ in 0..3 {
        assert_eq!(session.value("ask()"), "b'line of 1'");
        let result = session.run("x = 2; ask(); __import__('os').abort()");
        assert_eq!(result.state.outcome, StateOutcome::Restored);
        assert_eq!(result.state.not_restored, NOTHING);
    }
    assert_eq!(session.value("ask()"), "b'line of 1'");
}

#[test]
fn a_thread_that_waits_in_accept_waits_at_the_new_socket() {
    let session = session();
    session.good(
        "import socket, threading
server = socket.create_server(('127.0.0.1', 8127))
seen = []
def serve():
    while True:
        client, _ = server.accept()
        seen.append(client.recv(9)); client.close()
threading.Thread(target=serve, daemon=True).start()
def say(word):
    with socket.create_connection(('127.0.0.1', 8127), timeout=5) as client:
        client.send(word); client.recv(1)
say(b'one')",
    );
    session.run("say(b'two'); __import__('os').abort()");
    assert_eq!(session.value("say(b'three'); seen"), "[b'one', b'three']");
}

#[test]
fn a_server_that_could_not_be_had_again_as_it_was_is_behind() {
    let session = session();
    session.good("import socket\nserver = socket.create_server(('127.0.0.1', 8128))");
    assert_eq!(
        session.good("1").state.checkpoint.status,
        CheckpointStatus::Armed
    );
    session.good("server.setsockopt(socket.SOL_SOCKET, 29, 1)");
    let descriptor = session.value("server.fileno()");
    let checkpoint = session.good("x = 1").state.checkpoint;
    let reason = format!(
        "a socket is listening (descriptor {descriptor}) with a setting that cannot be set again: SO_TIMESTAMP"
    );
    assert_eq!(checkpoint, CheckpointState::behind(2, reason));
    session.good("server.close()");
    assert_eq!(
        session.good("1").state.checkpoint.status,
        CheckpointStatus::Armed
    );
}

/// Outside, the address of a server without `SO_REUSEADDR` is in use for a minute after it has closed a connection.
#[test]
fn a_server_whose_connections_have_ended_has_its_address_at_once() {
    let session = session();
    session.good(
        "import os, socket, socketserver, threading
class Answer(socketserver.BaseRequestHandler):
    def handle(self): self.request.sendall(b'answer')
server = socketserver.ThreadingTCPServer(('127.0.0.1', 8130), Answer)
threading.Thread(target=server.serve_forever, daemon=True).start()
def ask():
    with socket.create_connection(('127.0.0.1', 8130), timeout=5) as client: return client.recv(9)
ask()",
    );
    let result = session.run("ask(); os.abort()");
    assert_eq!(result.state.not_restored, NOTHING);
    assert_eq!(session.value("ask()"), "b'answer'");
}

/// The kernel keeps the port for connections that are open, and these go on over the crash.
#[test]
fn a_server_with_open_connections_has_its_address_again() {
    let session = session();
    session.good(
        "import os, socket
server = socket.socket(); server.bind(('127.0.0.1', 8132)); server.listen()
client = socket.create_connection(('127.0.0.1', 8132), timeout=5)
accepted, _ = server.accept()
def talk():
    client.send(b'word')
    return accepted.recv(9)
def reuse(): return [each.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR) for each in (server, accepted, client)]
x = 1",
    );
    for _ in 0..2 {
        let result = session.run("talk(); os.abort()");
        assert_eq!(result.state.outcome, StateOutcome::Restored);
        assert_eq!(result.state.not_restored, NOTHING);
        assert_eq!(session.value("talk(), reuse()"), "(b'word', [0, 0, 0])");
        session.good(
            "second = socket.create_connection(('127.0.0.1', 8132), timeout=5); server.accept()",
        );
    }
}

#[test]
fn a_process_that_ends_with_the_undo_gives_the_address_back() {
    let session = session();
    session.good("import socket\nserver = socket.create_server(('127.0.0.1', 8133))");
    session.good("server.close()");
    let program = "import socket, time
server = socket.create_server(('127.0.0.1', 8133), reuse_port=False)
print('up', flush=True)
time.sleep(600)";
    let process = wait(session.0.spawn(Spawn::new(["python3", "-c", program]))).unwrap();
    session.good(
        "import time
while socket.socket().connect_ex(('127.0.0.1', 8133)): time.sleep(0.01)",
    );
    assert_eq!(wait(session.undo(2)).unwrap().not_restored, NOTHING);
    assert_eq!(wait(process.wait()).status, ProcessStatus::TakenBack);
    session.good("socket.create_connection(server.getsockname())");
}

#[test]
fn what_waited_to_be_accepted_is_named() {
    let session = session();
    session.good(
        "import os, socket
server = socket.create_server(('127.0.0.1', 8129))
waiting = socket.create_connection(('127.0.0.1', 8129))",
    );
    let descriptor = session.value("server.fileno()");
    let waiting = session.value("waiting.fileno()");
    let lost = session.run("os.abort()").state.not_restored;
    let named = [
        format!("a socket (descriptor {waiting}): its connection was made, shut down or ended"),
        format!("a socket (descriptor {descriptor}): what waited in it"),
    ];
    assert_eq!(lost, named);
}

/// A process beside the interpreter goes on when the session goes back. What it has taken meanwhile stays taken.
#[test]
fn an_address_that_a_process_beside_the_interpreter_has_is_named() {
    let session = session();
    session.good("import os, socket\nserver = socket.create_server(('127.0.0.1', 8131))");
    let descriptor = session.value("server.fileno()");
    let program = "import socket, time
while True:
    try: server = socket.create_server(('127.0.0.1', 8131))
    except OSError: time.sleep(0.01)
    else: break
time.sleep(60)";
    let spawn = Spawn::new(["python3", "-c", program]);
    let _process = wait(session.0.spawn(spawn)).unwrap();
    session.good("y = 1");
    let lost = session
        .run("server.close()\nwhile not socket.socket().connect_ex(('127.0.0.1', 8131)) == 0: pass\nos.abort()")
        .state
        .not_restored;
    assert!(
        lost.iter()
            .any(|named| named
                == &format!("a socket (descriptor {descriptor}): Address already in use")),
        "{lost:?}"
    );
}
