"""What no suite of others asks: bad luck, bad input, and what only this kernel can do. With libzmq on the other side."""

import os
import signal
import subprocess
import sys
import time
import uuid

import pytest
from jupyter_client.manager import start_new_kernel

PATIENCE = 60


@pytest.fixture
def kernel():
    manager, client = start_new_kernel(kernel_name="cellblock")
    yield manager, client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def run(client, code, **options):
    """The reply to a cell, and the contents of its iopub messages by type."""
    shown = []
    reply = client.execute_interactive(code, output_hook=shown.append, timeout=PATIENCE, **options)
    return reply["content"], [(message["msg_type"], message["content"]) for message in shown]


def value(client, code):
    _, shown = run(client, code)
    return next(content["data"]["text/plain"] for kind, content in shown if kind == "execute_result")


def text(shown, name="stdout"):
    return "".join(content["text"] for kind, content in shown if kind == "stream" and content["name"] == name)


def test_a_crash_keeps_the_kernel_and_its_variables(kernel):
    _, client = kernel
    run(client, "x = 1")
    reply, shown = run(client, "x = 2; import os; os.kill(os.getpid(), 11)")
    assert reply["ename"] == "Crashed"
    assert "signal 11" in text(shown, "stderr")
    assert value(client, "x") == "1"


def test_undo_takes_a_cell_back(kernel):
    _, client = kernel
    run(client, "x = 1")
    run(client, "x = 2")
    run(client, "%undo")
    assert value(client, "x") == "1"


def test_ipython_is_there(kernel):
    _, client = kernel
    assert value(client, "1 + 1") == "2"
    assert value(client, "_ + Out[1]") == "4"
    assert text(run(client, "!echo from a shell")[1]) == "from a shell\n"
    assert text(run(client, "%%bash\necho from bash")[1]) == "from bash\n"
    assert "per loop" in text(run(client, "%timeit -n 1 -r 1 pass")[1])
    assert value(client, "get_ipython().__class__.__name__") == "'ZMQInteractiveShell'"
    listed = text(run(client, "%checkpoints")[1])
    assert "armed" in listed, listed


def test_a_message_with_a_wrong_signature_is_not_heard(kernel):
    manager, client = kernel
    run(client, "x = 1")
    forged = manager.client()
    forged.session.key = b"wrong"
    forged.start_channels()
    forged.execute("x = 2")
    time.sleep(1)
    forged.stop_channels()
    assert value(client, "x") == "1"


def test_messages_of_thirty_megabytes_pass_both_ways(kernel):
    _, client = kernel
    reply, _ = run(client, f"x = '{'a' * 15_000_000}'")
    assert reply["status"] == "ok"
    _, shown = run(client, "print('b' * 30_000_000)")
    assert len(text(shown)) == 30_000_001


def test_no_line_is_lost_to_a_reader_that_sleeps(kernel):
    _, client = kernel
    message = client.execute("for i in range(20000): print(i, flush=True)")
    time.sleep(3)
    found = ""
    while True:
        received = client.get_iopub_msg(timeout=PATIENCE)
        if received["parent_header"].get("msg_id") != message:
            continue
        if received["msg_type"] == "stream":
            found += received["content"]["text"]
        if received["msg_type"] == "status" and received["content"]["execution_state"] == "idle":
            break
    assert found == "".join(f"{i}\n" for i in range(20000))


def test_a_thousand_cells_after_an_error_are_aborted(kernel):
    _, client = kernel
    run(client, "x = 0")
    # They are all sent before the reply to the first.
    first = client.execute("import time; time.sleep(5); 1/0")
    waiting = {client.execute("x += 1") for _ in range(1000)}
    statuses = {}
    while len(statuses) < 1001:
        reply = client.get_shell_msg(timeout=PATIENCE)
        if reply["msg_type"] != "execute_reply":
            continue
        statuses[reply["parent_header"]["msg_id"]] = reply["content"]["status"]
    assert statuses[first] == "error"
    assert {statuses[message] for message in waiting} == {"aborted"}
    assert value(client, "x") == "0"


def test_an_interrupt_is_heard_at_once(kernel):
    manager, client = kernel
    message = client.execute("while True: pass")
    time.sleep(1)
    begun = time.monotonic()
    manager.interrupt_kernel()
    while True:
        reply = client.get_shell_msg(timeout=PATIENCE)
        if reply["parent_header"]["msg_id"] == message:
            break
    assert reply["content"]["ename"] == "KeyboardInterrupt"
    assert time.monotonic() - begun < 30
    assert value(client, "2") == "2"


def test_two_clients_share_a_kernel(kernel):
    manager, client = kernel
    other = manager.client()
    # A manager gives all its clients one identity. Sockets of ZeroMQ with the same identity displace each other.
    other.session.session = uuid.uuid4().hex
    other.start_channels()
    other.wait_for_ready(timeout=PATIENCE)
    run(client, "x = 5")
    assert value(other, "x") == "5"
    asked = []

    def answer(message):
        asked.append(message["content"]["prompt"])
        other.input("yes")

    shown = []
    other.execute_interactive("input('sure? ')", output_hook=shown.append, stdin_hook=answer, timeout=PATIENCE)
    assert asked == ["sure? "]
    other.stop_channels()


def test_widgets_talk_with_their_front_end(kernel):
    _, client = kernel
    _, shown = run(client, "import ipywidgets as w\ns = w.IntSlider(value=3)\ns")
    opened = [content for kind, content in shown if kind == "comm_open"]
    model = next(content for content in opened if content["data"]["state"].get("_model_name") == "IntSliderModel")
    data = {"method": "update", "state": {"value": 7}, "buffer_paths": []}
    message = client.session.msg("comm_msg", {"comm_id": model["comm_id"], "data": data})
    client.shell_channel.send(message)
    assert value(client, "s.value") == "7"
    client.comm_info()
    while True:
        reply = client.get_shell_msg(timeout=PATIENCE)
        if reply["msg_type"] == "comm_info_reply":
            break
    assert model["comm_id"] in reply["content"]["comms"]


def test_a_kernel_ends_with_the_process_that_started_it():
    code = "from jupyter_client.manager import start_new_kernel as s; m, c = s(kernel_name='cellblock'); print(m.provisioner.pid, flush=True); import time; time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.2)
    os.kill(pid, signal.SIGKILL)
    pytest.fail("the kernel lives on")
