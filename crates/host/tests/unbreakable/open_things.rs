//! What is open when a checkpoint is made: it is put right after a crash, or the result names it.

use crate::support::{Python, session, wait};
use cellblock_protocol::CheckpointState;

/// Runs a cell that ends its process, and returns what could not be put back.
fn crash(session: &Python, code: &str) -> Vec<String> {
    session
        .run(format!("{code}\nimport os; os._exit(3)").as_str())
        .state
        .not_restored
}

const NOTHING: Vec<String> = Vec::new();

#[test]
fn a_database_with_a_write_ahead_log_is_as_it_was_and_can_be_written_to() {
    let session = with_write_ahead_log();
    let rows =
        "db.execute('select x from t').fetchall(), connect().execute('select x from t').fetchall()";
    for ending in [
        "db.execute('insert into t values (2)'); db.commit()",
        "db.executemany('insert into t values (?)', [(n,) for n in range(5000)]); db.commit()",
        "db.execute('pragma wal_checkpoint(truncate)')",
        "db.execute('delete from t'); db.commit(); db.close()",
    ] {
        assert_eq!(crash(&session, ending), NOTHING, "{ending}");
        assert_eq!(session.value(rows), "([(1,)], [(1,)])", "{ending}");
    }
    session.good("db.execute('insert into t values (3)'); db.commit()");
    assert_eq!(session.value(rows), "([(1,), (3,)], [(1,), (3,)])");
}

/// SQLite removes the log with the last connection. The connection has mapped the index of the log, and the map has to lead to the
/// file that was put back.
#[test]
fn a_connection_is_as_it_was_when_the_cell_removed_the_log_of_its_database() {
    let rows = "[c.execute('select x from t order by x').fetchall() for c in (db, connect())]";
    for ending in [
        "db.execute('delete from t'); db.commit(); db.close()",
        "db.close(); other = connect(); other.execute('insert into t values (2)'); other.commit()",
        "db.execute('pragma journal_mode=delete')",
    ] {
        let session = with_write_ahead_log();
        assert_eq!(crash(&session, ending), NOTHING, "{ending}");
        assert_eq!(session.value(rows), "[[(1,)], [(1,)]]", "{ending}");
        session.good("db.execute('insert into t values (3)'); db.commit()");
        assert_eq!(
            session.value(rows),
            "[[(1,), (3,)], [(1,), (3,)]]",
            "{ending}"
        );
        session
            .good("other = connect(); other.execute('insert into t values (4)'); other.commit()");
        let check = "db.execute('select max(x) from t').fetchone(), db.execute('pragma integrity_check').fetchone()";
        assert_eq!(session.value(check), "((4,), ('ok',))", "{ending}");
    }
}

#[test]
fn a_database_can_be_read_while_a_transaction_that_was_open_goes_on() {
    let session = with_write_ahead_log();
    session.good("db.execute('insert into t values (2)')");
    let rows = "[c.execute('select x from t').fetchall() for c in (db, connect())]";
    for ending in ["pass", "db.commit()", "db.rollback(); db.close()"] {
        assert_eq!(crash(&session, ending), NOTHING, "{ending}");
        assert_eq!(session.value(rows), "[[(1,), (2,)], [(1,)]]", "{ending}");
    }
    session.good("db.commit()");
    assert_eq!(session.value(rows), "[[(1,), (2,)], [(1,), (2,)]]");
}

fn with_write_ahead_log() -> Python {
    let session = session();
    session.good(
        "import os, sqlite3
def connect():
    return sqlite3.connect('a.db', timeout=1)
db = connect()
db.execute('pragma journal_mode=wal')
db.execute('create table t (x)')
db.execute('insert into t values (1)')
db.commit()",
    );
    session
}

#[test]
fn a_map_of_a_file_that_the_cell_removed_or_replaced_is_a_map_of_the_restored_file() {
    for ending in [
        "area[:3] = b'xyz'; os.remove('a')",
        "area[:3] = b'xyz'; open('b', 'w').close(); os.replace('b', 'a')",
    ] {
        let session = session();
        session.good(
            "import mmap, os
with open('a', 'wb') as file:
    file.write(b'abc' + bytes(4093))
with open('a', 'r+b') as file:
    area = mmap.mmap(file.fileno(), 4096)
view = memoryview(area)",
        );
        assert_eq!(crash(&session, ending), NOTHING, "{ending}");
        session.good("before = bytes(view[:3]); area[0:1] = b'A'");
        assert_eq!(
            session.value("before, open('a', 'rb').read(3)"),
            "(b'abc', b'Abc')",
            "{ending}"
        );
    }
}

