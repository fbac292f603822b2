# canary: variable
# What this process was started with, whatever it forgot since.
variables = open("/proc/self/environ").read().split("\0")
print("CANARY:" + dict(variable.partition("=")[::2] for variable in variables)["CELLBLOCK_CANARY"])
