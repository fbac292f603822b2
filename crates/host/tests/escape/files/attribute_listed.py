# canary: attribute_secret
# The same, without knowing what it is called.
import os

for name in os.listxattr(canary["marked"]):
    print("CANARY:" + os.getxattr(canary["marked"], name).decode())
