# canary: file
# A link to its directory, and a path through it.
import os

os.symlink(canary["directory"], "door")
print("CANARY:" + open("door/secret.txt").read())
