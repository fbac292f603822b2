//! Where there is much, a fork does not copy large files: it shares them with its session until one of the two changes its own.

use crate::support::{Python, builder, open, session, wait};
use cellblock_protocol::Limits;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// More than is copied as a matter of course.
const MAKE: &str = "import os\nwith open('large', 'wb') as f: f.write(b'old'); f.truncate(70 << 20)\nos.mkdir('d')\nopen('other', 'w').write('new')\nos.symlink('/workspace/large', '/tmp/way')";
const LOOK: &str = "(lambda s: (open('large', 'rb').read(3), s.st_size, s.st_mode, s.st_mtime_ns, os.listxattr('large')))(os.stat('large'))";
const AS_IT_WAS: &str = "open('large', 'rb').read(3), os.path.getsize('large')";

fn inode(session: &Python, name: &str) -> u64 {
    fs::metadata(session.workspace().join(name)).unwrap().ino()
}

fn with_large_file() -> Python {
    let parent = session();
    parent.good(MAKE);
    parent
}

#[test]
fn ten_thousand_files_and_a_gigabyte_are_forked_without_a_copy() {
    let parent = session();
    let place = |name: &str| parent.workspace().join(name);
    for number in 0..10_000 {
        let directory = place(&format!("d{}", number % 10));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(number.to_string()), number.to_string()).unwrap();
    }
    let large = fs::File::create(place("large")).unwrap();
    large.set_len(1_000_000_000).unwrap();
    drop(large);
    parent.good("import os");
    let fork = parent.fork();
    for name in ["large", "d7/1237"] {
        assert_eq!(inode(&fork, name), inode(&parent, name));
    }
    assert_eq!(
        fork.value("open('d7/1237').read(), os.path.getsize('large'), sum(len(f) for *_, f in os.walk('.'))"),
        "('1237', 1000000000, 10001)"
    );
}

#[test]
fn small_files_of_the_user_s_are_copied_so_that_his_edits_do_not_show() {
    let directory = given(&["a", "b"]);
    let small = directory.path().join("small");
    fs::write(&small, "text").unwrap();
    let fork = open(builder().workspace(directory.path())).fork();
    fs::write(&small, "edited").unwrap();
    assert_eq!(fork.value("open('small').read()"), "'text'");
}

#[test]
fn where_there_are_many_small_ones_are_shared_too_and_then_apart() {
    let parent = session();
    parent.good("import os\nfor n in range(1200): open(str(n), 'w').write(str(n))");
    let fork = parent.fork();
    assert_eq!(inode(&fork, "7"), inode(&parent, "7"));
    fork.good("open('7', 'a').write(' of the fork'); os.remove('8'); os.rename('9', '10')");
    parent.good("open('7', 'w').write('new'); [os.remove(str(n)) for n in range(100, 1200)]");
    assert_eq!(
        fork.value("open('7').read(), open('10').read(), open('1100').read()"),
        "('7 of the fork', '9', '1100')"
    );
    wait(fork.undo(2)).unwrap();
    assert_eq!(
        fork.value("[open(n).read() for n in os.listdir()] == os.listdir()"),
        "True"
    );
    wait(parent.undo(1)).unwrap();
    assert_eq!(
        parent.value("[open(n).read() for n in os.listdir()] == os.listdir()"),
        "True"
    );
}

