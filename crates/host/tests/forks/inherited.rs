//! A fork that keeps a file or a socket of its parent's is not handed out: it would write beyond the limits of both.

use crate::support::{Python, session, wait};

/// From now on the guest does not see the descriptors from 5 up, and so makes none of them anew in a fork.
const HIDDEN: &str = r"
list_directory = os.listdir
def hide(path='.'):
    names = list_directory(path)
    return [name for name in names if int(name) < 5] if str(path).rstrip('/').endswith('/fd') else names
os.listdir = hide
";

/// Opens something, hides it from the guest, and expects that there is no fork. Returns the refusal.
fn refused(open: &str) -> String {
    let parent = session();
    // The numbers below are the channel's and those of the first descriptors that the guest sees.
    parent.good("import os, socket\nspare = [os.open('/dev/null', os.O_RDONLY) for _ in range(6)]");
    parent.good(open);
    parent.good(HIDDEN);
    let error = wait(parent.0.fork()).expect_err("there is a fork");
    assert_eq!(error.code(), "refused", "{error}");
    goes_on(&parent);
    error.to_string()
}

/// Code that runs in the fork first keeps something: there is no fork, and the parent goes on.
fn assert_refused(code: &str, reason: &str) {
    let parent = session();
    parent.good(&format!("import os, socket{code}"));
    let error = wait(parent.0.fork()).expect_err("there is a fork");
    assert!(error.to_string().contains(reason), "{error}");
    assert_eq!(parent.value("1 + 1"), "2");
}

/// The parent lives, and can be forked once the guest sees everything again.
fn goes_on(parent: &Python) {
    parent.good("os.listdir = list_directory");
    assert_eq!(parent.fork().value("1 + 1"), "2");
}

#[test]
fn a_fork_cannot_keep_a_file_of_its_parent_s_workspace() {
    let open = "file = os.open('kept', os.O_RDWR | os.O_CREAT)";
    for way in ["", "\nos.unlink('kept')"] {
        let error = refused(&format!("{open}{way}"));
        assert!(
            error.contains("a file of its parent (descriptor "),
            "{error}"
        );
    }
}

#[test]
fn a_fork_cannot_keep_a_temporary_file_of_its_parent_s() {
    for path in ["/tmp/kept", "/dev/shm/kept"] {
        let error = refused(&format!(
            "file = os.open('{path}', os.O_RDWR | os.O_CREAT)\nos.unlink('{path}')"
        ));
        assert!(error.contains("a file of its parent"), "{error}");
    }
}

/// `..` leads from a directory of the system to all that the parent sees.
#[test]
fn a_directory_of_its_parent_s_that_a_fork_keeps_leads_nowhere() {
    for open in [
        "os.open('/workspace', os.O_RDONLY)",
        "os.open('/workspace', os.O_PATH)",
        "os.open('/usr', os.O_RDONLY)",
    ] {
        let parent = session();
        parent.good("import os\nspare = [os.open('/dev/null', os.O_RDONLY) for _ in range(6)]");
        parent.good(&format!("directory = {open}\n{HIDDEN}"));
        let fork = parent.fork();
        let error = fork.exception("os.stat('.', dir_fd=directory)");
        assert!(error.contains("Not a directory"), "{error}");
    }
}

#[test]
fn a_fork_cannot_keep_a_socket_of_its_parent_s() {
    for open in [
        "near, far = socket.socketpair()",
        "client = socket.socket()",
        "client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
    ] {
        let error = refused(open);
        assert!(
            error.contains("a socket of its parent (descriptor "),
            "{error}"
        );
    }
}

/// In the fork, before the guest makes anything anew: hides a file in a socket of the fork's own.
const IN_A_SOCKET: &str = r"
file = os.open('kept', os.O_RDWR | os.O_CREAT)
def hide_it():
    global own
    own = socket.socketpair()
    socket.send_fds(own[0], [b'x'], [file])
os.register_at_fork(after_in_child=hide_it)
";

#[test]
fn a_fork_cannot_hide_a_file_of_its_parent_s_in_a_socket_of_its_own() {
    assert_refused(IN_A_SOCKET, "a socket in which descriptors wait");
}

/// In the fork, before the guest makes anything anew: a connection that is not accepted. No process has its far end open.
const NOT_ACCEPTED: &str = r"
def connect():
    global server, client
    server = socket.socket(socket.AF_UNIX); server.bind('/tmp/early'); server.listen()
    client = socket.socket(socket.AF_UNIX); client.connect('/tmp/early')
os.register_at_fork(after_in_child=connect)
";

#[test]
fn a_fork_cannot_have_a_socket_of_which_it_is_not_known_who_has_it() {
    assert_refused(NOT_ACCEPTED, "a socket that leads out of it");
}

/// In the fork, before the guest makes anything anew: starts a program from a file of the parent's, and closes the file.
const PROGRAM: &str = r"
import shutil
shutil.copy('/bin/sleep', '/tmp/program')
spare = [os.open('/dev/null', os.O_RDONLY) for _ in range(6)]
program = os.open('/tmp/program', os.O_RDONLY)
def start():
    os.posix_spawn(f'/proc/self/fd/{program}', ['program', '60'], {})
    os.close(program)
os.register_at_fork(after_in_child=start)
";

#[test]
fn a_fork_cannot_run_a_program_from_a_file_of_its_parent_s() {
    assert_refused(
        &format!("{PROGRAM}{HIDDEN}"),
        "a directory or a program of its parent",
    );
}

/// One of each kind of descriptor that code may have open.
const EVERY_KIND: &str = r"
import os, select, signal, socket, sqlite3, tempfile, threading
named = open('named', 'w+'); temporary = open('/tmp/temporary', 'w+'); memory = open('/dev/shm/memory', 'w+')
nameless = tempfile.TemporaryFile(); removed = open('removed', 'w+'); os.unlink('removed')
removed.write('removed'); removed.flush()
directory = os.open('.', os.O_RDONLY); path = os.open('named', os.O_PATH)
system = open('/etc/passwd'); process = open('/proc/self/status'); null = open('/dev/null', 'w')
os.mkfifo('fifo'); fifo = os.open('fifo', os.O_RDWR); reader, writer = os.pipe()
pair = socket.socketpair(); client = socket.socket(); datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
with_path = socket.socket(socket.AF_UNIX); with_path.bind('/tmp/socket')
events = os.eventfd(3); watch = select.epoll(); watch.register(pair[0]); child = os.pidfd_open(os.getpid())
terminal = os.openpty()
database = sqlite3.connect('x.db', check_same_thread=False); database.execute('pragma journal_mode=wal'); database.execute('create table t (a)'); database.commit()
try: in_memory = os.memfd_create('kept')
except OSError: in_memory = None
waiting = threading.Thread(target=lambda: pair[0].recv(1), daemon=True); waiting.start()
";

#[test]
fn a_fork_of_a_session_with_every_kind_of_descriptor_is_handed_out() {
    let parent = session();
    parent.good(EVERY_KIND);
    let mut last = parent.fork();
    for _ in 0..3 {
        last.good(
            "named.write('fork'); database.execute('insert into t values (1)'); database.commit()",
        );
        assert_eq!(last.value("removed.seek(0); removed.read()"), "'removed'");
        last = last.fork();
    }
    assert_eq!(
        parent.value("database.execute('select count(*) from t').fetchone()"),
        "(0,)"
    );
}
