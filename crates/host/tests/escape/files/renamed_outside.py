# canary: outside
# Write it here and move it there.
import os

open("draft", "w").write(canary["mark"])
os.rename("draft", canary["outside"])
