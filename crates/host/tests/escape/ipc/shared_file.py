# canary: shared_file
# Shared memory of POSIX is a file.
print("CANARY:" + open(canary["shared_file"]).read())
