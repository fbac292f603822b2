# canary: permissions
# Close a file to its owner.
import os

os.chmod(canary["marked"], 0o604)
