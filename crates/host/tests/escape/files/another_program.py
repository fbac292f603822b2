# canary: file
# Another program has other ways.
import subprocess

print("CANARY:" + subprocess.run(["cat", canary["file"]], capture_output=True, text=True).stdout)