/// Every way to change a file.
const CHANGES: [&str; 19] = [
    "open('large', 'r+b').write(b'new')",
    "open('/workspace/large', 'ab').write(b'new')",
    "open('large', 'wb').close()",
    "os.close(os.open('large', os.O_RDONLY | os.O_TRUNC))",
    "os.truncate('large', 5)",
    "import mmap\nwith open('large', 'r+b') as f:\n    m = mmap.mmap(f.fileno(), 0)\nm[:3] = b'new'; m.flush(); m.close()",
    "os.replace('other', 'large')",
    "os.rename('large', 'moved'); open('moved', 'r+b').write(b'new'); os.rename('moved', 'large')",
    "os.chmod('large', 0o600)",
    "os.chmod('large', 0o600, dir_fd=os.open('.', os.O_RDONLY))",
    "os.utime('large', (1, 1))",
    "os.setxattr('large', 'user.mark', b'1')",
    "os.link('large', 'second'); open('second', 'r+b').write(b'new')",
    "open('/tmp/way', 'r+b').write(b'new')",
    "open('//workspace/d/../large', 'r+b').write(b'new')",
    "os.symlink('/workspace', 'd/up'); open('d/up/large', 'r+b').write(b'new'); os.remove('d/up')",
    "os.chdir('d'); open('../large', 'r+b').write(b'new'); os.chdir('/workspace')",
    "os.close(os.open('large', os.O_RDWR | os.O_TRUNC, dir_fd=os.open('/workspace', os.O_RDONLY)))",
    "import subprocess; subprocess.run(['sh', '-c', 'cd d; echo new > ../large'], check=True)",
];

#[test]
fn whatever_a_fork_does_to_a_shared_file_its_session_does_not_see() {
    for change in CHANGES {
        let parent = with_large_file();
        let before = parent.value(LOOK);
        let fork = parent.fork();
        assert_eq!(inode(&fork, "large"), inode(&parent, "large"));
        fork.good(change);
        assert_eq!(parent.value(LOOK), before, "{change}");
        assert_ne!(fork.value(LOOK), before, "{change}");
    }
}

#[test]
fn whatever_a_session_does_to_a_shared_file_its_fork_does_not_see() {
    for change in CHANGES {
        let parent = with_large_file();
        let before = parent.value(LOOK);
        let fork = parent.fork();
        assert_eq!(inode(&fork, "large"), inode(&parent, "large"));
        parent.good(change);
        assert_eq!(fork.value(LOOK), before, "{change}");
        assert_ne!(parent.value(LOOK), before, "{change}");
    }
}

#[test]
fn forks_beyond_those_that_init_can_look_into_share_nothing() {
    let parent = with_large_file();
    // The kernel parts sixteen from each other; the next are closed to everyone, and so to who asks.
    let forks: Vec<Python> = (0..18).map(|_| parent.fork()).collect();
    let last = forks.last().unwrap();
    assert_ne!(inode(last, "large"), inode(&parent, "large"));
    last.good("open('large', 'r+b').write(b'new')");
    let next = last.fork();
    assert_ne!(inode(&next, "large"), inode(last, "large"));
    parent.good("open('large', 'r+b').write(b'one')");
    let look = "open('large', 'rb').read(3)";
    assert_eq!(
        [&forks[0], last, &next, &parent].map(|session| session.value(look)),
        ["b'old'", "b'new'", "b'new'", "b'one'"]
    );
}

#[test]
fn a_process_that_nobody_can_look_into_changes_no_file_while_there_are_forks() {
    let parent = with_large_file();
    let fork = parent.fork();
    let hide = "import ctypes; ctypes.CDLL(None).prctl(4, 0)";
    for session in [&parent, &fork] {
        session.good(hide);
        assert_eq!(
            session.exception("open('large', 'r+b')"),
            "OSError(5, 'Input/output error')"
        );
        session.good("os.remove('large')");
    }
}

