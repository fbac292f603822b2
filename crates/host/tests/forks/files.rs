//! Files of a fork are its own, at the same path, however they are reached.

use crate::support::{builder, open, session, wait};
use cellblock_protocol::Limits;
use std::fs;

#[test]
fn files_are_copied_and_then_apart() {
    let parent = session();
    parent.good("import os; os.makedirs('d/e'); open('d/e/a', 'w').write('one'); os.symlink('d/e/a', 'link')");
    let fork = parent.fork();
    fork.good("open('/workspace/d/e/a', 'w').write('fork'); open('only-fork', 'w').close()");
    parent.good("open('only-parent', 'w').close()");
    let look = "open('link').read(), os.readlink('link'), sorted(os.listdir())";
    assert_eq!(
        fork.value(look),
        "('fork', 'd/e/a', ['d', 'link', 'only-fork'])"
    );
    assert_eq!(
        parent.value(look),
        "('one', 'd/e/a', ['d', 'link', 'only-parent'])"
    );
    assert_ne!(fork.workspace(), parent.workspace());
    assert_eq!(
        fs::read_to_string(fork.workspace().join("d/e/a")).unwrap(),
        "fork"
    );
}

#[test]
fn files_can_be_moved_from_one_directory_to_another_on_both_sides() {
    let parent = session();
    parent.good("import os; os.mkdir('d'); open('a', 'w').write('one')");
    let fork = parent.fork();
    let there_and_back = "os.rename('a', 'd/a'); os.link('d/a', 'b'); os.rename('d/a', 'a'); os.remove('b'); open('a').read()";
    for session in [&parent, &fork] {
        assert_eq!(session.value(there_and_back), "'one'");
        session.run("os._exit(1)");
        assert_eq!(session.value(there_and_back), "'one'");
    }
}

#[test]
fn modes_and_times_come_along() {
    let parent = session();
    parent.good("import os; open('tool', 'w').close(); os.chmod('tool', 0o750); os.utime('tool', (1e9, 1e9)); os.mkdir('d', 0o700); os.utime('d', (1e9, 1e9))");
    let look = "[(oct(s.st_mode), s.st_mtime, s.st_uid) for s in map(os.stat, ('tool', 'd'))]";
    assert_eq!(parent.fork().value(look), parent.value(look));
}

#[test]
fn an_open_file_stands_where_it_stood_and_leads_to_the_fork_s_own() {
    let parent = session();
    parent.good("lines = open('lines', 'w+'); lines.writelines(f'{n}\\n' for n in range(5)); lines.flush(); lines.seek(0)");
    parent.good("print(lines.readline(), end=''); log = open('log', 'a'); log.write('parent\\n'); log.flush()");
    let fork = parent.fork();
    assert_eq!(fork.value("lines.readline()"), "'1\\n'");
    fork.good(
        "log.write('fork\\n'); log.flush(); lines.seek(0, 2); lines.write('more'); lines.flush()",
    );
    assert_eq!(parent.value("lines.readline()"), "'1\\n'");
    parent.good("log.write('again\\n'); log.flush()");
    assert_eq!(
        parent.value("open('log').read(), 'more' in open('lines').read()"),
        "('parent\\nagain\\n', False)"
    );
    assert_eq!(
        fork.value("open('log').read(), 'more' in open('lines').read()"),
        "('parent\\nfork\\n', True)"
    );
}

#[test]
fn a_file_without_a_name_is_copied() {
    let parent = session();
    // Where packages of the host lie below `/tmp`, the way to them is there.
    parent.good("import os; before = set(os.listdir('/tmp'))");
    parent.good("import tempfile; secret = tempfile.TemporaryFile('w+'); secret.write('abc'); secret.flush()");
    parent.good("named = open('gone', 'w+'); named.write('xyz'); named.flush(); os.remove('gone')");
    let fork = parent.fork();
    fork.good("secret.write('fork'); secret.flush(); named.write('fork'); named.flush()");
    let look = "[f.seek(0) or f.read() for f in (secret, named)], os.listdir('.'), set(os.listdir('/tmp')) == before";
    assert_eq!(fork.value(look), "(['abcfork', 'xyzfork'], [], True)");
    assert_eq!(parent.value(look), "(['abc', 'xyz'], [], True)");
}

