//! Crash after crash, and nothing grows.

use super::census::Census;
use super::common::{descendants, memory_of, within};
use super::{alone, scaled, scene, wait};
use cellblock_protocol::{Cell, StateOutcome, Status};
use std::time::{Duration, Instant};

const DEATHS: [&str; 4] = [
    "import os; os._exit(1)",
    "import ctypes; ctypes.string_at(0)",
    "import os; os.kill(os.getpid(), 9)",
    "import os; os.fork() or os.setsid(); os.abort()",
];
/// The history is full and everything was used once.
const WARM_UP: usize = 15;
/// What may come and go: freed pages that the allocators keep.
const SLACK: u64 = 24 << 20;

#[test]
fn crash_after_crash_leaves_everything_as_it_was() {
    let _alone = alone();
    let count = scaled(60, 1_000);
    let (host, directory) = scene();
    let before = Census::settled(directory.path());
    let session = wait("opening", host.session().setup("x = 0").start()).unwrap();
    let begun = Instant::now();
    let mut level = None;
    for round in 1..=WARM_UP + count {
        // A time-out takes its time; one in fifty will do.
        let (end, status) = match round % 50 {
            0 => ("while True: pass", Status::Timeout),
            n => (DEATHS[n % DEATHS.len()], Status::Crashed),
        };
        let kept = "x += 1\nopen('x', 'w').write(str(x) * 1000)\nblock = bytearray(1 << 20)";
        assert_eq!(
            wait("a cell", session.run(kept)).unwrap().status,
            Status::Success
        );
        let lost = Cell::new(format!(
            "x = None\nopen('x', 'w').write('lost')\nopen('new', 'w').write('lost')\n{end}"
        ));
        let result = wait(
            "a crash",
            session.run(
                lost.timeout(Duration::from_millis(if status == Status::Timeout {
                    300
                } else {
                    20_000
                })),
            ),
        )
        .unwrap();
        assert_eq!(
            (result.status, result.state.outcome),
            (status, StateOutcome::Restored),
            "round {round}: {result:?}"
        );
        let look = "import os\nx, open('x').read() == str(x) * 1000, os.listdir()";
        let value = wait("a look", session.run(look))
            .unwrap()
            .value
            .unwrap()
            .repr;
        assert_eq!(value, format!("({round}, True, ['x'])"));
        if round == WARM_UP {
            wait("a checkpoint", session.checkpoints()).unwrap();
            level = Some(Level::now(directory.path()));
        }
    }
    println!("{count} crashes and restores in {:?}", begun.elapsed());
    level.unwrap().assert_not_exceeded(directory.path());
    wait("the end", session.run("os.remove('x')")).unwrap();
    wait("closing", session.close());
    drop(session);
    before.assert_unchanged(directory.path());
}

/// What a session in the middle of its life has.
struct Level {
    census: Census,
    memory: u64,
    own_memory: u64,
}

impl Level {
    fn now(directory: &std::path::Path) -> Level {
        Level {
            census: Census::settled(directory),
            memory: memory_of(&descendants(std::process::id())),
            own_memory: own_memory(),
        }
    }

    fn assert_not_exceeded(&self, directory: &std::path::Path) {
        // The checkpoint of the last cell may be in the making.
        let is_same = || Level::now(directory).census == self.census;
        if !within(Duration::from_secs(5), is_same) {
            assert_eq!(
                Level::now(directory).census,
                self.census,
                "at the end, and after the first crashes"
            );
        }
        let now = Level::now(directory);
        println!(
            "memory of the session: {} KiB, was {} KiB; of the host: {} KiB, was {} KiB",
            now.memory >> 10,
            self.memory >> 10,
            now.own_memory >> 10,
            self.own_memory >> 10
        );
        assert!(
            now.memory < self.memory + SLACK,
            "the session grew from {} to {}",
            self.memory,
            now.memory
        );
        assert!(
            now.own_memory < self.own_memory + SLACK,
            "the host grew from {} to {}",
            self.own_memory,
            now.own_memory
        );
    }
}

fn own_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))
        .unwrap();
    line.trim()
        .strip_suffix(" kB")
        .unwrap()
        .parse::<u64>()
        .unwrap()
        << 10
}
