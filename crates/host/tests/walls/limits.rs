//! The walls around what all share: memory, processes, disk, and the host's patience with output.

use super::attack::Attack;
use cellblock_protocol::{Limits, Status, Wall};

fn limits() -> Limits {
    Limits {
        memory: 128 << 20,
        processes: 8,
        disk: 8 << 20,
        output_kept: 100_000,
        ..Limits::default()
    }
}

#[test]
fn memory_of_one_process_is_bounded() {
    let code = "x = bytearray(256 << 20); print('REACHED')";
    Attack::on(Wall::Memory, code).limits(limits()).is_stopped();
}

#[test]
fn memory_of_all_processes_together_is_bounded() {
    let code = r"
import os, time
for _ in range(4):
    if os.fork() == 0:
        x = b'x' * (80 << 20)
        time.sleep(3)
        os._exit(0)
if all(os.wait()[1] == 0 for _ in range(4)):
    print('REACHED')
";
    Attack::on(Wall::Memory, code).limits(limits()).is_stopped();
}

#[test]
fn shared_memory_is_memory_too() {
    let code = r"
import mmap, time
maps = [mmap.mmap(-1, 64 << 20) for _ in range(5)]
for memory in maps:
    memory[:] = b'x' * len(memory)
    time.sleep(0.3)
print('REACHED')
";
    Attack::on(Wall::Memory, code).limits(limits()).is_stopped();
}

#[test]
fn memory_that_nobody_has_mapped_is_memory_too() {
    let segments = r"
import ctypes, time
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
libc.shmat.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
libc.shmdt.argtypes = [ctypes.c_void_p]
for _ in range(5):
    address = libc.shmat(libc.shmget(0, 64 << 20, 0o1600), None, 0)
    ctypes.memset(address, 1, 64 << 20)
    libc.shmdt(address)
    time.sleep(0.3)
print('REACHED')
";
    let nameless = r"
import os, time
for number in range(5):
    file = os.memfd_create('x')
    for _ in range(64):
        os.write(file, b'x' * (1 << 20))
    time.sleep(0.3)
print('REACHED')
";
    for code in [segments, nameless] {
        Attack::on(Wall::Memory, code)
            .limits(Limits {
                disk: 1 << 30,
                ..limits()
            })
            .is_stopped();
    }
}

#[test]
fn processes_are_counted() {
    let code = r"
import os, time
children = []
try:
    for _ in range(40):
        child = os.fork()
        if child == 0:
            time.sleep(60)
        children.append(child)
    print('REACHED')
finally:
    for child in children:
        os.kill(child, 9)
        os.waitpid(child, 0)
";
    Attack::on(Wall::ProcessCount, code)
        .limits(limits())
        .is_stopped();
}

#[test]
fn threads_are_counted() {
    let code = r"
import threading
done = threading.Event()
for _ in range(40):
    threading.Thread(target=done.wait, daemon=True).start()
print('REACHED')
done.set()
";
    // Stacks are memory: with little of it, that would be the wall.
    let limits = Limits {
        memory: 1 << 30,
        ..limits()
    };
    Attack::on(Wall::ProcessCount, code)
        .limits(limits)
        .is_stopped();
}

#[test]
fn one_file_is_bounded() {
    let code = r"
with open('big', 'wb') as file:
    file.write(b'x' * (16 << 20))
print('REACHED')
";
    Attack::on(Wall::Disk, code).limits(limits()).is_stopped();
}

#[test]
fn all_files_together_are_bounded() {
    let code = r"
import time
for number in range(8):
    with open(f'part{number}', 'wb') as file:
        file.write(b'x' * (4 << 20))
time.sleep(1)
print('REACHED')
";
    Attack::on(Wall::Disk, code).limits(limits()).is_stopped();
}

#[test]
fn files_whose_names_are_no_text_are_files_too() {
    let code = r"
import os, time
for number in range(8):
    file = os.open(b'\xff\xfe%d' % number, os.O_CREAT | os.O_WRONLY)
    os.write(file, b'x' * (4 << 20))
    os.close(file)
time.sleep(1)
print('REACHED')
";
    Attack::on(Wall::Disk, code).limits(limits()).is_stopped();
}

#[test]
fn files_in_deep_directories_are_files_too() {
    let code = r"
import os, time
for number in range(8):
    path = f'{number}/' + 'd/' * 50
    os.makedirs(path)
    with open(path + 'part', 'wb') as file:
        file.write(b'x' * (4 << 20))
time.sleep(1)
print('REACHED')
";
    Attack::on(Wall::Disk, code).limits(limits()).is_stopped();
}

#[test]
fn files_without_a_name_are_files_too() {
    let deleted = r"
import os, time
kept = []
for _ in range(8):
    kept.append(open('part', 'wb'))
    os.unlink('part')
    kept[-1].write(b'x' * (4 << 20))
    kept[-1].flush()
time.sleep(1)
print('REACHED')
";
    let never_named = r"
import os, time
for _ in range(8):
    file = os.open('.', os.O_TMPFILE | os.O_WRONLY)
    os.write(file, b'x' * (4 << 20))
time.sleep(1)
print('REACHED')
";
    let only_mapped = r"
import mmap, os, time
kept = []
for _ in range(8):
    with open('part', 'w+b') as file:
        os.unlink('part')
        file.write(b'x' * (4 << 20))
        kept.append(mmap.mmap(file.fileno(), 0))
time.sleep(1)
print('REACHED')
";
    for code in [deleted, never_named, only_mapped] {
        let attack = || Attack::on(Wall::Disk, code).limits(limits());
        attack().is_stopped();
        attack().without_namespaces().is_stopped();
    }
}

#[test]
fn a_short_cell_leaves_no_files_without_a_name_behind() {
    let code = r"
import os
kept = []
for _ in range(8):
    kept.append(open('part', 'wb'))
    os.unlink('part')
    kept[-1].write(b'x' * (4 << 20))
    kept[-1].flush()
print('REACHED')
";
    Attack::on(Wall::Disk, code)
        .limits(limits())
        .is_stopped_as(|result| result.status == Status::Success);
}

#[test]
fn output_is_kept_up_to_its_limit() {
    let code = "print('x' * 1_000_000)";
    Attack::on(Wall::Output, code)
        .limits(limits())
        .is_stopped_as(|result| result.stdout.len() == 1_000_001);
}
