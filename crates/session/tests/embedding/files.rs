//! The files that a session sees, by absolute path.

use crate::support::{Python, session, wait};
use cellblock_protocol::{Event, FileKind};
use cellblock_session::{Error, Existing};
use std::io::{Read as _, Seek as _, Write as _};

fn names(session: &Python, path: &str, depth: u32) -> Vec<String> {
    let listed = wait(session.paths().list(path, depth)).unwrap();
    listed.into_iter().map(|entry| entry.path).collect()
}

fn problem<T: std::fmt::Debug>(outcome: Result<T, Error>) -> String {
    outcome.unwrap_err().to_string()
}

fn write(session: &Python, path: &str, contents: &[u8]) -> Result<(), Error> {
    let paths = session.paths();
    wait(paths.write(path, 0, contents.to_vec(), Existing::CutOff))
}

#[test]
fn files_of_the_workspace_and_of_tmp_go_in_and_out_in_parts() {
    let session = session();
    for place in ["/workspace", "/tmp", "/dev/shm"] {
        let path = format!("{place}/deep/er/file.bin");
        let paths = session.paths();
        write(&session, &path, b"0123456789").unwrap();
        wait(paths.write(&path, 12, b"xy".to_vec(), Existing::Kept)).unwrap();
        wait(paths.write(&path, 0, b"AB".to_vec(), Existing::Kept)).unwrap();
        let code = format!("open({path:?}, 'rb').read()");
        assert_eq!(session.value(code.as_str()), "b'AB23456789\\x00\\x00xy'");
        assert_eq!(wait(paths.read(&path, 8, 3)).unwrap(), b"89\0");
        assert_eq!(wait(paths.read(&path, 99, 3)).unwrap(), b"");
        write(&session, &path, b"short").unwrap();
        assert_eq!(wait(paths.read(&path, 0, u64::MAX)).unwrap(), b"short");
        // The session's user can change and remove it.
        session.good(
            format!("open({path:?}, 'a').write('!'); import os; os.chmod({path:?}, 0o600)")
                .as_str(),
        );
        let stat = wait(paths.stat(&path)).unwrap();
        assert_eq!(
            (
                stat.name.as_str(),
                stat.path.as_str(),
                stat.kind,
                stat.bytes,
                stat.mode
            ),
            ("file.bin", path.as_str(), FileKind::File, 6, 0o600)
        );
        assert_eq!(
            names(&session, place, 3),
            [
                format!("{place}/deep"),
                format!("{place}/deep/er"),
                path.clone()
            ]
        );
        assert_eq!(names(&session, place, 1), [format!("{place}/deep")]);
        let moved = format!("{place}/moved");
        wait(paths.rename(&path, &moved)).unwrap();
        wait(paths.make_dir(&format!("{place}/deep/other"))).unwrap();
        wait(paths.make_dir(&format!("{place}/deep/other"))).unwrap();
        wait(paths.remove(&format!("{place}/deep"))).unwrap();
        assert_eq!(names(&session, place, 9).join(" "), moved);
        session.good(format!("import os\nos.remove({moved:?})").as_str());
        assert!(problem(wait(paths.stat(&moved))).contains("No such file"));
    }
}

#[test]
fn what_a_session_sees_elsewhere_can_be_read_and_not_written() {
    let session = session();
    let paths = session.paths();
    assert!(names(&session, "/", 1).contains(&"/workspace".to_owned()));
    assert_eq!(wait(paths.stat("/usr")).unwrap().kind, FileKind::Directory);
    let of_code = session.value("open('/etc/passwd').read()");
    let read = String::from_utf8(wait(paths.read("/etc/passwd", 0, 1 << 20)).unwrap()).unwrap();
    assert_eq!(format!("{read:?}").replace('"', "'"), of_code);
    for path in [
        "/usr/x",
        "/x",
        "/etc/passwd",
        "/tmp/../etc/x",
        "/proc/1/mem",
    ] {
        assert!(
            problem(write(&session, path, b"x")).contains("read-only"),
            "{path}"
        );
        assert!(
            problem(wait(paths.remove(path))).contains("read-only"),
            "{path}"
        );
    }
    for path in ["", "x", "../x", "/tmp/\0"] {
        assert!(
            problem(write(&session, path, b"x")).contains("absolute"),
            "{path:?}"
        );
    }
    assert!(problem(wait(paths.rename("/tmp/a", "/workspace/a"))).contains("copy it"));
}

