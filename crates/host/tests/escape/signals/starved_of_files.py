# canary: limit
# Not a signal, but as good: change the limits of another process.
import resource

resource.prlimit(canary["victim"], resource.RLIMIT_NOFILE, (7, 7))
