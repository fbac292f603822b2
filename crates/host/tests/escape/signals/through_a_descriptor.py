# canary: death
# A process by its descriptor.
import os
import signal

signal.pidfd_send_signal(os.pidfd_open(canary["victim"]), 9)
