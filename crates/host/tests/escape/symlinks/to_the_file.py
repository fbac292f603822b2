# canary: file
# A link in the workspace that leads to the file.
import os

os.symlink(canary["file"], "link")
print("CANARY:" + open("link").read())
