# canary: neighbour_death
# Kill another session's interpreter.
import os

os.kill(canary["neighbour_pid"], 9)
