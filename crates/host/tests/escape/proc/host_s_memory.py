# canary: host_memory
# The memory of the process that holds our session.
import os

memory = os.open(f"/proc/{canary['host']}/mem", os.O_RDONLY)
print("CANARY:" + os.pread(memory, 32, canary["host_address"]).decode())
