# canary: key_name
# The names of the keys that we could use.
print("CANARY:" + open("/proc/keys").read())
