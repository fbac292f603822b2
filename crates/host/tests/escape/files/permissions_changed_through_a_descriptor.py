# canary: permissions
# The same, by the path of a descriptor that only stands for the file: to make one needs no right to the file.
import os

os.chmod(f"/proc/self/fd/{os.open(canary['marked'], os.O_PATH)}", 0o604)
