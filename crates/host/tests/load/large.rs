//! A session with a lot of data.

use super::census::Census;
use super::{alone, scaled, scene, wait};
use cellblock_protocol::{Cell, CheckpointState, Limits, StateOutcome, Status};
use cellblock_session::Session;
use std::time::{Duration, Instant};

const MEGABYTE: u64 = 1 << 20;

#[test]
fn a_session_with_much_data_arms_crashes_and_comes_back() {
    let _alone = alone();
    let wanted = scaled(300 * MEGABYTE, 5 << 30);
    let size = wanted.min(available_memory() / 2);
    if size < wanted {
        println!(
            "this machine has not enough memory free for {} MiB: with {} MiB",
            wanted >> 20,
            size >> 20
        );
    }
    let (host, directory) = scene();
    let before = Census::settled(directory.path());
    let limits = Limits {
        memory: size + size / 4 + 512 * MEGABYTE,
        ..Limits::default()
    };
    let session = wait("opening", host.session().limits(limits).start()).unwrap();
    let megabytes = size / MEGABYTE;
    let code = format!(
        "import zlib\ndata = [bytearray([n % 251]) * (1 << 20) for n in range({megabytes})]\nmark = 1\ndef check(): return sum(zlib.crc32(part) for part in data)\nbefore = check()"
    );
    let result = run(&session, &code);
    assert_eq!(result.status, Status::Success, "{result:?}");

    let begun = Instant::now();
    let checkpoints = wait("arming", session.checkpoints()).unwrap();
    println!("{megabytes} MiB: armed in {:?}", begun.elapsed());
    assert_eq!(checkpoints.state, CheckpointState::armed());
    for (round, end) in [
        "import ctypes; ctypes.string_at(0)",
        "import os; os._exit(1)",
        "while True: pass",
    ]
    .iter()
    .enumerate()
    {
        let code = format!("mark = 0\nfor part in data[:100]: part[::4096] = bytes(256)\n{end}");
        let begun = Instant::now();
        let result = wait(
            "a crash",
            session.run(Cell::new(code).timeout(Duration::from_secs(if round == 2 {
                2
            } else {
                60
            }))),
        )
        .unwrap();
        assert_eq!(
            (result.status != Status::Success, result.state.outcome),
            (true, StateOutcome::Restored),
            "{result:?}"
        );
        let crashed = begun.elapsed();
        let result = run(&session, "mark");
        println!(
            "{:?} and back in {crashed:?}, next cell after {:?}",
            result.status,
            begun.elapsed() - crashed
        );
        assert_eq!(result.state.checkpoint, CheckpointState::armed());
        assert_eq!(result.value.unwrap().repr, "1");
    }
    assert_eq!(
        run(&session, "check() == before").value.unwrap().repr,
        "True"
    );
    // A change that is kept, and one that is taken back.
    assert_eq!(
        run(&session, "for part in data[:100]: part[0] += 1\nmark = 2").status,
        Status::Success
    );
    assert_eq!(
        wait("undo", session.undo(1)).unwrap().not_restored,
        Vec::<String>::new()
    );
    assert_eq!(
        run(&session, "mark, check() == before").value.unwrap().repr,
        "(1, True)"
    );
    wait("closing", session.close());
    drop(session);
    before.assert_unchanged(directory.path());
}

fn run(session: &Session, code: &str) -> cellblock_protocol::CellResult {
    wait(
        "a cell",
        session.run(Cell::new(code).timeout(Duration::from_secs(300))),
    )
    .unwrap()
}

fn available_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))
        .unwrap();
    line.trim()
        .strip_suffix(" kB")
        .unwrap()
        .parse::<u64>()
        .unwrap()
        << 10
}
