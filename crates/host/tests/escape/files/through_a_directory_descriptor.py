# canary: file
# From a descriptor of the root directory, step by step.
import os

here = os.open("/", os.O_PATH)
*parents, name = canary["file"].strip("/").split("/")
for part in parents:
    here = os.open(part, os.O_PATH | os.O_NOFOLLOW, dir_fd=here)
print("CANARY:" + os.read(os.open(name, os.O_RDONLY, dir_fd=here), 100).decode())
