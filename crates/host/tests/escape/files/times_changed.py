# canary: times
# Make a file look as if it was just written.
import os

os.utime(canary["marked"])
