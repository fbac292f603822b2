# canary: kernel_log
# The kernel's log.
import os

log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
while True:
    try:
        line = os.read(log, 8192).decode(errors="replace")
    except BrokenPipeError:  # overwritten while we read
        continue
    if "cellblock-test canary" in line:
        print("CANARY:" + line, flush=True)
