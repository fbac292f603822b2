# canary: heard
# Write to a person's terminal.
open(canary["terminal"], "w").write(canary["mark"])
