//! What is true of containers alone.

use super::ground::docker;
use super::log::logged;
use super::relay::Relay;
use super::sessions::{open, run};
use cellblock::{
    Backend, Cell, CheckpointStatus, ContainerOptions, Event, SessionOptions, StateOutcome, Status,
};
use cellblock_session::{Containers, Engine};
use cellblock_test_support::{test_directory, wait};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

fn engine_socket() -> PathBuf {
    let address = std::env::var("DOCKER_HOST").unwrap();
    address.strip_prefix("unix://").unwrap().into()
}

/// Containers of an engine that is reached at `socket`.
fn containers(socket: &Path, state: &Path) -> Containers {
    Containers::new(Engine::at(socket), state, test_directory().join("cache"))
}

fn options(container: ContainerOptions) -> SessionOptions {
    SessionOptions {
        container: Some(container),
        ..SessionOptions::default()
    }
}

#[test]
fn a_result_says_that_it_comes_from_a_container_and_what_that_costs() {
    let Some(docker) = docker() else { return };
    let session = docker.session();
    run(&session, "x = 1");
    let result = run(&session, "x = 2");
    assert_eq!(result.backend, Backend::Docker);
    assert_eq!(result.isolation, "docker");
    let checkpoint = result.state.checkpoint;
    assert_eq!(checkpoint.status, CheckpointStatus::Unavailable);
    assert!(checkpoint.reason.unwrap().contains("lives in a container"));
    let message = wait(session.undo(1)).unwrap_err().to_string();
    assert!(message.contains("container"), "{message}");
    let message = wait(session.fork()).unwrap_err().to_string();
    assert!(
        message.contains("a session in a container cannot be forked"),
        "{message}"
    );
    assert_eq!(run(&session, "x").value.unwrap().repr, "2");
}

#[test]
fn inside_there_are_no_privileges_and_the_limits_are_the_containers() {
    let Some(docker) = docker() else { return };
    let session = docker.session();
    let code = "status = dict(line.split(':', 1) for line in open('/proc/self/status'))
print(int(status['CapEff'], 16), int(status['CapBnd'], 16), int(status['NoNewPrivs']), int(status['Seccomp']))";
    assert_eq!(run(&session, code).stdout, "0 0 1 2\n");
    // The host's processes are not to be seen: process 1 is ours.
    let code = "print('cellblock_guest' in open('/proc/1/cmdline').read())";
    assert_eq!(run(&session, code).stdout, "True\n");
}

#[test]
fn process_1_who_says_how_cells_end_cannot_be_touched() {
    let Some(docker) = docker() else { return };
    let session = docker.session();
    let code = "import ctypes, os, signal
def attempt(what, *rest):
    try:
        what(*rest)
        return 'done'
    except OSError as error:
        return type(error).__name__
attach = 16
print(ctypes.CDLL(None).ptrace(attach, 1, 0, 0), attempt(open, '/proc/1/mem', 'r+b'), attempt(open, '/proc/1/fd/1', 'w'))
for number in (signal.SIGKILL, signal.SIGINT, signal.SIGSTOP):
    os.kill(1, number)";
    let result = run(&session, code);
    assert_eq!(result.stdout, "-1 PermissionError PermissionError\n");
    assert_eq!(run(&session, "1 + 1").value.unwrap().repr, "2");
}

#[test]
fn what_is_printed_is_logged_with_where_it_comes_from() {
    let Some(docker) = docker() else { return };
    let session = open(docker.builder().name("loud"));
    let code = "import sys\nprint('one\\ntwo', end='')\nprint('oops', file=sys.stderr)";
    run(&session, code);
    let quiet = ContainerOptions {
        stream_container_output: false,
        ..docker.container().unwrap()
    };
    let quiet = open(docker.builder().name("silent").container(quiet));
    run(&quiet, code);
    let lines: Vec<String> = logged()
        .into_iter()
        .filter(|line| line.contains("[loud]") || line.contains("[silent]"))
        .collect();
    let (begin, printed) = lines.split_first().unwrap();
    assert!(
        begin.starts_with("[docker][loud][stdout] Python 3."),
        "{begin}"
    );
    let mut printed = printed.to_vec();
    // The two streams have no common order in a log of lines.
    printed.sort();
    assert_eq!(
        printed,
        [
            "[docker][loud][stderr] oops",
            "[docker][loud][stdout] one",
            "[docker][loud][stdout] two",
        ]
    );
}

#[test]
fn code_runs_as_the_owner_of_the_users_directory() {
    let Some(docker) = docker() else { return };
    let directory = test_directory().join("given-by-another-user");
    fs::create_dir(&directory).unwrap();
    // Only root can give a directory away, and only root's tests need to.
    let _ = std::os::unix::fs::chown(&directory, Some(4711), Some(4712));
    let owner = fs::metadata(&directory).unwrap();
    let session = open(docker.builder().workspace(&directory));
    let result = run(
        &session,
        "import os\nopen('a', 'w').close()\nos.getuid(), os.getgid()",
    );
    let expected = format!("({}, {})", owner.uid(), owner.gid());
    assert_eq!(result.value.unwrap().repr, expected);
    let written = fs::metadata(directory.join("a")).unwrap();
    assert_eq!((written.uid(), written.gid()), (owner.uid(), owner.gid()));
}

