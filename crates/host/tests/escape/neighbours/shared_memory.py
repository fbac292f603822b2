# canary: neighbour
# Another session's shared memory.
print("CANARY:" + open(canary["neighbour_memory"]).read())
