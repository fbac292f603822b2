# canary: file
# needs: root
# Our parent may have another root directory.
import os

print("CANARY:" + open(f"/proc/{os.getppid()}/root" + canary["file"]).read())
