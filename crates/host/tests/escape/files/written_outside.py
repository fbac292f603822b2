# canary: outside
# Leave a file on the host.
open(canary["outside"], "w").write(canary["mark"])
