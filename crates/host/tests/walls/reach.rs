//! The walls around what is the host's: files, processes, network, shared memory, its name.

use super::attack::Attack;
use super::common::{Child, behind, new_directory, python, run, token, wait};
use cellblock_protocol::{Isolation, Limits, Rung, Spawn, Wall};
use serde_json::Map;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::{fs, thread};
use tempfile::TempDir;

/// A file of the host's that any user may read.
fn secret_file() -> (TempDir, String) {
    let directory = new_directory();
    let path = directory.path().join("secret.txt");
    fs::write(&path, token()).unwrap();
    (directory, path.to_str().unwrap().to_owned())
}

const READS_THE_FILE: &str = "print('REACHED', open(path).read())";

#[test]
fn files_of_the_host_are_not_in_the_view() {
    let (_directory, path) = secret_file();
    Attack::on(Wall::Files, READS_THE_FILE)
        .helped_by([Wall::Landlock])
        .variable("path", path)
        .is_stopped();
}

#[test]
fn landlock_keeps_files_shut_where_there_is_no_view() {
    let (_directory, path) = secret_file();
    Attack::on(Wall::Landlock, READS_THE_FILE)
        .helped_by([Wall::Files])
        .variable("path", path)
        .is_stopped();
}

#[test]
fn landlock_keeps_mounts_as_they_are_even_for_one_who_may_mount() {
    let code = r"
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
if libc.mount(b'none', b'/tmp', b'tmpfs', 0, None) == 0:
    print('REACHED')
";
    Attack::on(Wall::Landlock, code)
        .helped_by([Wall::Privileges, Wall::Seccomp])
        .is_stopped();
}

#[test]
fn processes_of_the_host_are_not_to_be_seen() {
    let secret = token();
    let mut command = Command::new(python());
    let canary = Child::start(command.args(["-I", "-c", "import time; time.sleep(600)", &secret]));
    let code = "print('REACHED', open(f'/proc/{pid}/cmdline').read().index(secret))";
    Attack::on(Wall::Processes, code)
        .variable("pid", canary.pid())
        .variable("secret", secret)
        .is_stopped();
}

#[test]
fn no_network_leads_out_not_even_to_the_machine_itself() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            let _ = connection.write_all(b"REACHED");
        }
    });
    let code =
        "import socket; print(socket.create_connection(('127.0.0.1', port), 3).recv(100).decode())";
    Attack::on(Wall::Network, code)
        .variable("port", port)
        .is_stopped();
}

#[test]
fn no_socket_of_the_host_is_reached_where_there_is_no_namespace() {
    let directory = new_directory();
    let path = directory.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            let _ = connection.write_all(b"REACHED");
        }
    });
    let code = r"
import socket
wire = socket.socket(socket.AF_UNIX)
wire.connect(path)
print(wire.recv(100).decode())
";
    Attack::on(Wall::Network, code)
        .without_namespaces()
        .variable("path", path.to_str().unwrap())
        .is_stopped();
}

/// A segment of the host's that any user may read, until it is dropped.
struct Segment {
    canary: Child,
    number: u64,
}

