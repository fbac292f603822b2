# canary: death
# The plainest way.
import os

os.kill(canary["victim"], 9)
