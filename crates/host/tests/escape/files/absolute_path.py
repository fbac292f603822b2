# canary: file
# The plainest way: open the file by its name.
print("CANARY:" + open(canary["file"]).read())