#[test]
fn whatever_a_program_opens_for_writing_it_finds_as_ever_while_there_are_forks() {
    let parent = with_large_file();
    let fork = parent.fork();
    let shell = "import subprocess\nshell = lambda code: subprocess.run(['sh', '-c', code], capture_output=True, text=True)";
    for session in [&parent, &fork] {
        session.good(shell);
        let out = |code: &str| session.value(&format!("shell({code:?}).stdout"));
        assert_eq!(
            out("echo a >/dev/null; echo b >/tmp/x; cat /tmp/x"),
            r"'b\n'"
        );
        assert_eq!(
            out("echo c >/dev/stdout; echo d >>/proc/self/fd/1"),
            r"'c\nd\n'"
        );
        assert_eq!(
            out("umask 077; echo >private; umask 000; echo >public; stat -c %a private public"),
            r"'600\n666\n'"
        );
        assert_eq!(
            out("mkfifo pipe; (sleep 0.3; cat pipe) & echo late >pipe; wait"),
            r"'late\n'"
        );
        assert_eq!(
            out("ln -s nothing link; echo e >link; cat nothing; ln nothing two; stat -c %h two"),
            r"'e\n2\n'"
        );
        assert_eq!(
            out(
                "touch -d @7 public; truncate -s 3 public; touch -d @8 public; stat -c '%Y %s' public"
            ),
            r"'8 3\n'"
        );
        let errors = ["gone/x", ".", "/usr/x"]
            .map(|path| session.exception(&format!("open('{path}', 'w')")));
        assert_eq!(
            errors.map(|error| error.split('(').next().unwrap().to_owned()),
            ["FileNotFoundError", "IsADirectoryError", "PermissionError"]
        );
        session.good("import tempfile\nwith tempfile.TemporaryFile(dir='.') as f: f.write(b'x')");
        assert_eq!(
            session.exception("os.open('private', os.O_WRONLY | os.O_CREAT | os.O_EXCL)"),
            "FileExistsError(17, 'File exists')"
        );
        session.good("os.chmod('private', 0o400)");
        assert_eq!(
            session.exception("os.open('private', os.O_WRONLY)"),
            "PermissionError(13, 'Permission denied')"
        );
    }
}

/// What is opened is handed over by init, and a signal can come in the middle of that. In a fork a few are left, of thousands.
#[test]
fn a_program_with_a_timer_does_not_run_out_of_descriptors() {
    let parent = session();
    parent.good("import os, signal, time; signal.signal(signal.SIGALRM, lambda *_: None)");
    let fork = parent.fork();
    let code = "before = len(os.listdir('/proc/self/fd'))
signal.setitimer(signal.ITIMER_REAL, 0.0004, 0.0004)
until = time.monotonic() + 2
while time.monotonic() < until:
    with open('file', 'w'): pass
signal.setitimer(signal.ITIMER_REAL, 0)
len(os.listdir('/proc/self/fd')) - before";
    for (session, most) in [(&parent, 0), (&fork, 100)] {
        let more: usize = session.value(code).parse().unwrap();
        assert!(more <= most, "{more} more are open");
    }
}

#[test]
fn a_descriptor_that_is_open_for_reading_changes_nothing_of_others() {
    let parent = with_large_file();
    let fork = parent.fork();
    let before = parent.value(LOOK);
    fork.good("reader = open('large', 'rb'); number = reader.fileno()");
    for change in [
        "os.fchmod(number, 0o600)",
        "os.utime(number, (1, 1))",
        "os.setxattr(number, 'user.mark', b'1')",
        "open(f'/proc/self/fd/{number}', 'r+b')",
        "os.truncate(f'/dev/fd/{number}', 1)",
    ] {
        assert!(fork.exception(change).starts_with("OSError(5,"), "{change}");
        // Also when the fork has long had a file of its own.
        fork.good("open('large', 'r+b').write(b'new')");
        assert!(fork.exception(change).starts_with("OSError(5,"), "{change}");
        assert_eq!(parent.value(LOOK), before, "{change}");
    }
}

#[test]
fn a_shared_file_that_one_side_removes_stays_with_the_other() {
    let parent = with_large_file();
    let (one, two) = (parent.fork(), parent.fork());
    one.good("os.remove('large')");
    parent.good("os.remove('large')");
    assert_eq!(two.value(AS_IT_WAS), "(b'old', 73400320)");
}

#[test]
fn two_names_of_one_file_in_one_session_go_on_showing_the_same() {
    let parent = with_large_file();
    parent.good("os.link('large', 'before')");
    let fork = parent.fork();
    for session in [&parent, &fork] {
        session.good("os.link('large', 'after')");
        session.good("open('large', 'r+b').write(b'new')");
        assert_eq!(session.value("open('after', 'rb').read(3)"), "b'new'");
    }
    assert_eq!(parent.value("open('before', 'rb').read(3)"), "b'new'");
    // When the fork has gone, with its files, nothing is shared any more.
    let parent = with_large_file();
    let fork = parent.fork();
    let place = fork.workspace().to_owned();
    wait(fork.close());
    fs::remove_dir_all(place).unwrap();
    parent.good("os.link('large', 'after'); open('large', 'r+b').write(b'new')");
    assert_eq!(parent.value("open('after', 'rb').read(3)"), "b'new'");
}