#[test]
fn packages_in_the_volume_can_be_imported_and_not_changed() {
    let Some(docker) = docker() else { return };
    let container = ContainerOptions {
        volume: format!("cellblock-test-{}", std::process::id()),
        ..docker.container().unwrap()
    };
    let fill = |command: &[&str]| {
        let done = Command::new("docker").args(command).output().unwrap();
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
    };
    let mount = format!("{}:/environment", container.volume);
    let write = "open('/environment/stored.py', 'w').write('size = 3')";
    fill(&[
        "run",
        "--rm",
        "--network=none",
        "-v",
        &mount,
        &container.image,
        "/usr/bin/python3",
        "-c",
        write,
    ]);
    for _ in 0..2 {
        let session = open(docker.builder().container(container.clone()));
        let result = run(&session, "import stored\nstored.size");
        assert_eq!(result.value.unwrap().repr, "3");
        let result = run(&session, "open('/environment/stored.py', 'w')");
        assert_eq!(result.status, Status::Failure);
        wait(session.close());
    }
    fill(&["volume", "rm", &container.volume]);
}

#[test]
fn a_missing_image_or_engine_is_told_with_what_to_do() {
    let Some(_docker) = docker() else { return };
    let missing = ContainerOptions::image("cellblock-no-such-image:1");
    let state = test_directory().join("state-of-nothing");
    let opened = wait(containers(&engine_socket(), &state).open(options(missing)));
    assert_eq!(
        opened.unwrap_err().to_string(),
        "the container engine has no image cellblock-no-such-image:1; `docker pull cellblock-no-such-image:1` brings it"
    );
    let nowhere = test_directory().join("no-engine");
    let opened = wait(containers(&nowhere, &state).open(options(ContainerOptions::default())));
    let message = opened.unwrap_err().to_string();
    assert!(message.contains("start Docker"), "{message}");
    // Of a session that came to nothing, nothing is left.
    for place in ["sessions", "workspaces"] {
        let left = fs::read_dir(state.join(place)).unwrap().count();
        assert_eq!(left, 0, "in {place}");
    }
}

#[test]
fn an_engine_that_dies_ends_the_cell_and_the_container() {
    let Some(docker) = docker() else { return };
    let relay = Relay::new(test_directory().join("relay"), &engine_socket());
    let session = wait(
        containers(&relay.path, &test_directory().join("state"))
            .open(options(docker.container().unwrap())),
    )
    .unwrap();
    let begun = Instant::now();
    let result = wait(async {
        let cell = Cell::new("import time\nprint('begun', flush=True)\ntime.sleep(50)");
        let mut running = session
            .start(cell.timeout(Duration::from_secs(50)))
            .unwrap();
        loop {
            match running.next().await.unwrap() {
                Event::Stdout { .. } => relay.cut(),
                Event::Result { result } => return result,
                _ => {}
            }
        }
    });
    assert_eq!(result.status, Status::Crashed);
    assert_eq!(result.state.outcome, StateOutcome::Ended);
    assert_eq!(result.stdout, "begun\n");
    let message = result.error.unwrap().value;
    assert!(message.contains("the engine went away"), "{message}");
    assert!(begun.elapsed() < Duration::from_secs(20));
    let message = wait(session.run("1")).unwrap_err().to_string();
    assert!(message.contains("the engine went away"), "{message}");
    assert_gone(session.id());
}

#[test]
fn a_container_that_another_program_ends_is_told() {
    let Some(docker) = docker() else { return };
    let session = open(docker.builder().name("ended-by-others"));
    let result = wait(async {
        let mut running = session
            .start("print('begun', flush=True)\nwhile True: pass")
            .unwrap();
        let mut is_killed = false;
        loop {
            match running.next().await.unwrap() {
                // One print can be several events.
                Event::Stdout { .. } if !is_killed => {
                    let container = container_of("ended-by-others");
                    let killed = Command::new("docker").args(["kill", &container]).output();
                    assert!(killed.unwrap().status.success());
                    is_killed = true;
                }
                Event::Result { result } => return result,
                _ => {}
            }
        }
    });
    assert_eq!(result.status, Status::Crashed);
    let message = result.error.unwrap().value;
    assert!(
        message.contains("its container ended with exit code 137"),
        "{message}"
    );
}

#[test]
fn nothing_is_left_of_a_session_that_was_closed_or_dropped() {
    let Some(docker) = docker() else { return };
    let session = open(docker.builder().name("closed"));
    wait(session.close());
    assert!(!is_there("closed"));
    let session = open(docker.builder().name("dropped"));
    assert!(is_there("dropped"));
    drop(session);
    assert_gone("dropped");
}

#[test]
fn an_image_without_python_is_told() {
    let Some(docker) = docker() else { return };
    let image = format!("cellblock-test-empty:{}", std::process::id());
    let made = Command::new("sh")
        .args([
            "-c",
            &format!("tar -c -T /dev/null | docker import - {image}"),
        ])
        .output()
        .unwrap();
    assert!(made.status.success());
    let empty = ContainerOptions::image(image.clone());
    let message = wait(open_failing(docker.builder().container(empty)));
    let removed = Command::new("docker").args(["rmi", &image]).output();
    assert!(removed.unwrap().status.success());
    assert!(
        message.contains("python3") && message.contains("not found"),
        "{message}"
    );
}

async fn open_failing(builder: cellblock::SessionBuilder) -> String {
    builder.start().await.unwrap_err().to_string()
}

/// The container of this process's session with this name; nothing where there is none.
fn container_of(session: &str) -> String {
    let name = format!("name=^/cellblock-{session}-{}-", std::process::id());
    let listed = Command::new("docker")
        .args(["ps", "-aq", "--filter", &name])
        .output()
        .unwrap();
    assert!(listed.status.success());
    String::from_utf8(listed.stdout).unwrap().trim().to_owned()
}

fn is_there(session: &str) -> bool {
    !container_of(session).is_empty()
}

fn assert_gone(session: &str) {
    let begun = Instant::now();
    while is_there(session) {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "it is still there"
        );
        thread::sleep(Duration::from_millis(100));
    }
}