#[test]
fn a_directory_that_is_open_is_the_fork_s_own() {
    let parent = session();
    parent.good(
        "import os; os.mkdir('d'); d = os.open('d', os.O_RDONLY); p = os.open('d', os.O_PATH)",
    );
    let fork = parent.fork();
    fork.good("os.close(os.open('a', os.O_CREAT | os.O_WRONLY, dir_fd=d)); os.close(os.open('b', os.O_CREAT | os.O_WRONLY, dir_fd=p))");
    assert_eq!(fork.value("sorted(os.listdir('d'))"), "['a', 'b']");
    assert_eq!(parent.value("os.listdir('d')"), "[]");
}

#[test]
fn shared_memory_is_shared_no_more() {
    let parent = session();
    parent.good("import mmap; open('map', 'wb').write(b'0' * 5000); file = open('map', 'r+b'); over = mmap.mmap(file.fileno(), 0)");
    parent.good("anonymous = mmap.mmap(-1, 5000); anonymous[0] = 49");
    parent.good("from multiprocessing.shared_memory import SharedMemory; named = SharedMemory(create=True, size=100); named.buf[0] = 49");
    let fork = parent.fork();
    fork.good("over[0] = anonymous[0] = named.buf[0] = 57; over.flush()");
    let look = "over[0], anonymous[0], named.buf[0], open('map', 'rb').read(1)";
    assert_eq!(fork.value(look), "(57, 57, 57, b'9')");
    assert_eq!(parent.value(look), "(48, 49, 49, b'0')");
    parent.good("over[0] = 50; over.flush()");
    assert_eq!(fork.value("over[0]"), "57");
}

#[test]
fn temporary_files_are_copied_and_then_apart() {
    let parent = session();
    parent.good("import os; before = set(os.listdir('/tmp')); os.makedirs('/tmp/d'); open('/tmp/d/a', 'w').write('one'); os.symlink('a', '/tmp/d/l'); t = open('/tmp/d/a', 'r+')");
    let fork = parent.fork();
    fork.good("t.write('two'); t.flush(); open('/tmp/new', 'w').close()");
    let look = "open('/tmp/d/l').read(), sorted(set(os.listdir('/tmp')) - before)";
    assert_eq!(fork.value(look), "('two', ['d', 'new'])");
    assert_eq!(parent.value(look), "('one', ['d'])");
}

/// Files that hold nearly nothing, and together seem to be larger than `/tmp`; and a file with many names.
#[test]
fn temporary_files_with_holes_and_with_many_names_take_no_more_room_in_a_fork() {
    let parent = session();
    parent.good(
        "import os
for number in range(20):
    with open(f'/tmp/sparse{number}', 'wb') as file:
        file.truncate(700 << 20); file.seek(300 << 20); file.write(b'middle')
with open('/tmp/name', 'wb') as file: file.write(b'x' * (2 << 20))
for number in range(400): os.link('/tmp/name', f'/tmp/name{number}')
open('/tmp/after', 'w').write('after')",
    );
    let fork = parent.fork();
    let look = "used = os.statvfs('/tmp'); (used.f_blocks - used.f_bfree) * used.f_frsize >> 20 <= 3, \
         {os.stat(f'/tmp/sparse{number}').st_size >> 20 for number in range(20)}, \
         os.pread(os.open('/tmp/sparse7', os.O_RDONLY), 6, 300 << 20), \
         {os.stat(f'/tmp/name{number}').st_nlink for number in range(400)}, os.path.getsize('/tmp/name') >> 20, open('/tmp/after').read()";
    let same = "(True, {700}, b'middle', {401}, 2, 'after')";
    assert_eq!(parent.value(look), same);
    assert_eq!(fork.value(look), same);
}

