# canary: file
# The directory that a process of the host's works in.
print("CANARY:" + open(f"/proc/{canary['pid']}/cwd/secret.txt").read())
