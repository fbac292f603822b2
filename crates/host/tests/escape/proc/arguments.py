# canary: argument
# Its arguments, which every user may read.
print("CANARY:" + open(f"/proc/{canary['pid']}/cmdline").read().split("\0")[-2])
