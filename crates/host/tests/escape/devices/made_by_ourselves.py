# canary: kernel_log
# Make the device where there is none.
import os
import stat

os.mknod("log", 0o600 | stat.S_IFCHR, os.makedev(1, 11))
log = os.open("log", os.O_RDONLY | os.O_NONBLOCK)
while True:
    try:
        line = os.read(log, 8192).decode(errors="replace")
    except BrokenPipeError:  # overwritten while we read
        continue
    if "cellblock-test canary" in line:
        print("CANARY:" + line, flush=True)