#[test]
fn no_link_leads_out_and_no_device_or_pipe_is_opened() {
    let session = session();
    let outside = tempfile::NamedTempFile::new().unwrap();
    outside.as_file().write_all(b"secret").unwrap();
    let outside = outside.path().to_str().unwrap();
    session.good(format!("secret = {outside:?}").as_str());
    session.good(
        "import os
for place in ('/workspace', '/tmp', '/dev/shm'):
    os.chdir(place)
    os.symlink(secret, 'absolute')
    os.symlink('../../../../../../..' + secret, 'relative')
    os.symlink('/proc/self/root' + secret, 'magic')
    os.symlink('/', 'root')
    os.symlink('../workspace/target', 'sideways')
    os.symlink('inside.txt', 'inner')
    open('inside.txt', 'w').write('inside')
    os.mkfifo('fifo')
    os.mkdir('closed'); os.chmod('closed', 0)
os.chdir('/workspace')
open('target', 'w').write('untouched')",
    );
    let paths = session.paths();
    for place in ["/workspace", "/tmp", "/dev/shm"] {
        for link in ["absolute", "relative", "magic", "fifo"] {
            let path = format!("{place}/{link}");
            assert!(wait(paths.read(&path, 0, 99)).is_err(), "{path} was read");
            assert!(write(&session, &path, b"x").is_err(), "{path} was written");
        }
        let through = format!("{place}/root{outside}");
        assert!(wait(paths.read(&through, 0, 99)).is_err(), "{through}");
        assert!(wait(paths.list(&format!("{place}/root"), 1)).is_err());
        assert_eq!(
            wait(paths.read(&format!("{place}/inner"), 0, 99)).unwrap(),
            b"inside"
        );
        let link = wait(paths.stat(&format!("{place}/absolute"))).unwrap();
        assert_eq!(
            (link.kind, link.target.as_deref()),
            (FileKind::Link, Some(outside))
        );
        // As the session's user: what is closed to it is closed here.
        names(&session, place, 5);
    }
    for place in ["/tmp", "/dev/shm"] {
        let path = format!("{place}/sideways");
        assert!(
            write(&session, &path, b"x").is_err(),
            "{path} leads to the workspace"
        );
        assert!(wait(paths.list(&format!("{place}/closed"), 1)).is_err());
    }
    assert_eq!(
        wait(paths.read("/workspace/target", 0, 99)).unwrap(),
        b"untouched"
    );
    assert!(wait(paths.read("/dev/zero", 0, 99)).is_err());
    assert_eq!(std::fs::read(outside).unwrap(), b"secret");
}

#[test]
fn an_absolute_link_is_followed_where_it_stays_in_its_place() {
    let session = session();
    session.good(
        "import os
for place in ('/workspace', '/tmp', '/dev/shm'):
    os.makedirs(place + '/real/deep')
    os.symlink(place + '/real', place + '/directory')
    os.symlink(place + '/directory/file', place + '/file')
    os.symlink(place + '/../../etc/passwd', place + '/out')
    os.symlink(place + '/loop', place + '/loop')
    os.symlink('/tmp/target' if place == '/workspace' else '/workspace/target', place + '/sideways')
for path in ('/workspace/target', '/tmp/target'):
    open(path, 'w').write('untouched')",
    );
    let paths = session.paths();
    for place in ["/workspace", "/tmp", "/dev/shm"] {
        let at = |name: &str| format!("{place}/{name}");
        write(&session, &at("directory/file"), b"old").unwrap();
        write(&session, &at("file"), b"new").unwrap();
        wait(paths.make_dir(&at("directory/deep/er"))).unwrap();
        assert_eq!(wait(paths.read(&at("real/file"), 0, 99)).unwrap(), b"new");
        assert_eq!(
            names(&session, &at("directory"), 3),
            ["deep", "deep/er", "file"].map(|name| at(&format!("directory/{name}")))
        );
        let stat = wait(paths.stat(&at("directory/file"))).unwrap();
        assert_eq!((stat.kind, stat.bytes), (FileKind::File, 3));
        for link in ["out", "loop", "sideways"] {
            assert!(wait(paths.read(&at(link), 0, 99)).is_err(), "{link}");
            assert!(write(&session, &at(link), b"x").is_err(), "{link}");
        }
    }
    for path in ["/workspace/target", "/tmp/target"] {
        assert_eq!(wait(paths.read(path, 0, 99)).unwrap(), b"untouched");
    }
}

