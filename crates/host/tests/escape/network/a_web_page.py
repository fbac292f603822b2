# canary: http
# What a model would try first.
import urllib.request

print("CANARY:" + urllib.request.urlopen(f"http://127.0.0.1:{canary['http']}/", timeout=3).read().decode())
