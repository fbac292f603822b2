# canary: death
# The whole group of a process.
import os

os.killpg(canary["victim"], 9)
