# canary: file
# Find it by listing its directory, without knowing its name.
import os

for entry in os.scandir(canary["directory"]):
    if entry.name.startswith("secret"):
        print("CANARY:" + open(entry.path).read())
