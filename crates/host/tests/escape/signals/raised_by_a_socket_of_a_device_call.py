# canary: death
# The same, by the call for devices.
import fcntl
import os
import socket
import struct

FIOSETOWN = 0x8901
near, far = socket.socketpair()
fcntl.fcntl(near, fcntl.F_SETFL, os.O_ASYNC)
fcntl.fcntl(near, fcntl.F_SETSIG, 9)
fcntl.ioctl(near, FIOSETOWN, struct.pack("i", canary["victim"]))
far.send(b"x")
