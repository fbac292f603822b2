# canary: file
# Links to links to the file.
import os

os.symlink(canary["file"], "link0")
for number in range(20):
    os.symlink(f"link{number}", f"link{number + 1}")
print("CANARY:" + open("link20").read())