#[test]
fn a_handle_that_is_open_at_the_fork_leads_to_each_side_s_own() {
    let parent = with_large_file();
    parent.good(
        "handle = open('large', 'r+b', buffering=0); reader = open('large', 'rb', buffering=0)",
    );
    let fork = parent.fork();
    for (session, text) in [(&parent, "one"), (&fork, "two")] {
        session.good(&format!("handle.write(b'{text}')"));
    }
    let look = "reader.seek(0) or reader.read(3), open('large', 'rb').read(3)";
    assert_eq!(parent.value(look), "(b'one', b'one')");
    assert_eq!(fork.value(look), "(b'two', b'two')");
}

#[test]
fn a_handle_that_undo_brings_back_does_not_lead_to_the_fork_s_file() {
    let parent = with_large_file();
    parent.good("handle = open('large', 'r+b', buffering=0)");
    parent.good("handle.close()");
    let fork = parent.fork();
    wait(parent.undo(1)).unwrap();
    parent.good("handle.write(b'new')");
    assert_eq!(parent.value("open('large', 'rb').read(3)"), "b'new'");
    assert_eq!(fork.value("open('large', 'rb').read(3)"), "b'old'");
}

#[test]
fn a_process_that_writes_across_the_fork_writes_to_its_own_session() {
    let parent = with_large_file();
    parent.good("import subprocess; child = subprocess.Popen(['sh', '-c', 'exec 5<>large; read line; printf new >&5'], stdin=subprocess.PIPE)");
    parent.good("import time; time.sleep(0.3)");
    let fork = parent.fork();
    parent.good("child.communicate(b'go\\n')");
    assert_eq!(parent.value("open('large', 'rb').read(3)"), "b'new'");
    assert_eq!(fork.value("open('large', 'rb').read(3)"), "b'old'");
}

#[test]
fn the_first_change_of_a_fork_can_be_taken_back() {
    let parent = with_large_file();
    let fork = parent.fork();
    let before = fork.value(LOOK);
    for change in CHANGES {
        fork.good(change);
        let taken_back = wait(fork.undo(1)).unwrap();
        assert_eq!(taken_back.not_restored, Vec::<String>::new(), "{change}");
        assert_eq!(fork.value(LOOK), before, "{change}");
        assert_eq!(
            fork.value("sorted(os.listdir())"),
            "['d', 'large', 'other']"
        );
    }
    fork.good("os.remove('large')");
    wait(fork.undo(1)).unwrap();
    assert_eq!(fork.value(LOOK), before);
    assert_eq!(parent.value(LOOK), before);
}

#[test]
fn a_crash_in_a_fork_or_in_its_session_leaves_the_other_s_files_alone() {
    let parent = with_large_file();
    let fork = parent.fork();
    let before = parent.value(LOOK);
    let crash = "f = open('large', 'r+b', buffering=0); f.write(b'new'); os.kill(os.getpid(), 9)";
    for session in [&fork, &parent] {
        let state = session.run(crash).state;
        assert_eq!(state.not_restored, Vec::<String>::new());
        assert_eq!(
            [fork.value(LOOK), parent.value(LOOK)],
            [&before, &before].map(Clone::clone)
        );
    }
}

#[test]
fn forks_of_forks_each_have_their_own() {
    let first = with_large_file();
    let second = first.fork();
    let third = second.fork();
    assert_eq!(inode(&first, "large"), inode(&third, "large"));
    second.good("open('large', 'r+b').write(b'two')");
    wait(second.close());
    third.good("open('large', 'r+b').write(b'thr')");
    let fourth = third.fork();
    first.good("open('large', 'r+b').write(b'one')");
    fourth.good("os.truncate('large', 1)");
    let look = "open('large', 'rb').read(3)";
    assert_eq!(
        [&first, &third, &fourth].map(|session| session.value(look)),
        ["b'one'", "b'thr'", "b't'"]
    );
}

