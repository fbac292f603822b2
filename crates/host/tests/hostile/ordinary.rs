//! What ordinary programs do with pipes, sockets, locks and shared memory goes on working within the default limits.

use super::common::in_process_namespace;
use super::scene::{Scene, harmless};
use cellblock_protocol::Status::Success;
use std::fs;
use std::thread::sleep;
use std::time::Duration;

fn works(code: &str) {
    assert_eq!(harmless(code, &[Success]).stdout.trim(), "done");
}

#[test]
fn many_workers_with_queues_and_shared_memory() {
    works(
        r"
import multiprocessing, os
from multiprocessing import shared_memory
with multiprocessing.Pool(48) as pool:
    assert pool.map(abs, range(-1000, 0)) == list(range(1000, 0, -1))
shared = shared_memory.SharedMemory(create=True, size=32 << 20)
def fill():
    shared.buf[:] = b'x' * (32 << 20)
worker = multiprocessing.Process(target=fill)
worker.start()
worker.join()
assert shared.buf[-1] == ord('x')
shared.close()
shared.unlink()
queue = multiprocessing.Queue()
workers = [multiprocessing.Process(target=queue.put, args=('x' * 100_000,)) for _ in range(20)]
for worker in workers:
    worker.start()
assert sum(len(queue.get()) for _ in workers) == 2_000_000
for worker in workers:
    worker.join()
print('done')
",
    );
}

#[test]
fn workers_that_are_handed_connections() {
    works(
        r"
import multiprocessing, os
from multiprocessing import reduction
import socket
near, far = multiprocessing.Pipe()
if os.fork() == 0:
    try:
        for _ in range(200):
            handle = reduction.recv_handle(far)
            os.write(handle, b'x')
            os.close(handle)
    finally:
        os._exit(0)
for _ in range(200):
    here, there = socket.socketpair()
    reduction.send_handle(near, there.fileno(), None)
    there.close()
    assert here.recv(1) == b'x'
    here.close()
os.wait()
print('done')
",
    );
}

#[test]
fn commands_one_after_the_other_and_in_a_row() {
    works(
        r"
import subprocess
for number in range(150):
    assert subprocess.run(['/bin/echo', str(number)], capture_output=True, text=True).stdout == f'{number}\n'
first = subprocess.Popen(['/bin/cat'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
second = subprocess.Popen(['/usr/bin/wc', '-c'], stdin=first.stdout, stdout=subprocess.PIPE, text=True)
first.stdout.close()
first.stdin.write(b'x' * 1_000_000)
first.stdin.close()
assert second.communicate()[0].strip() == '1000000'
first.wait()
running = [subprocess.Popen(['/bin/cat'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(40)]
for process in running:
    assert process.communicate(b'x')[0] == b'x'
print('done')
",
    );
}

#[test]
fn a_server_with_hundreds_of_connections() {
    works(
        r"
import asyncio
async def echo(reader, writer):
    writer.write(await reader.readexactly(10_000))
    await writer.drain()
    writer.close()
async def ask():
    reader, writer = await asyncio.open_unix_connection('/tmp/server')
    writer.write(b'x' * 10_000)
    answer = await reader.readexactly(10_000)
    writer.close()
    return len(answer)
async def main():
    server = await asyncio.start_unix_server(echo, '/tmp/server', backlog=1000)
    assert sum(await asyncio.gather(*[ask() for _ in range(400)])) == 4_000_000
    process = await asyncio.create_subprocess_exec('/bin/cat', stdin=-1, stdout=-1)
    assert (await process.communicate(b'x' * 100_000))[0] == b'x' * 100_000
    server.close()
await main()
print('done')
",
    );
}

#[test]
fn thousands_of_pipes_that_are_closed_again() {
    works(
        r"
import os, select, socket, tempfile
for _ in range(20):
    pipes = [os.pipe() for _ in range(100)]
    watching = select.epoll()
    for r, w in pipes:
        watching.register(r)
        os.write(w, b'x')
    assert len(watching.poll(1, 1000)) == 100
    watching.close()
    for pair in pipes:
        os.close(pair[0])
        os.close(pair[1])
os.mkfifo('/tmp/fifo')
both = os.open('/tmp/fifo', os.O_RDWR)
os.write(both, b'x')
assert os.read(both, 1) == b'x'
near, far = socket.socketpair()
near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
near.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
near.sendall(b'x' * 100_000)
print('done')
",
    );
}

#[test]
fn copies_of_files_and_attributes_and_databases() {
    works(
        r"
import mmap, os, shutil, socket, sqlite3, threading
with open('large', 'wb') as file:
    file.write(os.urandom(5_000_000))
shutil.copyfile('large', 'copy')
shutil.copytree('.', '/tmp/tree')
assert open('copy', 'rb').read() == open('large', 'rb').read()
near, far = socket.socketpair()
sender = threading.Thread(target=lambda: (near.sendfile(open('large', 'rb')), near.close()))
sender.start()
received = 0
while piece := far.recv(1 << 20):
    received += len(piece)
sender.join()
assert received == 5_000_000
database = sqlite3.connect('numbers.db')
database.execute('create table numbers (number)')
for number in range(300):
    with database:
        database.execute('insert into numbers values (?)', (number,))
assert database.execute('select count(*) from numbers').fetchone() == (300,)
area = mmap.mmap(-1, 16 << 20)
area[:] = b'x' * (16 << 20)
try:
    os.setxattr('copy', 'user.note', b'a note')
    assert os.getxattr('copy', 'user.note') == b'a note'
except OSError as error:
    assert error.errno == 95, error  # this file system has none
print('done')
",
    );
}

#[test]
fn threads_with_locks_and_timers() {
    works(
        r"
import concurrent.futures, queue, signal, threading, time
with concurrent.futures.ThreadPoolExecutor(40) as pool:
    assert sum(pool.map(lambda number: number * 2, range(10_000))) == 99_990_000
done = queue.Queue()
timers = [threading.Timer(0.05, done.put, (number,)) for number in range(30)]
for timer in timers:
    timer.start()
assert {done.get(timeout=5) for _ in timers} == set(range(30))
rang = []
signal.signal(signal.SIGALRM, lambda *_: rang.append(1))
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
time.sleep(0.2)
signal.setitimer(signal.ITIMER_REAL, 0)
assert len(rang) > 3
print('done')
",
    );
}

/// How long the processes of a session have run on processors.
fn processor_time(scene: &Scene) -> Duration {
    let nanoseconds = in_process_namespace(&scene.namespace)
        .iter()
        .map(|process| {
            let text = fs::read_to_string(format!("/proc/{}/schedstat", process.pid)).unwrap();
            text.split(' ').next().unwrap().parse::<u64>().unwrap()
        })
        .sum();
    Duration::from_nanos(nanoseconds)
}

/// Where no cgroup counts its memory, init looks at its processes: that would take about 20 ms of a processor here, and once a second 4 ms.
#[test]
fn a_session_that_does_nothing_is_not_examined_ten_times_a_second() {
    let scene = Scene::new();
    scene.run("data = bytearray(1 << 20)");
    // Until its checkpoint is made.
    sleep(Duration::from_secs(2));
    let before = processor_time(&scene);
    sleep(Duration::from_secs(5));
    let used = processor_time(&scene) - before;
    assert!(used < Duration::from_millis(12), "{used:?} in 5 s");
    scene.ends_clean();
}
