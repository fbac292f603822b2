//! What ordinary programs expect of a Linux system, and find in a session.

use crate::support::session;
use cellblock_protocol::Event;

#[test]
fn root_is_known_by_name_and_nobody_here_is_root() {
    assert_eq!(
        session().value(
            "import grp, os, pwd
pwd.getpwuid(0).pw_name, grp.getgrgid(0).gr_name, pwd.getpwuid(os.getuid()).pw_name, os.getuid() == 0"
        ),
        "('root', 'root', 'user', False)"
    );
}

#[test]
fn ports_and_protocols_are_known_by_name() {
    assert_eq!(
        session().value(
            "import socket
socket.getservbyname('https'), socket.getservbyname('domain', 'udp'), socket.getservbyport(80), socket.getprotobyname('udp')"
        ),
        "(443, 53, 'http', 17)"
    );
}

#[test]
fn input_says_which_stream_the_code_has_deleted_and_the_next_cell_has_them_all() {
    let session = session();
    for stream in ["stdin", "stdout", "stderr"] {
        assert_eq!(
            session.exception(&format!("import sys\ndel sys.{stream}\ninput('name?')")),
            format!("RuntimeError('input(): lost sys.{stream}')")
        );
    }
    let mut cell = session.start("input('name?')");
    let Some(Event::InputRequest { call, .. }) = cell.next() else {
        panic!("no question came")
    };
    session.input(&call, Ok("Ada".to_owned()));
    assert_eq!(cell.result().value.unwrap().repr, "'Ada'");
}

/// Arrow's allocator, mimalloc, reserves a gigabyte at its first use, and would make it count as used memory.
#[test]
fn an_allocator_is_told_that_reserved_memory_counts() {
    assert_eq!(
        session().value("import os; os.environ['MIMALLOC_ARENA_EAGER_COMMIT']"),
        "'0'"
    );
}

/// Calls that init is notified of. On Linux none of them is ever interrupted; each must be done, and only once.
const CALLS_UNDER_A_TIMER: &str = "
import os, signal, time
ticks = 0
def tick(*_):
    global ticks
    ticks += 1
signal.signal(signal.SIGALRM, tick)
def calls(rounds):
    open('a', 'w').close()
    # In a fork, each call waits for two other processes. Where others compute too, that can take a tenth of a second.
    end = time.monotonic() + 8
    signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
    try:
        for number in range(rounds):
            os.rename('a', 'b')
            os.link('b', 'c')
            os.unlink('b')
            os.chmod('c', 0o600 + number % 8)
            os.truncate('c', number)
            os.utime('c', (number, number))
            os.kill(os.getpid(), 0)
            os.rename('c', 'a')
            if time.monotonic() > end:
                break
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    status = os.stat('a')
    done = number % 8, number, number, 1
    return (status.st_mode & 7, status.st_size, int(status.st_mtime), status.st_nlink) == done, sorted(os.listdir()), ticks > 0
";

#[test]
fn calls_that_linux_never_interrupts_are_not_interrupted_by_a_timer() {
    let session = session();
    session.good(CALLS_UNDER_A_TIMER);
    let done = "(True, ['a'], True)";
    assert_eq!(session.value("calls(1250)"), done);
    let fork = session.fork();
    assert_eq!(fork.value("calls(300)"), done);
    assert_eq!(session.value("calls(300)"), done);
}

#[test]
fn each_signal_that_is_sent_under_a_timer_arrives_once() {
    assert_eq!(
        session().value(
            "import os, signal, time
signal.signal(signal.SIGALRM, lambda *_: None)
received = sent = 0
end = time.monotonic() + 8
def count(*_):
    global received
    received += 1
signal.signal(signal.SIGUSR1, count)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
while sent < 2000 and time.monotonic() < end:
    os.kill(os.getpid(), signal.SIGUSR1)
    sent += 1
signal.setitimer(signal.ITIMER_REAL, 0)
sent > 0 and received == sent"
        ),
        "True"
    );
}

#[test]
fn code_binds_and_connects_on_a_loopback_of_its_own() {
    let code = "
import socket, threading
def echo(family, address):
    with socket.create_server((address, 0), family=family) as server:
        port = server.getsockname()[1]
        def serve():
            with server.accept()[0] as connection:
                connection.sendall(connection.recv(99))
        thread = threading.Thread(target=serve)
        thread.start()
        with socket.create_connection(('localhost' if family == socket.AF_INET else address, port), 5) as client:
            client.sendall(b'hello')
            answer = client.recv(99)
        thread.join()
        return answer
def datagram():
    with socket.socket(type=socket.SOCK_DGRAM) as near, socket.socket(type=socket.SOCK_DGRAM) as far:
        far.bind(('127.0.0.1', 0))
        near.sendto(b'hello', far.getsockname())
        return far.recv(99)
echo(socket.AF_INET, '127.0.0.1'), echo(socket.AF_INET6, '::1'), datagram()";
    let session = session();
    let answers = "(b'hello', b'hello', b'hello')";
    assert_eq!(session.value(code), answers);
    assert_eq!(session.fork().value(code), answers);
}

