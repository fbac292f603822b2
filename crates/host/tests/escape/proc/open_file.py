# canary: descriptor
# A file that has no name any more, through the process that holds it.
print("CANARY:" + open(f"/proc/{canary['pid']}/fd/{canary['descriptor']}").read())
