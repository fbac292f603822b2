# canary: environment
# The variables of a process of the host's.
print("CANARY:" + open(f"/proc/{canary['pid']}/environ").read())
