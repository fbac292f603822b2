# canary: death
# Its directory in /proc is a descriptor of it, too.
import os
import signal

signal.pidfd_send_signal(os.open(f"/proc/{canary['victim']}", os.O_RDONLY), 9)
