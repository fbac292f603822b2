# canary: variable
# A variable of the host's.
import os

print("CANARY:" + os.environ["CELLBLOCK_CANARY"])
