//! Code with several threads, and the check that each of them works.

use crate::support::Python;

/// Four idle workers, and a thread that counts. The workers meet once: a pool starts one more only while none is idle.
pub(crate) const POOL_AND_COUNTER: &str = "
import os, threading, time
from concurrent.futures import ThreadPoolExecutor
pool, met = ThreadPoolExecutor(4), threading.Barrier(4)
list(pool.map(lambda _: met.wait(60), range(4)))
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

/// A thread that uses the session's channel to the host without a pause: it prints, and asks for the output of a cell.
pub(crate) const TALKING_THREAD: &str = "
import sys, threading, time
said, answered = 0, 0
def talk():
    global said, answered
    while True:
        print('out')
        print('err', file=sys.stderr)
        said += 1
        try:
            read_output(1)
        except Exception:
            answered += 1
        else:
            answered += 1
        time.sleep(0.0005)
talker = threading.Thread(target=talk, daemon=True)
talker.start()
";

/// Asserts that the talking thread goes on and gets answers.
pub(crate) fn assert_talks(session: &Python) {
    let goes_on = "
before = said, answered
limit = time.monotonic() + 10
while (said <= before[0] or answered <= before[1]) and time.monotonic() < limit:
    time.sleep(0.001)
talker.is_alive(), said > before[0], answered > before[1]";
    assert_eq!(session.value(goes_on), "(True, True, True)");
}
