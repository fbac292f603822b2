# canary: variable
# What our children get.
import subprocess

print("CANARY:" + subprocess.run(["printenv", "CELLBLOCK_CANARY"], capture_output=True, text=True).stdout)
