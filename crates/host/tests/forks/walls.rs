//! The walls of a fork are those of any session, and there is one between it and its parent.

use crate::support::{Python, builder, open, session, wait};
use cellblock_protocol::{Isolation, Rung, StateOutcome, Wall};

/// The calls that would change namespaces or mounts, by number, each with arguments that would work for one who may.
const CALLS: &str = r"
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    outcome = libc.syscall(number, *arguments)
    return os.strerror(ctypes.get_errno()) if outcome < 0 else 'DONE'
namespace = os.open('/proc/self/ns/user', os.O_RDONLY)
refused = {call(165, b'none', b'/tmp', b'tmpfs', 0, None), call(166, b'/proc', 2), call(161, b'/'), call(155, b'/', b'/'), call(272, 0x10000000),
           call(272, 0x20000000), call(308, namespace, 0), call(308, namespace, 0x10000000), call(56, 0x10000011, 0, 0, 0, 0), call(428, -100, b'/', 1),
           call(101, 16, os.getpid(), 0, 0), call(321, 0, 0, 0)}
";

#[test]
fn a_fork_has_no_privileges_and_can_get_none() {
    let fork = session().fork();
    let status = fork.value("sorted(set(line.split()[1] for line in open('/proc/self/status') if line.startswith('Cap')))");
    assert_eq!(status, "['0000000000000000']");
    let confined = "[line.split()[1] for line in open('/proc/self/status') if line.startswith(('NoNewPrivs', 'Seccomp:'))]";
    assert_eq!(fork.value(confined), "['1', '2']");
    assert_eq!(
        fork.value(&format!("{CALLS}refused")),
        "{'Operation not permitted'}"
    );
}

#[test]
fn nobody_enters_a_namespace_when_no_fork_is_being_made() {
    let parent = session();
    let fork = parent.fork();
    for session in [&parent, &fork] {
        assert_eq!(
            session.value(&format!("{CALLS}refused")),
            "{'Operation not permitted'}"
        );
        let forged = "from cellblock_guest import native\nnative.copy_into_fork(3, False)";
        let result = session.run(forged);
        assert!(
            result
                .error
                .is_some_and(|error| error.repr.starts_with("PermissionError"))
        );
        assert_eq!(session.value("1 + 1"), "2");
    }
}

#[test]
fn a_fork_cannot_end_its_own_checkpoint() {
    let fork = session().fork();
    fork.good("import os, signal; x = 1");
    fork.good("x = 2");
    let attack = r"
for pid in [-1, *range(1, 400)]:
    if pid != os.getpid():
        try: os.kill(pid, signal.SIGKILL)
        except OSError: pass
os.kill(os.getpid(), signal.SIGKILL)";
    assert_eq!(fork.run(attack).state.outcome, StateOutcome::Restored);
    assert_eq!(fork.value("x"), "2");
    wait(fork.undo(2)).unwrap();
    assert_eq!(fork.value("x"), "1");
}

/// Looks for a file and a process of the fork's in every way that a parent could.
const SEARCH: &str = r"
found = []
def is_own(pid):
    # A checkpoint of this very session, for a moment after it was made: one id, not one for each namespace that it is in.
    try: return any(line.startswith('NSpid') and len(line.split()) == 2 for line in open(f'/proc/{pid}/status'))
    except OSError: return False
for pid in range(2, 3000):
    if pid == os.getpid() or is_own(pid): continue
    for path in ('root/workspace/secret', 'cwd/secret', 'environ', 'mem', 'maps', 'fd/1', 'status'):
        try:
            os.close(os.open(f'/proc/{pid}/{path}', os.O_RDONLY))
            found.append((pid, path))
        except OSError: pass
    for signalled in (pid, -pid):
        try:
            os.kill(signalled, signal.SIGKILL)
            found.append((signalled, 'kill'))
        except OSError: pass
found";

#[test]
fn code_of_the_parent_finds_nothing_of_a_fork() {
    let parent = session();
    parent.good("import os, signal");
    parent.good("later = True");
    let fork = parent.fork();
    fork.good("import subprocess; open('secret', 'w').close(); child = subprocess.Popen(['/bin/sleep', '600'])");
    fork.good("mine = True");
    assert_eq!(parent.value(SEARCH), "[]");
    // Nor does a standby from before there was a fork.
    wait(parent.undo(1)).unwrap();
    assert_eq!(parent.value(SEARCH), "[]");
    parent.run("os.kill(os.getpid(), signal.SIGSEGV)");
    assert_eq!(parent.value(SEARCH), "[]");
    assert_eq!(fork.value("mine, child.poll()"), "(True, None)");
}

