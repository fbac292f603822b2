# canary: temporary
# Leave a file in the host's /tmp.
open(canary["temporary"], "w").write(canary["mark"])
