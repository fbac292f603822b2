# canary: outside
# A child that left our session and our group.
import os

if os.fork() == 0:
    os.setsid()
    os.execv("/bin/sh", ["sh", "-c", f"echo {canary['mark']} > {canary['outside']}"])
os.wait()
