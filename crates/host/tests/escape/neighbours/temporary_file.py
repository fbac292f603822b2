# canary: neighbour
# A file in another session's /tmp.
print("CANARY:" + open(canary["neighbour_file"]).read())