#[test]
fn two_sides_that_write_at_the_same_time_part() {
    let parent = with_large_file();
    let fork = parent.fork();
    let write = |text: &str| format!("with open('large', 'r+b') as f: f.write(b'{text}')");
    let cells = [
        parent.start(write("one").as_str()),
        fork.start(write("two").as_str()),
    ];
    for cell in cells {
        cell.result();
    }
    assert_eq!(parent.value(AS_IT_WAS), "(b'one', 73400320)");
    assert_eq!(fork.value(AS_IT_WAS), "(b'two', 73400320)");
}

#[test]
fn a_large_database_is_each_side_s_own() {
    let parent = session();
    parent.good("import sqlite3, os; db = sqlite3.connect('db', isolation_level=None); db.execute('create table t (x)'); db.execute('insert into t values (zeroblob(70000000))'); db.close()");
    let fork = parent.fork();
    assert_eq!(inode(&fork, "db"), inode(&parent, "db"));
    for (session, rows) in [(&fork, 2), (&parent, 1)] {
        session.good("db = sqlite3.connect('db', isolation_level=None)");
        session.good(&"db.execute('insert into t values (1)')\n".repeat(rows));
    }
    let count = "db.execute('select count(*) from t').fetchone(), db.execute('pragma integrity_check').fetchone()";
    assert_eq!(fork.value(count), "((3,), ('ok',))");
    assert_eq!(parent.value(count), "((2,), ('ok',))");
}

#[test]
fn what_the_host_puts_into_one_session_is_not_in_the_other() {
    let parent = with_large_file();
    let fork = parent.fork();
    fork.good("os.symlink('large', 'link')");
    wait(fork.put_file("link", b"put".to_vec())).unwrap();
    assert_eq!(fork.value("open('large', 'rb').read()"), "b'put'");
    assert_eq!(parent.value(AS_IT_WAS), "(b'old', 73400320)");
}

#[test]
fn a_result_names_only_what_its_own_session_changed() {
    let parent = with_large_file();
    let fork = parent.fork();
    let changed = |session: &Python, code: &str| {
        let files = session.good(code).files;
        let paths = files.changed.into_iter().map(|file| file.path);
        paths.collect::<Vec<_>>()
    };
    assert_eq!(changed(&parent, "1"), Vec::<String>::new());
    assert_eq!(
        changed(&fork, "open('large', 'r+b').write(b'new')"),
        ["large"]
    );
    assert_eq!(
        changed(&parent, "os.stat('large').st_nlink"),
        Vec::<String>::new()
    );
}

#[test]
fn a_directory_of_the_user_s_is_shared_and_stays_as_it_is() {
    let directory = given(&["a", "b"]);
    let limits = Limits {
        disk: 100 << 20,
        ..Limits::default()
    };
    let parent = open(builder().workspace(directory.path()).limits(limits));
    parent.good("import os");
    let fork = parent.fork();
    assert_eq!(inode(&fork, "a"), inode(&parent, "a"));
    fork.good("open('a', 'r+b').write(b'new')");
    // One more copy is more than the limit allows.
    assert_eq!(
        fork.exception("open('b', 'r+b')"),
        "OSError(122, 'Disk quota exceeded')"
    );
    assert_eq!(fork.value("open('b', 'rb').read(3)"), "b'old'");
    assert_eq!(
        parent.value("[open(f, 'rb').read(3) for f in 'ab']"),
        "[b'old', b'old']"
    );
    parent.good("open('a', 'r+b').write(b'one')");
    wait(parent.undo(1)).unwrap();
    assert_eq!(fs::read(directory.path().join("a")).unwrap()[..3], *b"old");
    assert_eq!(fork.value("open('a', 'rb').read(3)"), "b'new'");
}

/// A directory with files of 60 MiB.
fn given(names: &[&str]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for name in names {
        let make = |path: &Path| {
            fs::write(path, b"old")?;
            fs::File::options()
                .write(true)
                .open(path)?
                .set_len(60 << 20)
        };
        make(&directory.path().join(name)).unwrap();
    }
    directory
}
