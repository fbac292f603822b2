# canary: attribute
# Write an attribute of a file.
import os

os.setxattr(canary["marked"], "user.mark", b"1")
