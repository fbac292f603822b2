# canary: file
# Up and up, then down.
import os

os.symlink("../" * 40, "up")
print("CANARY:" + open("up" + canary["file"]).read())
