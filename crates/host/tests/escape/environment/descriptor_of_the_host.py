# canary: inherited
# What the process that holds our session has open.
print("CANARY:" + open(f"/proc/{canary['host']}/fd/{canary['inherited']}").read())
