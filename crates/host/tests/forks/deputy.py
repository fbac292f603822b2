"""Asks init for files of /proc, by every way to name them. `reached()` lists what it opened or changed."""

import ctypes
import os
import socket
import threading

libc = ctypes.CDLL(None, use_errno=True)
HERE = -100
FILES = (b"mem", b"oom_score_adj", b"comm", b"uid_map")
kept = os.open("/proc", os.O_RDONLY)


def received(descriptor):
    """The same directory, as it comes over a socket."""
    near, far = socket.socketpair()
    with near, far:
        socket.send_fds(near, [b"x"], [descriptor])
        return socket.recv_fds(far, 1, 1)[1][0]


def starts():
    """Directories of /proc, each with the way from there to /proc itself."""
    thread = threading.get_native_id()
    for path, up in (
        ("/proc", b""),
        ("/proc/self", b"../"),
        ("/proc/self/fd", b"../../"),
        ("/proc/self/task", b"../../"),
        (f"/proc/self/task/{thread}", b"../../../"),
    ):
        directory = os.open(path, os.O_RDONLY)
        others = (received(directory), os.open(path, os.O_PATH))
        for descriptor in (directory, *others):
            yield descriptor, up
            os.close(descriptor)
        os.chdir(path)
        yield HERE, up
        os.chdir("/workspace")
    # From before there was a fork: in a fork it leads to the processes of its parent.
    yield kept, b""


def calls(directory, path):
    """What init does in the place of the code, for one file. Yields the names of the calls that succeed."""
    for name, flags in (
        ("read and write", os.O_RDWR),
        ("write", os.O_WRONLY),
        ("create", os.O_WRONLY | os.O_CREAT),
        ("empty", os.O_TRUNC),
        ("stand for", os.O_PATH | os.O_WRONLY),
    ):
        descriptor = libc.openat(directory, path, flags, 0o600)
        if descriptor >= 0:
            os.close(descriptor)
            yield name
    others = {
        "chmod": lambda: libc.fchmodat(directory, path, 0o600, 0),
        "chown": lambda: libc.fchownat(directory, path, os.getuid(), os.getgid(), 0),
        "utime": lambda: libc.utimensat(directory, path, None, 0),
        "link": lambda: libc.linkat(directory, path, HERE, b"/workspace/stolen", 0),
        "link into": lambda: libc.linkat(HERE, b"/workspace/own", directory, path + b"x", 0),
    }
    if directory == HERE:
        others |= {
            "truncate": lambda: libc.truncate(path, 0),
            "setxattr": lambda: libc.setxattr(path, b"user.x", b"1", 1, 0),
            "creat": lambda: libc.creat(path, 0o600),
        }
    for name, call in others.items():
        if call() >= 0:
            yield name


def reached(processes):
    with open("/workspace/own", "w"):
        pass
    found = []
    for directory, up in starts():
        for process in ("self", "thread-self", *processes):
            for file in FILES:
                path = up + str(process).encode() + b"/" + file
                found += [(path.decode(), call) for call in calls(directory, path)]
        for path in (b"self/cwd/own", b"self/root/tmp/x", b"self/fd/1", b"sys/kernel/hostname", b"sysrq-trigger"):
            found += [((up + path).decode(), call) for call in calls(directory, up + path)]
    return found