#[test]
fn a_listing_has_the_targets_of_links() {
    let session = session();
    session.good(
        "import os\nos.mkdir('/tmp/d')\nos.symlink('d', '/tmp/l')\nos.symlink('nowhere', '/tmp/n')",
    );
    let listed = wait(session.paths().list("/tmp", 1)).unwrap();
    let found: Vec<_> = listed
        .iter()
        .map(|entry| (entry.name.as_str(), entry.kind, entry.target.as_deref()))
        .collect();
    assert_eq!(
        found,
        [
            ("d", FileKind::Directory, None),
            ("l", FileKind::Link, Some("d")),
            ("n", FileKind::Link, Some("nowhere")),
        ]
    );
}

#[test]
fn files_are_worked_with_while_a_cell_runs() {
    let session = session();
    let mut running = session.start("import os, time\nprint('ready', flush=True)\nwhile not os.path.exists('/tmp/go'): time.sleep(0.01)\nopen('/tmp/go').read()");
    assert!(matches!(running.next(), Some(Event::Stdout { .. })));
    assert_eq!(names(&session, "/tmp", 1), [""; 0]);
    write(&session, "/tmp/.go", b"gone").unwrap();
    wait(session.paths().rename("/tmp/.go", "/tmp/go")).unwrap();
    assert_eq!(running.result().value.unwrap().repr, "'gone'");
}

#[test]
fn a_file_of_any_size_is_streamed() {
    const SIZE: u64 = 100 << 20;
    let session = session();
    let mut source = tempfile::tempfile().unwrap();
    let piece: Vec<u8> = (0..1 << 20).map(|at| (at % 251) as u8).collect();
    (0..SIZE >> 20).for_each(|_| source.write_all(&piece).unwrap());
    source.rewind().unwrap();
    let copied = wait(session.paths().copy_in("/workspace/large.bin", source)).unwrap();
    assert_eq!(copied, SIZE);
    assert_eq!(
        session.value("import os\nos.path.getsize('large.bin')"),
        SIZE.to_string()
    );
    let mut file = wait(session.paths().open("/workspace/large.bin")).unwrap();
    let mut back = vec![0; 1 << 20];
    for _ in 0..SIZE >> 20 {
        file.read_exact(&mut back).unwrap();
        assert!(back == piece);
    }
}

#[test]
fn a_write_to_a_file_that_a_fork_shares_stays_in_its_session() {
    let session = session();
    session.good("open('shared.txt', 'w').write('before')");
    let fork = Python(wait(session.fork()).unwrap());
    write(&fork, "/workspace/shared.txt", b"after!").unwrap();
    let read =
        |session: &Python| wait(session.paths().read("/workspace/shared.txt", 0, 99)).unwrap();
    assert_eq!(
        (read(&session), read(&fork)),
        (b"before".to_vec(), b"after!".to_vec())
    );
    write(&fork, "/tmp/of-fork", b"x").unwrap();
    assert_eq!(names(&session, "/tmp", 1), [""; 0]);
}

/// For an ordinary user the host may look into init and the standbys, which are closed to the session.
#[test]
fn the_memory_of_init_and_of_standbys_is_not_read_by_path() {
    let session = session();
    session.good("x = 1");
    session.good("import os; os.symlink('/proc/1/mem', '/tmp/memory')");
    let paths = session.paths();
    for process in 1..9 {
        for file in ["maps", "mem", "environ", "fd/0"] {
            let path = format!("/proc/{process}/{file}");
            assert!(wait(paths.read(&path, 0, 16)).is_err(), "{path}");
            assert!(wait(paths.stat(&path)).is_err(), "{path}");
        }
    }
    assert!(wait(paths.read("/tmp/memory", 0, 16)).is_err());
    assert!(wait(paths.list("/proc", 2)).is_err());
    let seen = names(&session, "/", 2);
    assert!(!seen.iter().any(|name| name.starts_with("/proc/")));
    assert!(seen.iter().any(|name| name.starts_with("/etc/")));
    // Code of the session reads what it may.
    assert_eq!(
        session.value("'Name' in open('/proc/self/status').read()"),
        "True"
    );
}
