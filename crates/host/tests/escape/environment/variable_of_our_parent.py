# canary: variable
# needs: root
# What our parent was started with.
import os

variables = open(f"/proc/{os.getppid()}/environ").read().split("\0")
print("CANARY:" + dict(variable.partition("=")[::2] for variable in variables)["CELLBLOCK_CANARY"])
