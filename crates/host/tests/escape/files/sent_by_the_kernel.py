# canary: file
# The kernel copies it to standard output.
import os

source = os.open(canary["file"], os.O_RDONLY)
print("CANARY:", end="", flush=True)
os.splice(source, 1, 100) if hasattr(os, "splice") else os.sendfile(1, source, 0, 100)
