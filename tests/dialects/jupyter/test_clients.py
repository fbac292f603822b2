"""Clients of others, as they are: jupyter_server with `--gateway-url`, Open WebUI's executor of code, node's zeromq."""

import asyncio
import json
import os
import subprocess
import sys
import time
import types
import urllib.request
import uuid
from pathlib import Path

import pytest
from jupyter_client.manager import start_new_kernel
from served import started

PATIENCE = 120


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The address of a `cellblock serve`."""
    data = tmp_path_factory.mktemp("served")
    command = [os.environ["CELLBLOCK"], "serve", "--no-auth", "--listen", "127.0.0.1:0", "--data", str(data)]
    yield from started(command, r"serving at (\S+)")


@pytest.fixture(scope="module")
def gateway(served, tmp_path_factory):
    """The address of a jupyter_server whose kernels are those of Cellblock."""
    if "JUPYTER_SERVER" not in os.environ:
        pytest.skip("jupyter_server could not be installed")
    directory = tmp_path_factory.mktemp("gateway")
    options = ["--ServerApp.token=", "--ServerApp.password=", "--ServerApp.disable_check_xsrf=True", "--ServerApp.port=0", "--no-browser", "--allow-root"]
    command = [sys.executable, "-m", "jupyter_server", f"--gateway-url={served}", f"--ServerApp.root_dir={directory}", *options]
    yield from started(command, r"(http://127\.0\.0\.1:\d+/)")


def call(method, url, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, method=method, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as response:
        text = response.read()
        return json.loads(text) if text else None


class Notebook:
    """The WebSocket of a kernel, as a front end uses it."""

    def __init__(self, socket):
        self.socket = socket

    async def send(self, code):
        header = {"msg_id": uuid.uuid4().hex, "msg_type": "execute_request", "username": "", "session": "s", "version": "5.3", "date": ""}
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False, "stop_on_error": True}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell", "buffers": []}
        await self.socket.send(json.dumps(message))
        return header["msg_id"]

    async def wait(self, request, *kinds):
        """The contents of the first message of one of these kinds that belongs to the request."""
        while True:
            message = json.loads(await asyncio.wait_for(self.socket.recv(), PATIENCE))
            if message["parent_header"].get("msg_id") == request and message["header"]["msg_type"] in kinds:
                return message["content"]

    async def run(self, code, *kinds):
        return await self.wait(await self.send(code), *kinds)


def test_jupyter_server_runs_its_kernels_through_the_gateway(gateway):
    import websockets

    specs = call("GET", f"{gateway}/api/kernelspecs")
    assert list(specs["kernelspecs"]) == ["cellblock"]
    session = call("POST", f"{gateway}/api/sessions", {"kernel": {"name": "cellblock"}, "name": "n", "path": "n.ipynb", "type": "notebook"})
    kernel = session["kernel"]["id"]
    address = f"{gateway}/api/kernels/{kernel}".replace("http", "ws", 1)

    async def work():
        async with websockets.connect(f"{address}/channels", max_size=None) as socket:
            notebook = Notebook(socket)
            assert (await notebook.run("x = 20; x + 1", "execute_result"))["data"]["text/plain"] == "21"
            endless = await notebook.send("print('begun', flush=True)\nwhile True: pass")
            assert "begun" in (await notebook.wait(endless, "stream"))["text"]
            await asyncio.to_thread(call, "POST", f"{gateway}/api/kernels/{kernel}/interrupt", {})
            assert (await notebook.wait(endless, "error"))["ename"] == "KeyboardInterrupt"
            assert (await notebook.run("x", "execute_result"))["data"]["text/plain"] == "20"
        await asyncio.to_thread(call, "POST", f"{gateway}/api/kernels/{kernel}/restart", {})
        async with websockets.connect(f"{address}/channels", max_size=None) as socket:
            assert (await Notebook(socket).run("x", "error", "execute_result"))["ename"] == "NameError"

    asyncio.run(work())
    call("DELETE", f"{gateway}/api/sessions/{session['id']}")
    assert call("GET", f"{gateway}/api/kernels") == []


def executor():
    """Open WebUI's module, whose two files are the only ones of that package that are here. Its settings are those of a plain installation."""
    if "OPEN_WEBUI" not in os.environ:
        pytest.skip("open-webui could not be fetched")
    settings = types.ModuleType("open_webui.env")
    settings.AIOHTTP_CLIENT_ALLOW_REDIRECTS, settings.ENABLE_ORJSON = False, False
    sys.modules["open_webui.env"] = settings
    sys.path.insert(0, os.environ["OPEN_WEBUI"])
    from open_webui.utils import code_interpreter

    return code_interpreter


def test_open_webui_executes_code(served):
    module = executor()

    def execute(code):
        return asyncio.run(module.execute_code_jupyter(served, code, "", "", PATIENCE))

    given = execute("import sys\nprint('shown')\nprint('warned', file=sys.stderr)\n6 * 7")
    assert (given["stdout"], given["stderr"], given["result"]) == ("shown", "warned", "42")
    assert "ZeroDivisionError" in execute("1 / 0")["stderr"]
    # A kernel for each run, and none of them is left.
    deadline = time.monotonic() + PATIENCE
    while call("GET", f"{served}/api/kernels") and time.monotonic() < deadline:
        time.sleep(0.2)
    assert call("GET", f"{served}/api/kernels") == []


def test_node_zeromq_talks_with_the_kernel():
    if "NODE_MODULES" not in os.environ:
        pytest.skip("node's zeromq could not be installed")
    manager, client = start_new_kernel(kernel_name="cellblock")
    try:
        script = Path(__file__).with_name("zeromq_client.cjs")
        environment = {**os.environ, "NODE_PATH": os.environ["NODE_MODULES"]}
        command = ["node", str(script), manager.connection_file, "print('out')\n1 + 1"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stderr
        seen = json.loads(done.stdout)
        assert (seen["echo"], seen["language"], seen["status"]) == ("ping", "python", "ok")
        kinds = [kind for kind, _ in seen["shown"]]
        assert kinds[:2] == ["status", "execute_input"]
        text = "".join(content["text"] for kind, content in seen["shown"] if kind == "stream")
        assert text == "out\n"
        assert seen["shown"][-1][1]["data"]["text/plain"] == "2"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
