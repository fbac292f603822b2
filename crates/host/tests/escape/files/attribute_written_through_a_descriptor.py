# canary: attribute
# The same, with a file that is open for reading where that is allowed, and by a path of a descriptor where it is not.
import os

try:
    os.setxattr(os.open(canary["marked"], os.O_RDONLY), "user.mark", b"1")
except OSError:
    os.setxattr(f"/proc/self/fd/{os.open(canary['marked'], os.O_PATH)}", "user.mark", b"1")
