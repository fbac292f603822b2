# canary: file
# The shell opens it.
import os

print("CANARY:" + os.popen("read line < " + canary["file"] + "; echo $line").read())
