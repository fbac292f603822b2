//! What a client that does not read costs the pipe.

use crate::support::Place;
use serde_json::json;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// The most memory that the process had so far.
fn peak_memory(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.unwrap().split_whitespace().nth(1).unwrap();
    kib.parse::<u64>().unwrap() << 10
}

#[test]
fn lines_that_nobody_reads_take_bounded_memory() {
    const PAGE: &str = "class Page:
    def _repr_html_(self): return 'x' * (12 << 20)
display(Page())";
    const CELLS: usize = 12;
    const STILL: Duration = Duration::from_secs(4);
    let place = Place::new();
    let mut pipe = place.pipe();
    for _ in 0..CELLS {
        // A line of 12 MiB for the display, and another for the result.
        pipe.send(json!({"op": "run", "code": PAGE}));
    }
    let process = pipe.child.id();
    let (mut peak, mut since) = (0, Instant::now());
    while since.elapsed() < STILL {
        thread::sleep(Duration::from_millis(200));
        let now = peak_memory(process);
        if now > peak {
            (peak, since) = (now, Instant::now());
        }
    }
    assert!(peak < 128 << 20, "{} MiB", peak >> 20);
    pipe.child.kill().unwrap();
    pipe.child.wait().unwrap();
}
