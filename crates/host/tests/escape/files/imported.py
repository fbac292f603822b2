# canary: file
# The import machinery reads files as well.
import importlib.machinery

loader = importlib.machinery.SourceFileLoader("secret", canary["file"])
print("CANARY:" + loader.get_data(canary["file"]).decode())
