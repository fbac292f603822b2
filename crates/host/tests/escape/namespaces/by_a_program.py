# canary: file
# A program that is made for it.
import subprocess

command = ["unshare", "--user", "--map-root-user", "--mount", "cat", canary["file"]]
print("CANARY:" + subprocess.run(command, capture_output=True, text=True).stdout)
