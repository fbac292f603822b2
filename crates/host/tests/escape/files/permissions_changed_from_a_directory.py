# canary: permissions
# The same, from a directory of the host's: by its descriptor and as the working directory.
import os

directory, name = os.path.split(canary["marked"])
try:
    os.chmod(name, 0o604, dir_fd=os.open(directory, os.O_PATH))
except OSError:
    os.chdir(directory)
    os.chmod(name, 0o604)
