//! What a cell cost.

use crate::support::session;
use std::time::Duration;

#[test]
fn bytes_written_are_counted_as_bytes() {
    let usage = session()
        .good("import sys\nprint('世界')\nsys.stderr.write('é')")
        .usage;
    assert_eq!((usage.stdout_bytes, usage.stderr_bytes), (7, 2));
}

#[test]
fn cpu_time_is_counted_and_sleep_is_not() {
    let session = session();
    let busy = session
        .good(
            "import time
end = time.process_time() + 0.2
while time.process_time() < end: pass",
        )
        .usage;
    let idle = session.good("time.sleep(0.2)").usage;
    assert!(busy.cpu >= Duration::from_millis(200), "{busy:?}");
    assert!(
        idle.cpu < Duration::from_millis(100) && idle.wall >= Duration::from_millis(200),
        "{idle:?}"
    );
}

#[test]
fn cpu_time_of_child_processes_counts() {
    let code = "import subprocess, sys
subprocess.run([sys.executable, '-c', 'import time\\nwhile time.process_time() < 0.3: pass']).returncode";
    let usage = session().good(code).usage;
    assert!(usage.cpu >= Duration::from_millis(300), "{usage:?}");
}

#[test]
fn the_peak_of_memory_is_that_of_the_cell() {
    let session = session();
    // The kernel counts in portions: a few pages may be missing.
    let before = session.good("1").usage.peak_bytes;
    let peak = session
        .good("x = bytearray(100 << 20)\ndel x")
        .usage
        .peak_bytes;
    assert!(peak >= before + (96 << 20), "{before} {peak}");
    let after = session.good("1").usage.peak_bytes;
    assert!(after < before + (50 << 20), "{before} {after}");
}

#[test]
fn a_time_out_tells_how_long_it_ran() {
    let usage = session()
        .run(cellblock_protocol::Cell::new("while True: pass").timeout(Duration::from_millis(500)))
        .usage;
    assert!(usage.wall >= Duration::from_millis(500), "{usage:?}");
    assert!(
        usage.cpu > Duration::from_millis(100) && usage.peak_bytes > 0,
        "{usage:?}"
    );
}
