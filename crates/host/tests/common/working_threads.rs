//! Code with several threads, and the check that each of them works.

use crate::support::Python;

/// Four idle workers, and a thread that counts.
pub(crate) const POOL_AND_COUNTER: &str = "
import os, threading, time
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(4)
list(pool.map(abs, range(8)))
count, stop, lock = [0], threading.Event(), threading.RLock()
def run():
    while not stop.wait(0.002):
        with lock:
            count[0] += 1
counter = threading.Thread(target=run, name='counter')
counter.start()
";

/// Whether the pool computes, the counter counts, and both have the ids that the kernel gives them.
const ALL_WORK: &str = "
before = count[0]
time.sleep(0.05)
sum(pool.map(abs, range(5))), count[0] > before, os.access(f'/proc/self/task/{counter.native_id}', 0), len(os.listdir('/proc/self/task'))
";

/// The process has `threads` threads, and all of them work.
pub(crate) fn assert_all_work(session: &Python, threads: usize) {
    let expected = format!("(10, True, True, {threads})");
    assert_eq!(session.value(ALL_WORK), expected);
}
