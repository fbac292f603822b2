# canary: death
# The kernel sends the signal: when this socket has something to read.
import fcntl
import os
import socket

near, far = socket.socketpair()
fcntl.fcntl(near, fcntl.F_SETFL, os.O_ASYNC)
fcntl.fcntl(near, fcntl.F_SETSIG, 9)
fcntl.fcntl(near, fcntl.F_SETOWN, canary["victim"])
far.send(b"x")
