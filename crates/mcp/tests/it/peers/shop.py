"""A server made with the official SDK. Usage: shop.py stdio, or shop.py http PORT."""

import asyncio
import base64
import os
import subprocess
import sys

from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
shop = MCPServer("shop")


@shop.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@shop.tool()
def picture() -> Image:
    """A picture."""
    return Image(data=PIXEL, format="png")


@shop.tool()
def fail() -> str:
    """Always fails."""
    raise ToolError("the shop is closed")


@shop.tool()
def environment() -> list[str]:
    """The names in the environment."""
    return sorted(os.environ)


@shop.tool()
async def sleep(seconds: float) -> str:
    """Sleeps."""
    await asyncio.sleep(seconds)
    return "awake"


@shop.tool()
def die() -> str:
    """Ends the server."""
    print("out of stock", file=sys.stderr, flush=True)
    os._exit(7)


@shop.tool()
def identity() -> int:
    """The number of the process."""
    return os.getpid()


@shop.tool()
def child() -> int:
    """Starts a process, and gives its number."""
    return subprocess.Popen(["sleep", "300"]).pid


@shop.resource("note://today", mime_type="text/plain")
def today() -> str:
    """What is sold today."""
    return "pears and plums"


if sys.argv[1] == "http":
    shop.run("streamable-http", port=int(sys.argv[2]))
else:
    shop.run()