#[test]
fn the_loopbacks_of_a_session_and_its_fork_are_apart() {
    let parent = session();
    let fork = parent.fork();
    parent.good("import socket\nserver = socket.create_server(('127.0.0.1', 8123))");
    assert_eq!(
        fork.value("import socket; socket.socket().connect_ex(('127.0.0.1', 8123))"),
        "111"
    );
    fork.good("server = socket.create_server(('127.0.0.1', 8123))");
}

#[test]
fn programs_get_terminals_of_the_session_s_own() {
    assert_eq!(
        session().value(
            "import os, pty, subprocess
master, slave = pty.openpty()
child = subprocess.Popen(['sh', '-c', 'tty; read line; echo got $line'], stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
os.close(slave)
os.write(master, b'text\\n')
child.wait(10)
said = b''
while True:
    try:
        part = os.read(master, 999)
    except OSError:
        break
    said += part
b'/dev/pts/0' in said.split(), said.split()[-2:], os.path.exists('/dev/ptmx')"
        ),
        "(True, [b'got', b'text'], True)"
    );
}

/// A program without privileges gets `EPERM` for the ids of others, and can name its own.
const FOREIGN_IDS: &str = "
import errno, os
own, group = os.getuid(), os.getgid()
open('owned', 'w').close()
descriptor = os.open('owned', os.O_RDWR)
def refused(call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
foreign = {refused(call, *arguments) for call, *arguments in (
    (os.setuid, own + 1), (os.setgid, group + 1), (os.seteuid, own + 7), (os.setegid, group + 7),
    (os.setreuid, -1, own + 1), (os.setregid, group + 1, -1), (os.setresuid, own, own, own + 1), (os.setresgid, group + 1, -1, -1),
    (os.chown, 'owned', own + 1, -1), (os.lchown, 'owned', -1, group + 1), (os.fchown, descriptor, own + 1, group),
)}
for call, *arguments in (
    (os.setuid, own), (os.setgid, group), (os.setreuid, -1, own), (os.setresuid, own, -1, own),
    (os.chown, 'owned', own, group), (os.lchown, 'owned', -1, -1), (os.fchown, descriptor, own, -1),
):
    call(*arguments)
foreign
";

#[test]
fn ids_of_other_users_are_refused_as_linux_refuses_them() {
    assert_eq!(session().value(FOREIGN_IDS), "{'EPERM'}");
}

#[test]
fn the_limit_of_processes_can_be_lowered_and_raised_again_but_not_above_what_the_session_has() {
    let code = "
import os, resource
soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
def refused(*limits):
    try:
        resource.setrlimit(resource.RLIMIT_NPROC, limits)
    except (OSError, ValueError):
        return True
    return resource.getrlimit(resource.RLIMIT_NPROC) != limits
def child():
    # In a child: the copies of the interpreter count as well.
    answers = refused(soft - 5, hard), refused(soft, hard), refused(soft + 1, hard) or hard == soft, refused(3, 3), refused(3, hard) or hard == 3
    os._exit(sum(answer << place for place, answer in enumerate(answers)))
pid = os.fork() or child()
os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), resource.getrlimit(resource.RLIMIT_NPROC) == (soft, hard)";
    assert_eq!(session().value(code), format!("({}, True)", 0b10100));
}

#[test]
fn code_recurses_as_deep_as_in_a_python_that_a_person_started() {
    let session = session();
    let code = "
import sys
def deep(level):
    global depth
    depth = level
    deep(level + 1)
try:
    deep(1)
except RecursionError:
    pass
depth, sys.getrecursionlimit()";
    assert_eq!(session.value(code), "(999, 1000)");
    let code = "
sys.setrecursionlimit(2000)
try:
    deep(1)
except RecursionError:
    pass
depth, sys.getrecursionlimit()";
    assert_eq!(session.value(code), "(1999, 2000)");
    assert_eq!(session.value("sys.getrecursionlimit()"), "2000");
    assert_eq!(
        session.exception("sys.setrecursionlimit(0)"),
        "ValueError('recursion limit must be greater or equal than 1')"
    );
}

/// Each copy of a session's process copies all of its mappings, so what was loaded before the session has few.
#[test]
fn the_data_of_a_loaded_library_is_one_mapping_and_so_is_the_changed_code_of_libc() {
    let code = "
import _ctypes
def mappings(path):
    return [line.split()[1] for line in open('/proc/self/maps') if line.rstrip().endswith(path)]
libc = next(line.split()[5] for line in open('/proc/self/maps') if '/libc.so' in line or '/libc-' in line)
mappings(_ctypes.__file__), mappings(libc)";
    let parts = "['r--p', 'r-xp', 'r--p', 'rw-p']";
    assert_eq!(session().value(code), format!("({parts}, {parts})"));
}