/// SQLite takes the file for another database: it does not write to it, or does not see what other connections write.
#[test]
fn a_database_that_the_cell_removed_is_named_where_a_connection_was_open() {
    for mode in ["delete", "wal"] {
        let session = with_write_ahead_log();
        session.good(format!("db.execute('pragma journal_mode={mode}')").as_str());
        let written = "db.execute('insert into t values (2)'); db.commit()";
        assert_eq!(crash(&session, written), NOTHING, "{mode}");
        assert_eq!(
            crash(&session, "db.close(); os.remove('a.db')"),
            [
                "/workspace/a.db: the database is another file now: close connections that were open, and connect again"
            ],
            "{mode}"
        );
        session.good(format!("db.close(); db = connect(); {written}").as_str());
        let rows = "connect().execute('select x from t').fetchall()";
        assert_eq!(session.value(rows), "[(1,), (2,)]", "{mode}");
    }
}

#[test]
fn a_timer_runs_again_after_a_crash_and_an_undo() {
    let session = session();
    session.good(
        "import signal, time
rings = []
signal.signal(signal.SIGALRM, lambda *_: rings.append(1))
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
def still_rings():
    rings.clear()
    end = time.monotonic() + 20
    while not rings and time.monotonic() < end:
        time.sleep(0.01)
    return bool(rings)",
    );
    let stop = "signal.setitimer(signal.ITIMER_REAL, 0)";
    assert_eq!(crash(&session, stop), NOTHING);
    assert_eq!(session.value("still_rings()"), "True");
    session.good(stop);
    wait(session.0.undo(1)).unwrap();
    assert_eq!(session.value("still_rings()"), "True");
}

#[test]
fn a_working_directory_that_the_cell_removed_is_the_working_directory_again() {
    let session = session();
    session.good(
        "import os, shutil; os.makedirs('d/e'); os.chdir('d/e'); open('f', 'w').write('text')",
    );
    let lost = crash(
        &session,
        "os.chdir('/workspace'); shutil.rmtree('/workspace/d')",
    );
    assert_eq!(lost, NOTHING);
    assert_eq!(
        session.value("os.getcwd(), open('f').read()"),
        "('/workspace/d/e', 'text')"
    );
}

#[test]
fn an_open_file_that_the_cell_removed_or_replaced_is_the_restored_one() {
    for ending in [
        "os.remove('a')",
        "open('b', 'w').close(); os.replace('b', 'a')",
    ] {
        let session = session();
        session.good(
            "import os; file = open('a', 'w+'); file.write('one two'); file.flush(); file.seek(4)",
        );
        assert_eq!(crash(&session, ending), NOTHING);
        session.good("rest = file.read(); file.write('!'); file.flush()");
        assert_eq!(
            session.value("rest, open('a').read(), os.fstat(file.fileno()).st_nlink"),
            "('two', 'one two!', 1)"
        );
    }
}

#[test]
fn locks_are_held_again() {
    let session = session();
    session.good(
        "import fcntl, os, subprocess, sys
flocked, locked, free = (open(name, 'w') for name in ('flocked', 'locked', 'free'))
fcntl.flock(flocked, fcntl.LOCK_EX)
fcntl.lockf(locked, fcntl.LOCK_EX, 10, 5)
TRY = '''
import fcntl, sys
def is_free(take, *arguments):
    try:
        take(*arguments)
        return True
    except OSError:
        return False
locked = open('locked', 'w')
print(is_free(fcntl.flock, open('flocked', 'w'), fcntl.LOCK_EX | fcntl.LOCK_NB),
      is_free(fcntl.lockf, locked, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 5),
      is_free(fcntl.lockf, locked, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 20),
      is_free(fcntl.flock, open('free', 'w'), fcntl.LOCK_EX | fcntl.LOCK_NB))
'''
def others():
    return subprocess.run([sys.executable, '-c', TRY], capture_output=True, text=True).stdout",
    );
    let held = "'False False True True\\n'";
    assert_eq!(session.value("others()"), held);
    let ending = "fcntl.flock(flocked, fcntl.LOCK_UN); fcntl.lockf(locked, fcntl.LOCK_UN); fcntl.flock(free, fcntl.LOCK_EX)";
    assert_eq!(crash(&session, ending), NOTHING);
    assert_eq!(session.value("others()"), held);
}

