# canary: neighbour
# The same, without knowing where it is.
import glob

for path in glob.glob("../*/secret.txt"):
    print("CANARY:" + open(path).read())
