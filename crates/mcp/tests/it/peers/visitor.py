"""A client made with the official SDK. It prints one JSON value.

Usage: visitor.py SCENE URL TOKEN, or visitor.py SCENE PROGRAM ARGUMENT... for a server on standard input and output.
"""

import json
import os
import sys
import time

import anyio
import httpx2
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

scene, where, *more = sys.argv[1:]
CODE = "execute_python_code"


def connect(mode="auto"):
    if where.startswith("http"):
        http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {more[0]}"}, timeout=60)
        return Client(streamable_http_client(where, http_client=http), mode=mode)
    program = StdioServerParameters(command=where, args=more, env=dict(os.environ))
    return Client(stdio_client(program), mode=mode)


async def run(client, code, **more):
    result = await client.call_tool(CODE, {"python_code_snippet": code, **more})
    return result


def text(result):
    return result.content[0].text


async def tour(client):
    seen = {"tools": [tool.name for tool in (await client.list_tools()).tools]}
    seen["instructions"] = (client.instructions or "")[:24]
    first = await run(client, "x = 20\nopen('note.txt', 'w').write('hello')\nx + 1")
    seen["first"] = [text(first), first.structured_content["status"], first.content[1].uri]
    seen["second"] = text(await run(client, "x + 2"))
    seen["error"] = text(await run(client, "x / 0")).splitlines()[0]
    picture = await run(client, PICTURE)
    seen["picture"] = [(part.type, getattr(part, "mime_type", None)) for part in picture.content]
    await client.call_tool("write_file", {"path": "data/in.csv", "content": "a,b\n1,2\n"})
    seen["written"] = text(await run(client, "print(open('data/in.csv').read())"))
    seen["variables"] = text(await client.call_tool("variables", {}))
    seen["fork"] = (await client.call_tool("fork", {"name": "try"})).structured_content
    await run(client, "x = 'changed'; open('note.txt', 'w').write('other')", session="try")
    seen["in the fork"] = text(await run(client, "x", session="try"))
    seen["in main"] = text(await run(client, "x, open('note.txt').read()"))
    seen["resources"] = [str(resource.uri) for resource in (await client.list_resources()).resources]
    seen["resource"] = (await client.read_resource("workspace://main/note.txt")).contents[0].text
    seen["computed"] = (await client.call_tool("compute", {"code": "2**70", "description": "a power"})).structured_content
    return seen


PICTURE = """
import base64
class Pixel:
    def _repr_png_(self):
        return base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
Pixel()
"""


async def progress(client):
    heard = []

    async def hear(progress, total, message):
        heard.append([time.monotonic(), message])

    code = "import time\nprint('one', flush=True)\ntime.sleep(3)\nprint('two', flush=True)"
    await client.call_tool(CODE, {"python_code_snippet": code}, progress_callback=hear)
    over = time.monotonic()
    return {
        "messages": [message for _, message in heard],
        "first was early": over - heard[0][0] > 1,
    }


async def cancel(client):
    await run(client, "kept = 1")
    begun = time.monotonic()
    with anyio.move_on_after(0.5):
        await run(client, "import time\nkept = 2\ntime.sleep(25)")
    after = text(await run(client, "kept"))
    return {"after": after, "soon": time.monotonic() - begun < 5}


async def bad(client):
    async def attempt(name, arguments):
        result = await client.call_tool(name, arguments)
        return [result.is_error, text(result)[:300]]

    seen = {
        "unknown tool": await attempt("no_such_tool", {}),
        "missing": await attempt(CODE, {}),
        "type": await attempt(CODE, {"python_code_snippet": 5, "more": 1}),
        "session": await attempt(CODE, {"python_code_snippet": "1", "session": "elsewhere"}),
        "outside": await attempt("write_file", {"path": "../../etc/x", "content": ""}),
        "base64": await attempt("write_file", {"path": "a", "content": "?", "encoding": "base64"}),
        "large": await attempt(CODE, {"python_code_snippet": "#" + "x" * (10 << 20) + "\nprint('ran')"}),
    }
    for uri in ["workspace://main/none.txt", "workspace://main/../../etc/passwd", "file:///etc/passwd"]:
        try:
            await client.read_resource(uri)
            seen[uri] = "read"
        except Exception as error:
            seen[uri] = str(error)
    for index in range(8):
        await client.call_tool("fork", {})
    seen["forks"] = await attempt("fork", {})
    seen["alive"] = await attempt(CODE, {"python_code_snippet": "print('yes')"})
    return seen


async def hang(client):
    """Says that a cell runs, and waits to be killed."""

    async def hear(progress, total, message):
        print(json.dumps("running"), flush=True)

    code = "print('running', flush=True)\nwhile True: pass"
    await client.call_tool(CODE, {"python_code_snippet": code, "timeout": 600}, progress_callback=hear)


async def main():
    name, _, mode = scene.partition("-")
    async with connect(mode or "auto") as client:
        print(json.dumps(await globals()[name](client)))


anyio.run(main)
