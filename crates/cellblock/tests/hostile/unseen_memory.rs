//! Memory of processes that are easily overlooked: where there is no cgroup, init must find each of them in `/proc` and read what it holds.

use super::kernel_memory::is_bounded;

#[test]
fn processes_whose_first_thread_has_ended() {
    is_bounded(
        r"
import threading
def keep():
    time.sleep(0.2)
    kept.append(bytearray(b'x') * (70 << 20))
    time.sleep(60)
for _ in range(8):
    if os.fork() == 0:
        threading.Thread(target=keep).start()
        libc.syscall(60, 0)
time.sleep(6)
",
    );
}

#[test]
fn processes_that_a_second_thread_started() {
    is_bounded(
        r"
import threading
def start():
    for _ in range(8):
        if os.fork() == 0:
            kept.append(bytearray(b'x') * (70 << 20))
            time.sleep(60)
    time.sleep(60)
threading.Thread(target=start, daemon=True).start()
time.sleep(6)
",
    );
}

#[test]
fn processes_at_the_end_of_a_long_line_of_descent() {
    is_bounded(
        r"
for depth in range(26):
    if os.fork() > 0:
        time.sleep(6 if depth == 0 else 60)
        break
    if depth > 17:
        kept.append(bytearray(b'x') * (70 << 20))
else:
    time.sleep(60)
if depth > 0:
    os._exit(0)
",
    );
}
