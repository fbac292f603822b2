# canary: file
# The kernel's name for our root directory.
print("CANARY:" + open("/proc/self/root" + canary["file"]).read())
