# canary: variable
# The variables of the process that holds our session.
variables = open(f"/proc/{canary['host']}/environ").read().split("\0")
print("CANARY:" + dict(variable.partition("=")[::2] for variable in variables)["CELLBLOCK_CANARY"])
