"""A server that misbehaves, written by hand. What it does wrong is its argument."""

import json
import os
import sys
import time

fault = sys.argv[1]


def send(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def flood(message):
    line = json.dumps(message) + "\n"
    for _ in range(3_000):
        sys.stdout.write(line * 100)
        sys.stdout.flush()
    time.sleep(60)


def tool(name, schema=None):
    return {"name": name, "inputSchema": schema or {"type": "object", "properties": {}}}


def send_small_values(before, after):
    """About 45 MB of empty lists, which become gigabytes once they are parsed."""
    sys.stdout.write(json.dumps(before)[:-1] + ', "%s": {"x": [' % after)
    for _ in range(150):
        sys.stdout.write("[]," * 100_000)
    sys.stdout.write("[]]}}\n")
    sys.stdout.flush()


calls = 0
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
            "capabilities": {"tools": {}, "resources": {}} if fault == "documents" else {"tools": {}},
            "serverInfo": {"name": "crooked", "version": "1"},
        }
        send(answer)
    elif method == "tools/list":
        page = int((request.get("params") or {}).get("cursor") or 0)
        if fault == "small values in the list":
            send_small_values(answer, "result")
        elif fault == "pages":
            send(answer | {"result": {"tools": [], "nextCursor": str(page + 1)}})
        elif fault == "long list":
            wordy = tool("wordy%d" % page, {"type": "object", "properties": {}, "description": "x" * (1 << 20)})
            send(answer | {"result": {"tools": [wordy], "nextCursor": str(page + 1)}})
        elif fault == "early flood":
            flood({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}})
        else:
            send(answer | {"result": {"tools": TOOLS}})
    elif method == "resources/list":
        page = int((request.get("params") or {}).get("cursor") or 0)
        found = [] if fault == "pages" else [{"uri": "a:%d" % page, "name": "x" * (1 << 20)}]
        send(answer | {"result": {"resources": found, "nextCursor": str(page + 1)}})
    elif method == "tools/call":
        good = {"content": [{"type": "text", "text": "done"}]}
        calls += 1
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
        elif fault == "small values" and calls == 1:
            send_small_values(answer, "result")
        elif fault == "small values in a notification" and calls == 1:
            send_small_values({"jsonrpc": "2.0", "method": "notifications/message"}, "params")
            send(answer | {"result": good})
        elif fault == "flood":
            flood({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}})
        elif fault == "chatter flood":
            flood("debug")
        elif fault == "answers flood":
            flood({"jsonrpc": "2.0", "id": 999, "result": good})
        elif fault == "no messages":
            # Each is answered as a request that cannot be read, and it reads none of the answers.
            flood({})
        elif fault == "long lines":
            while True:
                sys.stdout.write("{" + "x" * (1 << 20) + "\n")
        elif fault == "line without end":
            while True:
                sys.stdout.write("x" * (1 << 20))
        elif fault == "large answers":
            send(answer | {"result": {"content": [{"type": "text", "text": "x" * (12 << 20)}]}})
        # It reads none of the answers to the requests that follow. Their ids are long, so that the answers soon wait.
        elif fault == "requests":
            for number in range(5_000):
                send({"jsonrpc": "2.0", "id": "%0200d" % number, "method": "ping"})
            time.sleep(60)
        elif fault == "same id":
            while True:
                send({"jsonrpc": "2.0", "id": "q" * 200, "method": "ping"})
                # Of two requests under way with the same id, only one gets an answer.
                time.sleep(0.001)
        elif fault == "cancelled requests":
            for begin in range(0, 5_000, 500):
                ids = ["%0200d" % number for number in range(begin, begin + 500)]
                for identity in ids:
                    send({"jsonrpc": "2.0", "id": identity, "method": "ping"})
                # A request that is cancelled at once gets no answer.
                time.sleep(0.2)
                for identity in ids:
                    send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": identity}})
            time.sleep(60)
        elif fault == "long request":
            send({"jsonrpc": "2.0", "id": "q" * 100_000, "method": "ping"})
            time.sleep(60)
        elif fault == "progress":
            # As much as a server may send at once.
            for number in range(10_000):
                send({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}})
            send(answer | {"result": good})
        elif fault == "stay":
            send(answer | {"result": {"content": [{"type": "text", "text": str(os.getpid())}]}})
        elif fault == "vanish":
            print("goodbye", file=sys.stderr)
            sys.exit(5)
        else:
            send(answer | {"result": good})

if fault == "stay":
    time.sleep(300)