#[test]
fn what_an_epoll_watches_is_as_it_was() {
    let session = session();
    session.good(
        "import os, select
reader, writer = os.pipe()
other, _ = os.pipe()
poll = select.epoll()
poll.register(reader, select.EPOLLIN)",
    );
    let ending = "poll.unregister(reader); poll.register(other, select.EPOLLIN)";
    assert_eq!(crash(&session, ending), NOTHING);
    assert_eq!(
        session.value("os.write(writer, b'x'); poll.register(other, select.EPOLLIN), poll.poll(1) == [(reader, select.EPOLLIN)]"),
        "(None, True)"
    );
}

/// Libraries wake their threads by them: the ones of ZeroMQ and of tokio do.
#[test]
fn counters_of_events_count_to_what_they_did() {
    let session = session();
    session.good(
        "import os, select
empty, full = os.eventfd(0, os.EFD_NONBLOCK), os.eventfd(7)
semaphore, large = os.eventfd(3, os.EFD_SEMAPHORE), os.eventfd(5000, os.EFD_SEMAPHORE)
def take():
    try: first = os.eventfd_read(empty)
    except BlockingIOError: first = 0
    return first, os.eventfd_read(full), os.eventfd_read(semaphore)",
    );
    let change =
        "take(); os.eventfd_write(empty, 5); os.eventfd_write(full, 1); os.eventfd_read(large)";
    assert_eq!(crash(&session, change), NOTHING);
    assert_eq!(session.value("take()"), "(0, 7, 1)");
    assert_eq!(
        session.value("os.eventfd_read(semaphore), os.eventfd_read(semaphore)"),
        "(1, 1)"
    );
    let count =
        "sum(os.eventfd_read(large) for _ in range(5000)), select.select([large], [], [], 0)[0]";
    assert_eq!(session.value(count), "(5000, [])");
}

#[test]
fn timers_that_are_descriptors_are_set_to_what_they_were() {
    let session = session();
    session.good(
        "import ctypes, os, select
libc = ctypes.CDLL(None)
def set(timer, *times): libc.timerfd_settime(timer, 0, (ctypes.c_long * 4)(*times), None)
def left(timer):
    times = (ctypes.c_long * 4)()
    libc.timerfd_gettime(timer, times)
    return list(times)
long, none, expired = [libc.timerfd_create(1, 0) for _ in range(3)]
set(long, 2, 5, 1000, 0)
set(expired, 0, 0, 0, 1)
select.select([expired], [], [])",
    );
    let change = "set(long, 0, 0, 0, 0); set(none, 0, 0, 9, 0); os.read(expired, 8)";
    assert_eq!(crash(&session, change), NOTHING);
    let now = "left(long)[:2], 900 < left(long)[2] <= 1000, left(none), int.from_bytes(os.read(expired, 8), 'little')";
    assert_eq!(session.value(now), "([2, 5], True, [0, 0, 0, 0], 1)");
}

#[test]
fn what_was_taken_from_pipes_and_sockets_and_written_to_nameless_files_is_named() {
    let session = session();
    session.good(
        "import os, socket, tempfile
reader, writer = os.pipe()
quiet = os.pipe()
os.write(writer, b'one two')
near, far = socket.socketpair()
near.send(b'hello')
nameless = tempfile.TemporaryFile(dir='.')
nameless.write(b'x'); nameless.flush()
in_memory = tempfile.TemporaryFile()
in_memory.write(b'x'); in_memory.flush()",
    );
    assert_eq!(crash(&session, "pass"), NOTHING);
    // Files in `/tmp` are memory, which goes back.
    let lost = crash(&session, "in_memory.write(b'y'); in_memory.flush()");
    assert_eq!(lost, NOTHING);
    let held = session.value("in_memory.tell(), os.pread(in_memory.fileno(), 9, 0)");
    assert_eq!(held, "(1, b'x')");
    let lost = crash(
        &session,
        "os.read(reader, 3); far.recv(2); nameless.write(b'y'); nameless.flush()",
    );
    let named = |what: &str| lost.iter().any(|reason| reason.contains(what));
    assert!(named("a pipe (descriptor"), "{lost:?}");
    assert!(named("a socket (descriptor"), "{lost:?}");
    assert!(named("an open file without a name"), "{lost:?}");
}