/// It reads the memory of every process that it can open, at an address that the head and its forks have in common.
const LEFT_RUNNING: &str = r"
import ctypes, mmap, os, time
told = mmap.mmap(-1, 4096)
own = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
own[:8] = b'original'
address = ctypes.addressof(ctypes.c_char.from_buffer(own))
head = os.getpid()
if os.fork() == 0:
    while True:
        for name in os.listdir('/proc'):
            if name.isdigit() and int(name) not in (head, os.getpid()):
                try:
                    with open(f'/proc/{name}/mem', 'rb', buffering=0) as memory:
                        memory.seek(address)
                        if memory.read(6) == b'secret':
                            told[:6] = b'secret'
                except OSError:
                    pass
        told[10] = (told[10] + 1) % 256
";

#[test]
fn a_process_that_the_parent_left_running_cannot_read_the_memory_of_a_fork() {
    let parent = session();
    parent.good(LEFT_RUNNING);
    parent.good("open('kept', 'w').write('from the parent')");
    let fork = parent.fork();
    // The process has looked at everything a few times since.
    let rounds = "begun = told[10]\nwhile (told[10] - begun) % 256 < 3: time.sleep(0.01)";
    fork.good("own[:6] = b'secret'");
    let next = fork.fork();
    next.good("own[:6] = b'secret'");
    parent.good(rounds);
    let nothing = r"b'\x00\x00\x00\x00\x00\x00'";
    assert_eq!(parent.value("bytes(told[:6])"), nothing);
    // All else is as in any fork.
    fork.good("open('kept', 'a').write(' and the fork')");
    assert_eq!(
        fork.value("open('kept').read()"),
        "'from the parent and the fork'"
    );
    assert_eq!(parent.value("open('kept').read()"), "'from the parent'");
    // Without processes of the parent's, a fork is as open as its parent.
    let alone = session();
    let is_open = "import ctypes; ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)";
    assert_eq!(alone.fork().value(is_open), "1");
}

#[test]
fn a_fork_finds_nothing_of_its_parent_or_of_another_fork() {
    let parent = session();
    parent.good("import os, signal, subprocess");
    let (first, second) = (parent.fork(), parent.fork());
    for other in [&parent, &second] {
        other.good("open('secret', 'w').close(); child = subprocess.Popen(['/bin/sleep', '600'])");
    }
    assert_eq!(first.value(SEARCH), "[]");
    for other in [&parent, &second] {
        assert_eq!(other.value("child.poll() is None"), "True");
    }
}

#[test]
fn sockets_and_shared_memory_of_the_parent_are_out_of_reach() {
    let parent = session();
    parent.good("import socket, ctypes; libc = ctypes.CDLL(None)");
    let fork = parent.fork();
    parent
        .good("server = socket.socket(socket.AF_UNIX); server.bind('\\0meeting'); server.listen()");
    parent.good("assert libc.shmget(4711, 4096, 0o1666) >= 0");
    assert_eq!(
        fork.exception("socket.socket(socket.AF_UNIX).connect('\\0meeting')"),
        "ConnectionRefusedError(111, 'Connection refused')"
    );
    assert_eq!(fork.value("libc.shmget(4711, 4096, 0)"), "-1");
}

#[test]
fn the_limits_of_a_fork_cannot_be_raised() {
    let fork = session().fork();
    let raise = "import resource; resource.setrlimit(resource.RLIMIT_NPROC, (4000, 4000))";
    let result = fork.run(raise);
    let error = result.error.as_ref().map(|error| error.type_.as_str());
    assert_eq!(error, Some("ValueError"), "{result:?}");
}

#[test]
fn a_session_that_shares_the_network_by_policy_can_be_forked() {
    let isolation = Isolation::on(Rung::Full).without(Wall::Network);
    let parent = open(builder().isolation(isolation));
    parent.good("x = 1");
    assert_eq!(parent.fork().value("x"), "1");
}

#[test]
fn where_the_walls_of_a_fork_cannot_be_built_there_is_none() {
    let lower = [
        Isolation::on(Rung::Landlock),
        Isolation::on(Rung::None),
        Isolation::on(Rung::Full).without(Wall::Seccomp),
        Isolation::on(Rung::Full).without(Wall::Processes),
    ];
    for isolation in lower {
        // The Python that was found may be in root's home, where sessions without a view of their own do not get.
        let Ok(parent) = wait(builder().isolation(isolation.clone()).start()) else {
            continue;
        };
        let parent = Python(parent);
        parent.good("x = 1");
        let error = wait(parent.0.fork()).unwrap_err();
        assert_eq!(error.code(), "refused", "{isolation}");
        assert!(error.to_string().contains("cannot be forked"), "{error}");
        assert_eq!(parent.value("x"), "1");
    }
}
