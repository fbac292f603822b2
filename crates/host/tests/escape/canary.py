"""The canary: a process of the host's with a secret behind every door that a snippet may try.

    canary.py DIRECTORY TOKEN-AS-ARGUMENT

It says where the doors are, and what is behind each, in one line of JSON. It ends when its input does.
"""

import ctypes
import http.server
import json
import mmap
import os
import pty
import socket
import sys
import tempfile
import threading

directory, argument = sys.argv[1:]
os.chdir(directory)
libc = ctypes.CDLL(None, use_errno=True)
tokens = {"argument": argument, "environment": os.environ["CANARY"]}
doors = {"pid": os.getpid(), "directory": directory}


def secret(door):
    tokens[door] = os.urandom(16).hex()
    return tokens[door].encode()


def serve(work):
    def forever():
        while True:
            work()

    threading.Thread(target=forever, daemon=True).start()


# Files: a plain one, one in shared memory, and one that has no name any more.
doors["file"] = os.path.join(directory, "secret.txt")
with open(doors["file"], "wb") as file:
    file.write(secret("file"))
doors["shared_file"] = f"/dev/shm/cellblock-canary-{os.getpid()}"
with open(doors["shared_file"], "wb") as file:
    file.write(secret("shared_file"))
nameless = tempfile.TemporaryFile()
nameless.write(secret("descriptor"))
nameless.flush()
doors["descriptor"] = nameless.fileno()

# Memory. Where Yama guards it, anyone of this user may look.
memory = ctypes.create_string_buffer(secret("memory"))
doors["address"] = ctypes.addressof(memory)
doors["length"] = len(tokens["memory"])
libc.prctl(0x59616D61, ctypes.c_ulong(-1 & 2**64 - 1), 0, 0, 0)


# Sockets. Each answers whoever speaks to it with its secret.
def stream(door, family, address):
    answer = secret(door)
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.bind(address)
    listener.listen(64)

    def work():
        connection = listener.accept()[0]
        try:
            connection.sendall(answer)
            connection.close()
        except OSError:
            pass

    serve(work)
    return listener.getsockname()


def datagrams(door, family, address):
    answer = secret(door)
    receiver = socket.socket(family, socket.SOCK_DGRAM)
    receiver.bind(address)

    def work():
        sender = receiver.recvfrom(100)[1]
        try:
            receiver.sendto(answer, sender)
        except OSError:
            pass

    serve(work)
    return receiver.getsockname()


def descriptors(door, path):
    """A service that hands out an open file."""
    file = tempfile.TemporaryFile()
    file.write(secret(door))
    file.flush()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    serve(lambda: socket.send_fds(listener.accept()[0], [b"x"], [file.fileno()]))


doors["tcp"] = stream("tcp", socket.AF_INET, ("127.0.0.1", 0))[1]
try:
    doors["tcp6"] = stream("tcp6", socket.AF_INET6, ("::1", 0))[1]
except OSError:
    doors["tcp6"] = None
doors["udp"] = datagrams("udp", socket.AF_INET, ("127.0.0.1", 0))[1]
doors["abstract"] = f"cellblock-canary-{os.getpid()}"
stream("abstract", socket.AF_UNIX, "\0" + doors["abstract"])
doors["abstract_datagrams"] = doors["abstract"] + "-datagrams"
datagrams("abstract_datagrams", socket.AF_UNIX, "\0" + doors["abstract_datagrams"])
for door, service in (("socket", stream), ("datagrams", datagrams), ("handed_out", descriptors)):
    doors[door] = os.path.join(directory, door)
    service(door, doors[door]) if service is descriptors else service(door, socket.AF_UNIX, doors[door])
    os.chmod(doors[door], 0o777)


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(tokens["http"].encode())

    def log_message(self, *_):
        pass


secret("http")
web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
doors["http"] = web.server_port
threading.Thread(target=web.serve_forever, daemon=True).start()

# System V: a segment and a queue that everyone may use.
libc.shmat.restype = ctypes.c_void_p
segment = libc.shmget(os.getpid() | 0x5EC0_0000, mmap.PAGESIZE, 0o1666)
ctypes.memmove(libc.shmat(segment, None, 0), secret("segment"), 32)
doors["segment"] = segment
queue = libc.msgget(os.getpid() | 0x5EC0_0000, 0o1666)
message = (1).to_bytes(8, "little") + secret("queue")
for _ in range(16):
    libc.msgsnd(queue, message, len(message) - 8, 0)
doors["queue"] = queue
doors["system_v_key"] = os.getpid() | 0x5EC0_0000
# And one of POSIX.
doors["mailbox"] = f"/cellblock-canary-{os.getpid()}"
posix = ctypes.CDLL("librt.so.1", use_errno=True)
mailbox = posix.mq_open(doors["mailbox"].encode(), os.O_CREAT | os.O_RDWR, 0o666, None)
letter = secret("mailbox")
for _ in range(4 if mailbox >= 0 else 0):
    posix.mq_send(mailbox, letter, len(letter), 0)
if mailbox < 0:
    doors["mailbox"] = None

# A terminal: what is written to it is heard, and noted in a file for the test to see.
master, slave = pty.openpty()
doors["terminal"] = os.ttyname(slave)
doors["heard"] = os.path.join(directory, "heard")


def listen():
    text = os.read(master, 1000)
    with open(doors["heard"], "ab") as file:
        file.write(text)


serve(listen)

# The kernel's log, where we may write to it.
doors["kernel_log"] = os.geteuid() == 0
if doors["kernel_log"]:
    try:
        with open("/dev/kmsg", "wb", buffering=0) as log:
            log.write(b"cellblock-test canary " + secret("kernel_log") + b"\n")
    except OSError:
        doors["kernel_log"] = False

print(json.dumps({"doors": doors, "tokens": tokens}), flush=True)
sys.stdin.read()
libc.shmctl(segment, 0, None)
libc.msgctl(queue, 0, None)
if mailbox >= 0:
    posix.mq_unlink(doors["mailbox"].encode())
os.unlink(doors["shared_file"])
