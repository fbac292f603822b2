//! Small limits and bad surroundings of the host process: each command works, or says what is missing and what to do.

use crate::snapshot::transcript;
use crate::support::{CELLBLOCK, Ended, Place};
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::process::{Command, Stdio};

const COMMANDS: [&[&str]; 6] = [
    &["exec", "--stdlib", "-c", "print(6 * 7)"],
    &["repl", "--stdlib"],
    &["pipe", "--stdlib"],
    &["mcp", "--stdlib"],
    &["doctor"],
    &["setup"],
];

/// Runs a command with these limits (options of `prlimit`).
fn with_limits(place: &Place, limits: &[&str], arguments: &[&str]) -> Ended {
    let mut command = Command::new("prlimit");
    command.args(limits).arg(CELLBLOCK).args(arguments);
    ended(command.envs(place.variables()).current_dir(place.path()))
}

fn ended(command: &mut Command) -> Ended {
    let output = command.stdin(Stdio::null()).output().unwrap();
    Ended {
        // Death by a signal is no status.
        status: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Every command ends with the status 3, names the limit, and says how to raise it.
fn is_refused(limit: &str, problem: &str, remedy: &str) {
    let place = Place::new();
    for command in COMMANDS {
        let ended = with_limits(&place, &[limit], command);
        let expected = Ended {
            status: 3,
            stdout: String::new(),
            stderr: format!(
                "error: the limits of this process are too low: {problem}\n\
                 hint: raise them before the start: `{remedy}` in a shell that may, or the settings of the service or container\n"
            ),
        };
        assert_eq!(ended, expected, "{command:?}");
    }
    assert!(!place.path().join("state").exists(), "something was begun");
}

#[test]
fn too_few_open_files_are_named() {
    is_refused(
        "--nofile=64:64",
        "at most 64 open files, and 256 are needed",
        "ulimit -n 256",
    );
}

#[test]
fn too_few_processes_are_named() {
    if is_root() {
        // The kernel does not count root's.
        let ended = with_limits(&Place::new(), &["--nproc=5:5"], COMMANDS[0]);
        assert_eq!((ended.status, &ended.stdout[..]), (0, "42\n"), "{ended:?}");
        return;
    }
    is_refused(
        "--nproc=5:5",
        "at most 5 processes and threads of this user, and 64 are needed",
        "ulimit -u 64",
    );
}

#[test]
fn too_small_files_are_named_and_no_signal_ends_the_host() {
    is_refused(
        "--fsize=10240:10240",
        "at most 10 KiB in one file, and 65536 are needed",
        "ulimit -f 65536",
    );
}

#[test]
fn too_little_address_space_is_named() {
    is_refused(
        "--as=200000000:200000000",
        "at most 195312 KiB of address space, and 524288 are needed",
        "ulimit -v 524288",
    );
}

#[test]
fn too_small_a_stack_is_named() {
    is_refused(
        "--stack=65536:65536",
        "at most 64 KiB of stack, and 1024 are needed",
        "ulimit -s 1024",
    );
}

#[test]
fn all_limits_that_are_too_low_are_named_at_once() {
    let limits = ["--nofile=64:64", "--fsize=10240:10240"];
    let place = Place::new();
    let ended = with_limits(&place, &limits, COMMANDS[0]);
    insta::assert_snapshot!(transcript(&place, COMMANDS[0], "", &ended));
}

#[test]
fn a_limit_that_may_be_raised_is_raised() {
    let limits = [
        "--nofile=64:4096",
        "--stack=65536:8388608",
        "--fsize=10240:unlimited",
    ];
    let ended = with_limits(&Place::new(), &limits, COMMANDS[0]);
    assert_eq!((ended.status, &ended.stdout[..]), (0, "42\n"), "{ended:?}");
}

/// The kernel counts them for each user, and refuses one more to a process that may have fewer open files.
#[test]
fn descriptors_that_a_session_leaves_in_sockets_keep_no_host_from_its_own() {
    const LIMIT: &str = "--nofile=1024:1024";
    const FILL: &str = r"
import array, socket, time
kept, message = [], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0] * 253))]
try:
    while True:
        kept.append(socket.socketpair())
        for _ in range(100):
            kept[-1][0].sendmsg([b'x'], message)
except OSError as error:
    print(error, flush=True)
time.sleep(100)
";
    let place = Place::new();
    let mut filling = Command::new("prlimit")
        .args([LIMIT, CELLBLOCK, "exec", "--stdlib", "--timeout", "120"])
        .args(["-c", FILL])
        .envs(place.variables())
        .current_dir(place.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = String::new();
    let mut output = BufReader::new(filling.stdout.take().unwrap());
    output.read_line(&mut told).unwrap();
    let other = Place::new();
    let mut command = Command::new("timeout");
    command.args(["60", "prlimit", LIMIT, CELLBLOCK]);
    command.args(COMMANDS[0]).envs(other.variables());
    let ended = ended(command.current_dir(other.path()));
    filling.kill().unwrap();
    filling.wait().unwrap();
    assert!(told.contains("Too many references"), "{told}");
    assert_eq!((ended.status, &ended.stdout[..]), (0, "42\n"), "{ended:?}");
}

#[test]
fn limits_that_are_just_high_enough_are_enough() {
    let limits = [
        "--nofile=256:256",
        "--stack=1048576:1048576",
        "--fsize=67108864:67108864",
        "--data=268435456:268435456",
        "--as=536870912:536870912",
    ];
    for limit in limits {
        let ended = with_limits(&Place::new(), &[limit], COMMANDS[0]);
        assert_eq!(
            (ended.status, &ended.stdout[..], &ended.stderr[..]),
            (0, "42\n", ""),
            "{limit}"
        );
    }
}

/// The output is a file that may not grow any more: an error of writing, not the death of the host.
#[test]
fn an_output_that_may_not_grow_is_an_error() {
    let place = Place::new();
    let out = place.path().join("out");
    let mut command = Command::new("prlimit");
    command.arg("--fsize=67108864:67108864").arg(CELLBLOCK);
    command.args(["exec", "--stdlib", "-c", "print('x' * (80 << 20))"]);
    command.envs(place.variables()).current_dir(place.path());
    let output = command
        .stdin(Stdio::null())
        .stdout(File::create(&out).unwrap())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert_eq!(
        stderr,
        "error: the output could not be written\ncause: File too large (os error 27)\n"
    );
}

#[test]
fn a_umask_that_takes_everything_from_the_owner_does_no_harm() {
    let place = Place::new();
    for arguments in [COMMANDS[0], COMMANDS[1]] {
        let mut command = Command::new("sh");
        command.args(["-c", r#"umask 777; exec "$0" "$@""#, CELLBLOCK]);
        command.args(arguments).envs(place.variables());
        let ended = ended(command.current_dir(place.path()));
        assert_eq!((ended.status, &ended.stderr[..]), (0, ""), "{arguments:?}");
    }
}
