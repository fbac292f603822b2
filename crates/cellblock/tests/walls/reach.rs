//! The walls around what is the host's: files, processes, network, shared memory, its name.

use super::attack::Attack;
use super::common::{Child, new_directory, python, token};
use cellblock::Wall;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
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
    Attack::on(Wall::Files, READS_THE_FILE).helped_by([Wall::Landlock]).variable("path", path).is_stopped();
}

#[test]
fn landlock_keeps_files_shut_where_there_is_no_view() {
    let (_directory, path) = secret_file();
    Attack::on(Wall::Landlock, READS_THE_FILE).helped_by([Wall::Files]).variable("path", path).is_stopped();
}

#[test]
fn landlock_keeps_mounts_as_they_are_even_for_one_who_may_mount() {
    let code = r"
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
if libc.mount(b'none', b'/tmp', b'tmpfs', 0, None) == 0:
    print('REACHED')
";
    Attack::on(Wall::Landlock, code).helped_by([Wall::Privileges, Wall::Seccomp]).is_stopped();
}

#[test]
fn processes_of_the_host_are_not_to_be_seen() {
    let secret = token();
    let mut command = Command::new(python());
    let canary = Child::start(command.args(["-I", "-c", "import time; time.sleep(600)", &secret]));
    let code = "print('REACHED', open(f'/proc/{pid}/cmdline').read().index(secret))";
    Attack::on(Wall::Processes, code).variable("pid", canary.pid()).variable("secret", secret).is_stopped();
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
    let code = "import socket; print(socket.create_connection(('127.0.0.1', port), 3).recv(100).decode())";
    Attack::on(Wall::Network, code).variable("port", port).is_stopped();
}

#[test]
fn shared_memory_of_the_host_is_not_ours() {
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
    command.args(["-I", "-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut canary = Child::start(&mut command);
    let mut segment = String::new();
    BufReader::new(canary.0.stdout.take().unwrap()).read_line(&mut segment).unwrap();
    let code = r"
import ctypes
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
address = libc.shmat(segment, None, 0o10000)
if address not in (None, 2**64 - 1):
    print(ctypes.string_at(address, 7).decode())
";
    Attack::on(Wall::Ipc, code).variable("segment", segment.trim().parse::<u64>().unwrap()).is_stopped();
    drop(canary.0.stdin.take());
    canary.0.wait().unwrap();
}

#[test]
fn the_host_s_name_is_not_told() {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let code = "import socket; socket.gethostname() == name and print('REACHED')";
    Attack::on(Wall::Hostname, code).variable("name", name.trim()).is_stopped();
}
