"""A session over the pipe: a crash, a memory kill over several processes, undo, a fork, pause, and the limit of processors."""

import json
import subprocess

pipe = subprocess.Popen(["cellblock", "pipe", "--stdlib"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
requests = 0


def ask(op, session="main", **fields):
    """Sends a request, and returns its result or answer."""
    global requests
    requests += 1
    print(json.dumps({"id": requests, "session": session, "op": op, **fields}), file=pipe.stdin, flush=True)
    for line in pipe.stdout:
        event = json.loads(line)
        if event.get("id") == requests and event["event"] in ("result", "answer"):
            return event[event["event"]]
        assert event["event"] != "error", event
    raise SystemExit("the pipe ended")


def run(code, session="main", status="success"):
    result = ask("run", session, code=code)
    assert result["status"] == status, (code, result)
    return result


def value(code, session="main"):
    return run(code, session)["value"]["repr"]


# Each process is far below the limit; together they are not. The value is how many ended by themselves.
HUNGRY = """
import os, time
def hold():
    held = bytearray(b"x" * 60_000_000)
    time.sleep(5)
    os._exit(0)
children = [os.fork() or hold() for _ in range(8)]
sum(os.waitpid(child, 0)[1] == 0 for child in children)
"""
BUSY = """
import time
begun = time.process_time()
end = time.perf_counter() + 4
while time.perf_counter() < end: pass
time.process_time() - begun
"""

ask("open", limits={"memory": "256MiB", "wall": 600})
run("x = 41")
run("import os; os.kill(os.getpid(), 11)", status="crashed")
assert value("x") == "41"
# The kernel ends the children, the interpreter, or both.
together = ask("run", code=HUNGRY)
has_been_killed = together["status"] == "crashed" and together["error"]["type"] == "MemoryLimit"
assert has_been_killed or int(together["value"]["repr"]) < 8, together
assert value("x") == "41"
run("x = 42")
ask("undo")
assert value("x") == "41"
fork = ask("fork")["session"]
run("x = 1", fork)
assert (value("x"), value("x", fork)) == ("41", "1")
ask("pause")
ask("resume")
assert value("x") == "41"

ask("open", "slow", limits={"cpus": 0.5, "wall": 600})
used = float(value(BUSY, "slow"))
assert used < 3, f"{used} s of processor time in 4 s"
print("a crash, a memory kill, undo, a fork, pause and the limit of processors: as promised")
pipe.stdin.close()
raise SystemExit(pipe.wait())
