//! What threads wait for in a fork: event descriptors, and pairs of sockets that one process has both ends of.

use crate::support::session;
use cellblock_protocol::StateOutcome;

/// Runtimes such as tokio find their own objects by the number that they register a descriptor with.
const WATCH: &str = "
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
class Event(ctypes.Structure):
    _pack_ = 1
    _fields_ = [('events', ctypes.c_uint), ('data', ctypes.c_ulonglong)]
counter = libc.eventfd(3, 0o4000)
watch = libc.epoll_create1(0)
same_watch = os.dup(watch)
libc.epoll_ctl(watch, 1, counter, ctypes.byref(Event(1, 0x123456789ABC)))
reader, writer = os.pipe()
libc.epoll_ctl(watch, 1, reader, ctypes.byref(Event(1, 0xDEF000000001)))
def events(watch):
    found = (Event * 8)()
    count = libc.epoll_wait(watch, found, 8, 0)
    return sorted((hex(event.data), event.events) for event in found[:count])
";

#[test]
fn an_epoll_knows_what_each_descriptor_was_registered_with() {
    let parent = session();
    parent.good(WATCH);
    let counted = "[('0x123456789abc', 1)]";
    assert_eq!(parent.value("events(watch)"), counted);
    let fork = parent.fork();
    for session in [&fork, &parent] {
        assert_eq!(session.value("events(watch)"), counted);
        assert_eq!(session.value("events(same_watch)"), counted);
        assert_eq!(session.value("os.eventfd_read(counter)"), "3");
        assert_eq!(session.value("events(watch)"), "[]");
    }
    fork.good("_ = os.write(writer, b'x')");
    let written = "[('0xdef000000001', 1)]";
    assert_eq!(fork.value("events(same_watch)"), written);
    assert_eq!(parent.value("events(watch)"), "[]");
}

#[test]
fn a_copy_of_an_epoll_s_descriptor_is_the_same_epoll_in_a_fork() {
    let parent = session();
    parent.good(WATCH);
    let fork = parent.fork();
    fork.good("_ = libc.epoll_ctl(same_watch, 2, counter, None)");
    assert_eq!(fork.value("events(watch)"), "[]");
    assert_eq!(parent.value("events(watch)"), "[('0x123456789abc', 1)]");
}

#[test]
fn an_epoll_that_a_failed_cell_changed_has_its_registrations_again() {
    let session = session();
    session.good(WATCH);
    let crashed = session.run("libc.epoll_ctl(watch, 2, counter, None); os._exit(3)");
    assert_eq!(crashed.state.outcome, StateOutcome::Restored);
    assert_eq!(session.value("events(watch)"), "[('0x123456789abc', 1)]");
}

#[test]
fn timers_and_signals_by_descriptor_work_in_a_fork() {
    let parent = session();
    parent.good(
        "import ctypes, os, select, signal, struct
libc = ctypes.CDLL(None)
timer = libc.timerfd_create(1, 0)
libc.timerfd_settime(timer, 0, struct.pack('4q', 0, 20_000_000, 0, 20_000_000), None)
mask = ctypes.c_ulonglong(1 << (signal.SIGUSR1 - 1))
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
signals = libc.signalfd(-1, ctypes.byref(mask), 0)",
    );
    let fork = parent.fork();
    for session in [&fork, &parent] {
        assert_eq!(session.value("len(os.read(timer, 8))"), "8");
        session.good("os.kill(os.getpid(), signal.SIGUSR1)");
        assert_eq!(session.value("os.read(signals, 128)[0]"), "10");
    }
}

#[test]
fn a_pair_of_sockets_is_a_pair_of_its_own_in_a_fork() {
    let parent = session();
    parent.good("import socket\nnear, far = socket.socketpair()\nfar.setblocking(False)");
    let fork = parent.fork();
    fork.good("near.sendall(b'fork')");
    parent.good("near.sendall(b'parent')");
    assert_eq!(fork.value("far.recv(99)"), "b'fork'");
    assert_eq!(parent.value("far.recv(99)"), "b'parent'");
}

const LOOP_IN_A_THREAD: &str = "
import asyncio, threading
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()
async def later(value):
    await asyncio.sleep(0.001)
    return value, asyncio.get_running_loop() is loop
";
const ASK_THE_LOOP: &str = "asyncio.run_coroutine_threadsafe(later(7), loop).result(20)";

#[test]
fn an_event_loop_in_a_thread_goes_on_after_a_crash_and_in_forks() {
    let parent = session();
    parent.good(LOOP_IN_A_THREAD);
    assert_eq!(parent.value(ASK_THE_LOOP), "(7, True)");
    for _ in 0..3 {
        let crashed = parent.run("import ctypes; ctypes.string_at(0)");
        assert_eq!(crashed.state.outcome, StateOutcome::Restored);
        assert_eq!(parent.value(ASK_THE_LOOP), "(7, True)");
    }
    for _ in 0..3 {
        let fork = parent.fork();
        for session in [&fork, &parent] {
            assert_eq!(session.value(ASK_THE_LOOP), "(7, True)");
        }
    }
}

/// The thread runs as soon as it is copied, long before Python's own code in the copy puts anything right. Before Python 3.12 a loop runs only in
/// the process that asyncio has noted for it.
#[test]
fn a_task_that_never_waits_goes_on_after_crashes_and_in_forks() {
    let parent = session();
    parent.good(LOOP_IN_A_THREAD);
    parent.good(
        "count = 0
async def spin():
    global count
    while True:
        count += asyncio.get_running_loop() is loop
        await asyncio.sleep(0)
spinner = asyncio.run_coroutine_threadsafe(spin(), loop)",
    );
    let goes_on = "import time
before = count
for _ in range(2000):
    if spinner.done() or count > before + 10: break
    time.sleep(0.01)
spinner.exception() if spinner.done() else count > before + 10";
    for _ in 0..10 {
        let crashed = parent.run("import ctypes; ctypes.string_at(0)");
        assert_eq!(crashed.state.outcome, StateOutcome::Restored);
        assert_eq!(parent.value(goes_on), "True");
    }
    for _ in 0..3 {
        let fork = parent.fork();
        for session in [&fork, &parent] {
            assert_eq!(session.value(goes_on), "True");
        }
    }
}

#[test]
fn a_thread_that_waits_at_a_pipe_waits_at_the_fork_s_own() {
    let parent = session();
    parent.good(
        "import os, threading
reader, writer = os.pipe()
got = []
def wait():
    while data := os.read(reader, 99):
        got.append(data)
threading.Thread(target=wait, daemon=True).start()",
    );
    let fork = parent.fork();
    for session in [&fork, &parent] {
        session.good("import time\n_ = os.write(writer, b'x')\nfor _ in range(500):\n    if got: break\n    time.sleep(0.01)");
        assert_eq!(session.value("got"), "[b'x']");
    }
}
