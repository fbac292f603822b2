# canary: permissions
# The same, through a link in our own directory.
import os

os.symlink(canary["marked"], "way")
os.chmod("way", 0o604)
