# canary: death
# The same, with the process named in memory and not in a register.
import fcntl
import os
import socket
import struct

F_SETOWN_EX, PROCESS = 15, 1
near, far = socket.socketpair()
fcntl.fcntl(near, fcntl.F_SETFL, os.O_ASYNC)
fcntl.fcntl(near, fcntl.F_SETSIG, 9)
fcntl.fcntl(near, F_SETOWN_EX, struct.pack("ii", PROCESS, canary["victim"]))
far.send(b"x")
