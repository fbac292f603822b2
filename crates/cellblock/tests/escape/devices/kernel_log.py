# canary: kernel_log
# The kernel's log.
import os

log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
os.lseek(log, 0, os.SEEK_END)
os.lseek(log, 0, os.SEEK_SET)
while line := os.read(log, 8192).decode(errors="replace"):
    if "cellblock-test canary" in line:
        print("CANARY:" + line, flush=True)
