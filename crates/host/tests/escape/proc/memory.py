# canary: memory
# Its memory.
import os

memory = os.open(f"/proc/{canary['pid']}/mem", os.O_RDONLY)
print("CANARY:" + os.pread(memory, canary["length"], canary["address"]).decode())
