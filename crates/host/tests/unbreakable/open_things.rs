//! What is open when a checkpoint is made: it is put right after a crash, or the result names it.

use crate::support::{Python, session};
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
    let session = session();
    session.good(
        "import sqlite3
def connect():
    return sqlite3.connect('a.db', timeout=1)
db = connect()
db.execute('pragma journal_mode=wal')
db.execute('create table t (x)')
db.execute('insert into t values (1)')
db.commit()",
    );
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
nameless = tempfile.TemporaryFile()
nameless.write(b'x'); nameless.flush()",
    );
    assert_eq!(crash(&session, "pass"), NOTHING);
    let lost = crash(
        &session,
        "os.read(reader, 3); far.recv(2); nameless.write(b'y'); nameless.flush()",
    );
    let named = |what: &str| lost.iter().any(|reason| reason.contains(what));
    assert!(named("a pipe (descriptor"), "{lost:?}");
    assert!(named("a socket (descriptor"), "{lost:?}");
    assert!(named("an open file without a name"), "{lost:?}");
}

/// After a restore the channel to the host has another number, and a socket of the code's can have the channel's old one.
#[test]
fn a_listening_socket_is_noticed_whatever_its_number_is() {
    let session = session();
    session.good("import os, socket");
    for _ in 0..3 {
        session.run("os._exit(3)");
        session.good("server = socket.create_server(('127.0.0.1', 0))");
        let checkpoint = session.good("x = 1").state.checkpoint;
        assert_eq!(
            checkpoint,
            CheckpointState::behind(1, "a socket is listening".to_owned())
        );
        session.good("server.close()");
        session.good("y = 1");
    }
}
