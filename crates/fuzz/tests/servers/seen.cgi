#!/usr/bin/python3
import json, os, sys
environ = os.environ
body = sys.stdin.buffer.read()
headers = [[name[5:].replace("_", "-"), value] for name, value in environ.items() if name.startswith("HTTP_")]
content = json.dumps({"method": environ["REQUEST_METHOD"], "target": environ["REQUEST_URI"], "headers": headers, "body": body.hex()})
sys.stdout.write(f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n{content}")
