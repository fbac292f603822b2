"""A server that misbehaves, written by hand. What it does wrong is its argument."""

import json
import os
import sys
import time

fault = sys.argv[1]


def send(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def tool(name, schema=None):
    return {"name": name, "inputSchema": schema or {"type": "object", "properties": {}}}


TOOLS = [tool("work")]
if fault == "tools":
    TOOLS = [tool("good"), tool("a.b"), tool("a_b"), tool("odd", {"type": "object", "properties": {"x": {"type": 5}}})]

if fault == "nonsense":
    print("Welcome to my server!", flush=True)
    time.sleep(60)
if fault == "mute":
    time.sleep(60)
if fault == "end":
    print("no configuration found", file=sys.stderr)
    sys.exit(4)

for line in sys.stdin:
    request = json.loads(line)
    answer = {"jsonrpc": "2.0", "id": request.get("id")}
    method = request["method"]
    if method == "initialize":
        answer["result"] = {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "crooked", "version": "1"},
        }
        send(answer)
    elif method == "tools/list":
        send(answer | {"result": {"tools": TOOLS}})
    elif method == "tools/call":
        good = {"content": [{"type": "text", "text": "done"}]}
        if fault == "no result":
            send(answer | {"result": {"colour": "green"}})
        elif fault == "no answer of ours":
            send({"jsonrpc": "2.0", "id": 999, "result": good})
            send(answer | {"error": {"code": -32000, "message": "I am confused"}})
        elif fault == "chatter":
            print("debug: working on it", flush=True)
            sys.stdout.buffer.write(b'\xff\xfe not utf-8 {"jsonrpc"\n')
            send(answer | {"result": good})
        elif fault == "picture":
            picture = {"type": "image", "mimeType": "image/png", "data": "*** no base64 ***"}
            send(answer | {"result": {"content": [picture]}})
        elif fault == "huge":
            sys.stdout.write('{"jsonrpc": "2.0", "id": %d, "result": {"content": [{"type": "text", "text": "' % answer["id"])
            for _ in range(1024):
                sys.stdout.write("x" * (1 << 20))
            sys.stdout.write('"}]}}\n')
            sys.stdout.flush()
        elif fault == "stay":
            send(answer | {"result": {"content": [{"type": "text", "text": str(os.getpid())}]}})
        elif fault == "vanish":
            print("goodbye", file=sys.stderr)
            sys.exit(5)
        else:
            send(answer | {"result": good})

if fault == "stay":
    time.sleep(300)