/// A fork without some of them would be a surprise later.
#[test]
fn a_session_of_which_the_temporary_files_cannot_all_be_copied_is_not_forked() {
    let parent = session();
    parent.good(
        "import os
os.chdir('/tmp')
for _ in range(120): os.mkdir('deeper'); os.chdir('deeper')
os.chdir('/workspace')",
    );
    let error = wait(parent.0.fork()).expect_err("there is a fork");
    assert_eq!(error.code(), "refused");
    assert!(error.to_string().contains("levels deep"), "{error}");
    parent.good("import shutil; shutil.rmtree('/tmp/deeper')");
    assert_eq!(parent.fork().value("1 + 1"), "2");
}

#[test]
fn a_pipe_and_a_pair_of_sockets_are_the_fork_s_own_and_empty() {
    let parent = session();
    parent.good("import os, socket; r, w = os.pipe(); os.write(w, b'kept'); near, far = socket.socketpair(); far.sendall(b'kept')");
    let fork = parent.fork();
    assert_eq!(
        fork.value(
            "os.write(w, b'new'), os.read(r, 10), far.sendall(b'new'), near.recv(10), near.getblocking()"
        ),
        "(3, b'new', None, b'new', True)"
    );
    assert_eq!(
        parent.value("os.read(r, 10), near.recv(10)"),
        "(b'kept', b'kept')"
    );
}

#[test]
fn the_other_end_of_a_socket_stays_with_the_parent() {
    let parent = session();
    parent.good(
        "import socket, subprocess
near, far = socket.socketpair()
child = subprocess.Popen(['sh', '-c', f'read line <&{far.fileno()}; echo got $line >&{far.fileno()}'], pass_fds=[far.fileno()])
far.close()",
    );
    let fork = parent.fork();
    assert_eq!(fork.value("near.recv(10)"), "b''");
    assert_eq!(
        fork.exception("near.sendall(b'x')"),
        "BrokenPipeError(32, 'Broken pipe')"
    );
    assert_eq!(
        parent.value("near.sendall(b'text\\n'); near.recv(99)"),
        "b'got text\\n'"
    );
}

#[test]
fn a_database_that_is_open_is_the_fork_s_own() {
    let parent = session();
    parent.good("import sqlite3; db = sqlite3.connect('data.db', isolation_level=None); db.execute('pragma journal_mode=wal'); db.execute('create table t (x)'); db.execute('insert into t values (1)')");
    let fork = parent.fork();
    fork.good("db.execute('insert into t values (2)')");
    parent.good("db.execute('insert into t values (3)')");
    let look = "[x for x, in db.execute('select x from t')], db.execute('pragma integrity_check').fetchone()";
    assert_eq!(fork.value(look), "([1, 2], ('ok',))");
    assert_eq!(parent.value(look), "([1, 3], ('ok',))");
}

#[test]
fn a_directory_of_the_user_s_is_left_alone_by_forks() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("given"), "as it was").unwrap();
    let parent = open(builder().workspace(directory.path()));
    let fork = parent.fork();
    fork.good("open('given', 'w').write('changed'); open('new', 'w').close()");
    let names: Vec<_> = fs::read_dir(directory.path())
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert_eq!(names, ["given"]);
    assert_eq!(parent.value("open('given').read()"), "'as it was'");
    let crash = fork.run("open('given', 'w').write('lost'); import os; os._exit(1)");
    assert_eq!(crash.state.not_restored, Vec::<String>::new());
    assert_eq!(fork.value("open('given').read()"), "'changed'");
}

