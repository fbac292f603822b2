"""Tries for a while to have a file changed that init was not asked about."""

import ctypes
import os
import subprocess
import sys
import threading
import time

SECONDS = 3
# A busy machine takes longer for as many.
MIN_ROUNDS = 60
libc = ctypes.CDLL(None, use_errno=True)


def against(other, attack):
    """Runs `attack` again and again while another thread runs `other`."""
    end = time.monotonic() + SECONDS
    over = threading.Event()

    def run():
        while not over.is_set():
            other()

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    rounds = 0
    try:
        while rounds < MIN_ROUNDS or time.monotonic() < end:
            attack(rounds)
            rounds += 1
    finally:
        over.set()
        for thread in threads:
            thread.join()
    return rounds


def spoil(fd):
    if fd >= 0:
        try:
            os.write(fd, b"new")
        except OSError:
            pass
        os.close(fd)


def path_in_memory(victims, own):
    """A path that says `own` when init reads it and a victim when the kernel does."""
    assert len({len(name) for name in [own, *victims]}) == 1
    path = ctypes.create_string_buffer(own)
    current = [victims[0]]

    def flip():
        for name in (own, current[0]):
            ctypes.memmove(path, name, len(name))

    def attack(number):
        current[0] = victims[number // 20 % len(victims)]
        spoil(libc.open(path, os.O_WRONLY))
        libc.chmod(path, 0o640)

    return against(flip, attack)


def link_by_another_process(victims, own):
    """A link that leads to `own` when init follows it and to a victim when the kernel does."""
    code = (
        "import os, sys\n"
        "while os.path.exists('go'):\n"
        "    for number, name in enumerate(sys.argv[1:]):\n"
        "        os.symlink(name, f'next{number % 2}')\n"
        "        os.rename(f'next{number % 2}', 'way')\n"
    )
    os.close(os.open("go", os.O_WRONLY | os.O_CREAT))
    names = [name for victim in victims[:300] for name in (own, victim)]
    flipper = subprocess.Popen([sys.executable, "-c", code, *names])
    end = time.monotonic() + SECONDS
    rounds = 0
    while rounds < MIN_ROUNDS or time.monotonic() < end:
        try:
            spoil(os.open("way", os.O_WRONLY))
            os.utime("way", (1, 1))
        except OSError:
            pass
        rounds += 1
    os.remove("go")
    flipper.wait()
    return rounds


def descriptor_in_a_table(victims, own):
    """A number that stands for `own` when init looks and for a victim, open for reading, when the kernel does."""
    shared = [os.open(name, os.O_RDONLY) for name in victims[:100]]
    mine = os.open(own, os.O_RDONLY)
    number = os.dup(mine)
    path = f"/proc/self/fd/{number}".encode()
    current = [shared[0]]

    def flip():
        libc.dup2(current[0], number)
        libc.dup2(mine, number)

    def attack(count):
        current[0] = shared[count // 20 % len(shared)]
        libc.fchmod(number, 0o640)
        libc.futimens(number, None)
        libc.fsetxattr(number, b"user.mark", b"1", 1, 0)
        spoil(libc.open(path, os.O_WRONLY))

    return against(flip, attack)


def path_of_a_descriptor(victims, own):
    """The path of a victim that is open for reading, in the place of another one."""
    victim = os.open(victims[0], os.O_RDONLY)
    os.dup2(victim, 50)
    return path_in_memory([b"/proc/self/fd/50"], own)


RENAME_EXCHANGE = 2


def exchange(one, other):
    """Two names change places, in one step."""
    libc.renameat2(-100, one, -100, other, RENAME_EXCHANGE)


def names_that_change_places(victims, own, seconds):
    """The name that the host writes to is now that of an own file, now that of a victim."""
    end = time.monotonic() + seconds
    rounds = 0
    while rounds < MIN_ROUNDS or time.monotonic() < end:
        victim = victims[rounds // 200 % len(victims)]
        exchange(own, victim)
        rounds += 1
    return rounds
