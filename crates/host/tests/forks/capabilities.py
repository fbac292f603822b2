"""Code that tries to hold capabilities while its session is forked. What any process sees goes to the board, which all of them share."""

import ctypes
import mmap
import os
import struct
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

SETNS, KCMP, PTRACE, PRCTL, CAPGET, CAPSET = 308, 312, 101, 157, 125, 126
NEW_USER = 0x10000000
KINDS = NEW_USER, 0, 0x00020000, 0x20000000, 0x40000000
# Numbers at which descriptors are wanted: free ones, in the registers where a helper of the head's own puts them.
REPORT, CHANNEL, NAMESPACE = 50, 51, 52
CGROUPS = 53 | 54 << 21 | 55 << 42

board = mmap.mmap(-1, 4096)
SEEN, ENTERED, ARRIVED, TRIED, STAYED, OVER = 0, 8, 16, 24, 32, 40


def call(number, *arguments):
    return libc.syscall(number, *(ctypes.c_long(argument) for argument in arguments))


def read(place):
    return struct.unpack_from("<Q", board, place)[0]


def add(place, bits):
    struct.pack_into("<Q", board, place, read(place) | bits)


def capabilities():
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    sets = (ctypes.c_uint32 * 6)()
    call(CAPGET, ctypes.addressof(header), ctypes.addressof(sets))
    return sets[0] | sets[1] | (sets[3] | sets[4]) << 32


def give_up_capabilities():
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    call(CAPSET, ctypes.addressof(header), ctypes.addressof((ctypes.c_uint32 * 6)()))


def note():
    add(SEEN, capabilities())


def started(work):
    """A child process that does this for ever."""
    pid = os.fork()
    if pid == 0:
        try:
            while True:
                work()
        finally:
            os._exit(1)
    return pid


def ask_for_namespaces():
    for kind in KINDS:
        for namespace in (3, NAMESPACE):
            call(KCMP, os.getpid(), os.getppid(), 0, namespace, namespace)
            if call(SETNS, namespace, kind, REPORT, CHANNEL, CGROUPS) >= 0:
                add(ENTERED, 1)
            note()
    add(TRIED, 1)


def ask_with_threads():
    def ask():
        while True:
            ask_for_namespaces()

    for _ in range(3):
        threading.Thread(target=ask, daemon=True).start()
    ask()


def look_at_everyone():
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            try:
                with open(f"/proc/{pid}/status") as status:
                    lines = status.read().splitlines()
            except OSError:
                continue
            for line in lines:
                if line.startswith(("CapEff", "CapPrm")):
                    add(SEEN, int(line.split()[1], 16))
    add(TRIED, 1)


def replace_fork():
    """The head calls this in the place of libc's `fork` from now on: in the helper that makes the copy, and the copy returns from it."""
    from cellblock_guest import native

    kind = ctypes.PYFUNCTYPE(ctypes.c_int)
    real = kind(native._fork.value)

    def fork():
        note()
        pid = real()
        note()
        add(TRIED, 1)
        return pid

    global kept
    kept = kind(fork)
    native._fork = ctypes.cast(kept, ctypes.c_void_p)


def orphan(work):
    """A process that belongs to init, as the helpers of a fork do."""
    pid = os.fork()
    if pid == 0:
        if os.fork() == 0:
            try:
                work()
            finally:
                os._exit(0)
        os._exit(0)
    os.waitpid(pid, 0)


