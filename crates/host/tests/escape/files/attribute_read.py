# canary: attribute_secret
# Read an attribute of a file.
import os

print("CANARY:" + os.getxattr(canary["marked"], "user.secret").decode())
