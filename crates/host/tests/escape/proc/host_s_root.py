# canary: file
# So may the process that holds our session.
print("CANARY:" + open(f"/proc/{canary['host']}/root" + canary["file"]).read())