class Gate:
    """Machine code in memory that other processes share: makes a system call and, the very next instruction, looks which capabilities it has."""

    # mov rax, rdi; mov rdi, rsi; mov rsi, rdx; mov rdx, rcx; mov r10, r8; mov r8, r9; mov r9, [rsp + 8]
    MOVES = bytes.fromhex("4889f84889f74889d64889ca4d89c24d89c84c8b4c2408")
    SYSCALL = bytes.fromhex("0f05")
    # jmp to the instruction behind it
    JUMP = bytes.fromhex("eb00")
    HEADER, SETS = 0x200, 0x210

    def __init__(self):
        self.memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.place = len(self.MOVES)
        look = b"\x50"  # push rax
        look += b"\xb8" + struct.pack("<I", CAPGET)
        look += b"\x48\xbf" + struct.pack("<Q", self.address + self.HEADER)
        look += b"\x48\xbe" + struct.pack("<Q", self.address + self.SETS)
        look += self.SYSCALL + b"\x58\xc3"  # pop rax; ret
        code = self.MOVES + self.SYSCALL + look
        self.memory[: len(code)] = code
        struct.pack_into("<II", self.memory, self.HEADER, 0x20080522, 0)
        self.call = ctypes.CFUNCTYPE(ctypes.c_long, *[ctypes.c_long] * 7)(self.address)

    def note(self):
        sets = struct.unpack_from("<6I", self.memory, self.SETS)
        add(SEEN, sets[0] | sets[1] | (sets[3] | sets[4]) << 32)

    def flip(self):
        for _ in range(100):
            self.memory[self.place : self.place + 2] = self.JUMP
            self.memory[self.place : self.place + 2] = self.SYSCALL
        self.note()


def take_the_place(gate, wanted=(0, 0, 0, 0, 0, 0)):
    """Do what the helper of a fork does, again and again. `wanted` are the capabilities that it says shall be left to it."""
    sets = struct.pack("<8I", 0x20080522, 0, *wanted)
    memory = ctypes.create_string_buffer(sets, len(sets))
    is_inside = False
    while read(OVER) == 0 and not is_inside:
        is_traced = gate.call(PTRACE, 0, REPORT, CHANNEL, CGROUPS, NAMESPACE, ctypes.addressof(memory)) == 0
        returned = gate.call(SETNS, NAMESPACE, NEW_USER, REPORT, CHANNEL, CGROUPS, 0)
        gate.note()
        note()
        add(TRIED, 1)
        is_inside = is_traced and returned == 0
    if is_inside:
        add(ENTERED, 1)


def fake(number):
    """Have the kernel answer this call with success and not make it, here and in what this process starts. Entering a user namespace is not faked."""
    load, jump_if_equal, give_back = 0x20, 0x15, 0x06
    success, allow = 0x00050000, 0x7FFF0000
    number_of_call, second_argument = 0, 24
    steps = (
        (load, 0, 0, number_of_call),
        (jump_if_equal, 0, 3, number),
        (load, 0, 0, second_argument),
        (jump_if_equal, 1, 0, NEW_USER),
        (give_back, 0, 0, success),
        (give_back, 0, 0, allow),
    )
    program = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *step) for step in steps))
    filtering = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", len(steps), ctypes.addressof(program)))
    set_seccomp, by_filter = 22, 2
    assert call(PRCTL, set_seccomp, by_filter, ctypes.addressof(filtering)) == 0


def let_the_other_be_first():
    """The head is slow: it copies itself only when another process has been where its helper belongs, or has had time enough."""
    from cellblock_guest import native

    def copy_into_fork(channel, has_threads):
        for _ in range(200):
            if read(ENTERED):
                break
            time.sleep(0.01)
        return honest(channel, has_threads)

    honest, native.copy_into_fork = native.copy_into_fork, copy_into_fork


def wait_in_the_place_of_the_head():
    """What the head does when it shall copy itself: nothing, until another process has done it."""
    from cellblock_guest import native

    def copy_into_fork(channel, has_threads):
        while read(ARRIVED) == 0:
            time.sleep(0.01)
        time.sleep(2)
        raise OSError("no copy")

    native.copy_into_fork, native.honest = copy_into_fork, native.copy_into_fork


def send_copy_and_stay(gate):
    """Take the place of the helper, leave a copy of this process in the fork, and go on outside of it."""
    take_the_place(gate)
    give_up_capabilities()
    if os.fork() == 0:
        if os.fork() == 0:
            for cgroup in (53, 54, 55):
                try:
                    os.write(cgroup, b"0")
                except OSError:
                    pass
            # Not before the process outside has begun to count: init may end it as soon as the copy has reported.
            while read(STAYED) == 0:
                time.sleep(0.001)
            os.write(REPORT, struct.pack("<4Q", 1, 0, 0, 0))
            os.read(REPORT, 1)
            add(ARRIVED, 1)
        os._exit(0)
    os.wait()
    while True:
        struct.pack_into("<Q", board, STAYED, read(STAYED) + 1)
