# canary: port
# The list of what is listening on this machine.
for line in open("/proc/net/tcp").read().splitlines()[1:]:
    print("CANARY:" + str(int(line.split()[1].split(":")[1], 16)) + ".")
