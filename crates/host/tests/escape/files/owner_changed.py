# canary: owner
# needs: root
# Give a file to somebody else.
import os

os.chown(canary["marked"], 12345, 12345)