/// The copy that a woken standby left behind has the same record of the checkpoint.
#[test]
fn what_is_lost_is_named_once() {
    let session = session();
    session.good(
        "import os, socket, tempfile
reader, writer = os.pipe()
os.write(writer, b'one two')
near, far = socket.socketpair()
near.send(b'hello')
nameless = tempfile.TemporaryFile(dir='.')
nameless.write(b'x'); nameless.flush()
server = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(server.getsockname())
letters = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
letters.bind(('127.0.0.1', 0))
letters.sendto(b'letter', letters.getsockname())
other, end = socket.socketpair()
process = os.pidfd_open(os.getpid())",
    );
    let things = [
        ("a pipe", "reader"),
        ("a pipe", "writer"),
        ("a socket", "far.fileno()"),
        ("a socket", "server.fileno()"),
        ("a socket", "letters.fileno()"),
        ("a socket", "other.fileno()"),
        ("anon_inode:[pidfd]", "process"),
    ];
    let names = things.map(|(what, name)| format!("{what} (descriptor {})", session.value(name)));
    let far = &names[2];
    let first = crash(
        &session,
        "os.read(reader, 3); far.recv(2); nameless.write(b'y'); nameless.flush(); other.shutdown(socket.SHUT_WR)",
    );
    for name in &names {
        let is_named = first.iter().any(|reason| reason.starts_with(name));
        assert!(is_named, "{name}: {first:?}");
    }
    let is_named = |reason: &String| reason.contains("an open file without a name");
    assert!(first.iter().any(is_named), "{first:?}");
    for _ in 0..2 {
        assert_eq!(crash(&session, "pass"), NOTHING);
    }
    let lost = format!("{far}: what was read from it or written to it");
    assert_eq!(crash(&session, "far.recv(1)"), [lost.as_str()]);
    assert_eq!(crash(&session, "pass"), NOTHING);
    assert_eq!(crash(&session, "far.recv(1)"), [lost.as_str()]);
    // Back to a checkpoint that has another record.
    session.good("far.recv(1)");
    let undone = wait(session.0.undo(1)).unwrap();
    assert!(undone.not_restored.contains(&lost), "{undone:?}");
}

/// No checkpoint has a copy of what is in `/tmp`.
#[test]
fn what_was_written_to_an_open_temporary_file_is_named() {
    let session = session();
    session.good(
        "import mmap, os, tempfile
file = tempfile.NamedTemporaryFile(); file.write(b'x'); file.flush()
mapped = tempfile.NamedTemporaryFile(); mapped.write(bytes(4096)); mapped.flush()
area = mmap.mmap(mapped.fileno(), 4096)",
    );
    assert_eq!(crash(&session, "file.seek(0)"), NOTHING);
    // Mapped files are memory, which goes back.
    let lost = crash(&session, "file.write(b'y'); file.flush(); area[:1] = b'z'");
    let (path, number) = (session.value("file.name"), session.value("file.fileno()"));
    let path = path.trim_matches('\'');
    let line = format!("{path} (descriptor {number}): what was written to an open temporary file");
    assert_eq!(lost, [line]);
    assert_eq!(session.value("area[:1], file.tell()"), "(b'\\x00', 1)");
    assert_eq!(crash(&session, "pass"), NOTHING);
}

/// The cell read everything and wrote as much.
#[test]
fn what_took_the_place_of_what_waited_is_named() {
    let session = session();
    session.good(
        "import os, socket
reader, writer = os.pipe()
os.write(writer, b'one two')
near, far = socket.socketpair()
near.send(b'hello')",
    );
    let lost = crash(
        &session,
        "os.read(reader, 7); os.write(writer, b'ONE TWO'); far.recv(5); near.send(b'HELLO')",
    );
    for (what, name) in [("a pipe", "reader"), ("a socket", "far.fileno()")] {
        let number = session.value(name);
        let line = format!("{what} (descriptor {number}): what was read from it or written to it");
        assert!(lost.contains(&line), "{line}: {lost:?}");
    }
    assert_eq!(
        session.value("os.read(reader, 9), far.recv(9)"),
        "(b'ONE TWO', b'HELLO')"
    );
}

/// After a restore the channel to the host has another number, and a socket of the code's can have the channel's old one.
#[test]
fn a_listening_socket_is_noticed_whatever_its_number_is() {
    let session = session();
    session.good("import os, socket");
    for _ in 0..3 {
        session.run("os._exit(3)");
        session.good(
            "server = socket.create_server(('127.0.0.1', 0))
server.setsockopt(socket.SOL_SOCKET, 29, 1)",
        );
        let descriptor = session.value("server.fileno()");
        let checkpoint = session.good("x = 1").state.checkpoint;
        let reason = format!(
            "a socket is listening (descriptor {descriptor}) with a setting that cannot be set again: SO_TIMESTAMP"
        );
        assert_eq!(checkpoint, CheckpointState::behind(2, reason));
        session.good("server.close()");
        session.good("y = 1");
    }
}
