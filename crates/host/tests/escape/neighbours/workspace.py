# canary: neighbour
# Another session's workspace.
print("CANARY:" + open(canary["neighbour_workspace"] + "/secret.txt").read())
