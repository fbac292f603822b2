"""`await` at the top of a cell. One event loop lasts for the session, so that tasks and connections made on it go on."""

from __future__ import annotations

from . import BUILTINS as __builtins__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Coroutine
    from typing import Any

_loop: AbstractEventLoop | None = None


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    global _loop
    import asyncio

    if _loop is None or _loop.is_closed():
        _loop = asyncio.new_event_loop()
    asyncio.set_event_loop(_loop)
    task = _loop.create_task(coroutine)
    try:
        return _loop.run_until_complete(task)
    except BaseException:
        if not task.done():  # interrupted from outside: the cell's own task must not go on in the next one
            task.cancel()
            try:
                _loop.run_until_complete(task)
            except BaseException:
                pass
        elif not task.cancelled():
            task.exception()  # else asyncio complains that no one looked at it
        raise