#[test]
fn with_forks_around_a_directory_of_the_user_s_is_put_back_as_ever() {
    let directory = tempfile::tempdir().unwrap();
    let given = directory.path().join("given");
    fs::write(&given, "as it was").unwrap();
    let parent = open(builder().workspace(directory.path()));
    parent.good("x = 1");
    let forks = [parent.fork(), parent.fork()];
    let grandchild = forks[0].fork();
    for fork in forks.iter().chain([&grandchild]) {
        fork.good("open('given', 'w').write('in a fork')");
    }
    let crash = parent.run("open('given', 'w').write('lost'); import os; os._exit(1)");
    assert_eq!(crash.state.not_restored, Vec::<String>::new());
    assert_eq!(fs::read_to_string(&given).unwrap(), "as it was");
    parent.good("import os; os.remove('given')");
    assert_eq!(
        wait(parent.0.undo(1)).unwrap().not_restored,
        Vec::<String>::new()
    );
    assert_eq!(fs::read_to_string(&given).unwrap(), "as it was");
    assert_eq!(grandchild.value("open('given').read()"), "'in a fork'");
}

#[test]
fn forks_change_files_also_when_nobody_is_left_whom_their_parent_asked() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("given"), "as it was").unwrap();
    let parent = open(builder().workspace(directory.path()));
    let fork = parent.fork();
    let grandchild = fork.fork();
    wait(parent.0.close());
    let change = "import os, subprocess
open('given', 'w').write('changed'); os.rename('given', 'other'); os.truncate('other', 3)
subprocess.run(['sh', '-c', 'echo more >> other; rm other; touch new'], check=True)
os.listdir()";
    for session in [&fork, &grandchild] {
        assert_eq!(session.value(change), "['new']");
    }
    assert_eq!(
        fs::read_to_string(directory.path().join("given")).unwrap(),
        "as it was"
    );
}

#[test]
fn more_than_the_disk_limit_is_not_copied() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("large"), vec![0; 3 << 20]).unwrap();
    let limits = Limits {
        disk: 2 << 20,
        ..Limits::default()
    };
    let parent = open(builder().workspace(directory.path()).limits(limits));
    parent.good("x = 1");
    let error = wait(parent.0.fork()).unwrap_err();
    assert_eq!(error.code(), "refused");
    assert!(error.to_string().contains("`disk`"), "{error}");
    assert_eq!(parent.value("x"), "1");
}

#[test]
fn files_can_be_moved_between_directories_in_a_fork_and_in_a_parent() {
    let parent = session();
    parent.good("import os; os.mkdir('d'); open('a', 'w').close(); open('b', 'w').close()");
    let fork = parent.fork();
    for session in [&parent, &fork] {
        session.good("os.rename('a', 'd/a'); os.link('b', 'd/b')");
        assert_eq!(session.value("sorted(os.listdir('d'))"), "['a', 'b']");
        session.run("os._exit(1)");
        session.good("os.rename('d/a', 'a')");
    }
}

/// matplotlib does that with its fonts. After a restore the lowest descriptor numbers are free, so a file of the code's has one of them.
#[test]
fn a_file_that_a_library_closes_when_it_is_told_of_the_fork_stays_closed_and_the_fork_lives() {
    let parent = session();
    parent.good("import os");
    parent.run("os._exit(3)");
    parent.good("closed, kept = open(os.__file__), open(os.__file__)");
    parent.good("os.register_at_fork(after_in_child=closed.close)");
    let fork = parent.fork();
    assert_eq!(
        fork.value("closed.closed, len(kept.readline()) > 1"),
        "(True, True)"
    );
    assert_eq!(
        parent.value("closed.closed, len(kept.readline()) > 1"),
        "(False, True)"
    );
}

#[test]
fn shared_memory_that_a_library_unmaps_when_it_is_told_of_the_fork_stays_unmapped() {
    let parent = session();
    parent.good("import mmap, os; unmapped, kept = mmap.mmap(-1, 4096), mmap.mmap(-1, 4096); kept[:3] = b'abc'");
    parent.good("os.register_at_fork(after_in_child=unmapped.close)");
    let fork = parent.fork();
    fork.good("kept[0:1] = b'X'");
    assert_eq!(fork.value("unmapped.closed, kept[:3]"), "(True, b'Xbc')");
    assert_eq!(parent.value("unmapped.closed, kept[:3]"), "(False, b'abc')");
}