impl Segment {
    fn new() -> Segment {
        let script = r"
import ctypes, sys
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
segment = libc.shmget(0, 4096, 0o1666)
ctypes.memmove(libc.shmat(segment, None, 0), b'REACHED', 7)
print(segment, flush=True)
sys.stdin.read()
libc.shmctl(segment, 0, None)
";
        let mut command = Command::new(python());
        command
            .args(["-I", "-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut canary = Child::start(&mut command);
        let mut number = String::new();
        BufReader::new(canary.0.stdout.take().unwrap())
            .read_line(&mut number)
            .unwrap();
        Segment {
            canary,
            number: number.trim().parse().unwrap(),
        }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // Its end is the segment's.
        drop(self.canary.0.stdin.take());
        let _ = self.canary.0.wait();
    }
}

const READS_THE_SEGMENT: &str = r"
import ctypes
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
address = libc.shmat(segment, None, 0o10000)
if address not in (None, 2**64 - 1):
    print(ctypes.string_at(address, 7).decode())
";

#[test]
fn shared_memory_of_the_host_is_not_ours() {
    let segment = Segment::new();
    Attack::on(Wall::Ipc, READS_THE_SEGMENT)
        .variable("segment", segment.number)
        .is_stopped();
}

#[test]
fn shared_memory_of_the_host_is_not_ours_where_there_is_no_namespace() {
    let segment = Segment::new();
    Attack::on(Wall::Ipc, READS_THE_SEGMENT)
        .without_namespaces()
        .variable("segment", segment.number)
        .is_stopped();
}

#[test]
fn the_host_s_name_is_not_told() {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let code = "import socket; socket.gethostname() == name and print('REACHED')";
    Attack::on(Wall::Hostname, code)
        .variable("name", name.trim())
        .is_stopped();
}

/// In `full` Landlock leaves TCP to the network namespace, so that has to be one's own everywhere: in a session, in its fork, in what a
/// session spawns, and in the session beside it.
#[test]
fn every_session_and_every_fork_has_a_network_of_its_own_with_nothing_but_a_loopback() {
    let look = "import os, socket; print(os.readlink('/proc/self/ns/net'), [name for _, name in socket.if_nameindex()], end='')";
    let full = || behind(Isolation::on(Rung::Full), Limits::default(), &Map::new());
    let (session, beside) = (full(), full());
    let fork = wait(session.fork()).unwrap();
    let mut seen = vec![format!(
        "{} ['lo']",
        fs::read_link("/proc/self/ns/net").unwrap().display()
    )];
    seen.extend([&session, &beside, &fork].map(|session| run(session, look).stdout));
    let spawn = Spawn::new([session.python().to_str().unwrap(), "-c", look]);
    let process = wait(session.spawn(spawn)).unwrap();
    let spawned = String::from_utf8(wait(process.output()).stdout).unwrap();
    assert_eq!(spawned, seen[1], "what a session spawns is in its network");
    for (index, one) in seen.iter().enumerate() {
        assert!(one.ends_with(" ['lo']"), "{seen:?}");
        assert!(
            !seen[..index].contains(one),
            "two share a network: {seen:?}"
        );
    }
    // It is the wall's doing.
    let open = Isolation::on(Rung::Full).without(Wall::Network);
    let open = behind(open, Limits::default(), &Map::new());
    let hosts = seen[0].split(' ').next().unwrap();
    assert!(run(&open, look).stdout.starts_with(hosts));
    for session in [fork, session, beside, open] {
        wait(session.close());
    }
}

#[test]
fn where_there_is_no_network_namespace_no_internet_socket_can_be_made() {
    let session = behind(
        Isolation::on(Rung::Landlock),
        Limits::default(),
        &Map::new(),
    );
    let code = "
import socket
for family in (socket.AF_INET, socket.AF_INET6):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW):
        try: print('made', socket.socket(family, kind))
        except OSError as error: print(error.errno, end=' ')";
    assert_eq!(run(&session, code).stdout.trim(), "13 13 13 13 13 13");
    wait(session.close());
    // It is the wall's doing.
    let open = Isolation::on(Rung::Landlock).without(Wall::Network);
    let session = behind(open, Limits::default(), &Map::new());
    assert!(run(&session, code).stdout.contains("made"));
    wait(session.close());
}

#[test]
fn where_the_network_is_the_hosts_names_are_found_as_on_the_host() {
    let open = Isolation::on(Rung::Full).without(Wall::Network);
    let session = behind(open, Limits::default(), &Map::new());
    let hosts = run(&session, "print(open('/etc/hosts').read(), end='')").stdout;
    assert_eq!(hosts, fs::read_to_string("/etc/hosts").unwrap());
    if let Ok(resolver) = fs::read_to_string("/etc/resolv.conf") {
        let shown = run(&session, "print(open('/etc/resolv.conf').read(), end='')").stdout;
        assert_eq!(shown, resolver);
    }
    let sources = run(&session, "print(open('/etc/nsswitch.conf').read())").stdout;
    assert!(sources.contains("hosts: files dns"), "{sources}");
    // What fails there is no doing of a wall, and no message says so.
    let unknown = run(
        &session,
        "import socket; socket.gethostbyname('nowhere.invalid')",
    );
    let error = unknown.error.unwrap();
    assert!(!error.value.contains("no network"), "{}", error.value);
    assert_eq!((error.hint, error.obstacle), (None, None));
    wait(session.close());
}

#[test]
fn where_files_of_the_host_are_visible_no_hint_says_that_they_are_not() {
    for isolation in [
        Isolation::on(Rung::None),
        Isolation::on(Rung::Full).without(Wall::Files),
    ] {
        let session = behind(isolation, Limits::default(), &Map::new());
        for code in ["open('sales.csv')", "open('/home/nobody-at-all/sales.csv')"] {
            let error = run(&session, code).error.unwrap();
            assert_eq!((error.hint, error.obstacle), (None, None), "{code}");
        }
        wait(session.close());
    }
}
