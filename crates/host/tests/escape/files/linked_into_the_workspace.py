# canary: file
# A second name for it, in a directory that is ours.
import os

os.link(canary["file"], "mine")
print("CANARY:" + open("mine").read())
