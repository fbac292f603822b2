# canary: neighbour_closed
# Close the workspace of another session to its owner.
import os

os.chmod(canary["neighbour_workspace"], 0)
