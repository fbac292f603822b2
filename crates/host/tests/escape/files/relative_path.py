# canary: file
# Climb out of the working directory.
import os

print("CANARY:" + open(os.path.relpath(canary["file"])).read())
