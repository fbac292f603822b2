# canary: outside
# Write through a link to a file that is not there yet.
import os

os.symlink(canary["outside"], "link")
open("link", "w").write(canary["mark"])
