"""Runs the calls of tools side by side, in the session of tools that are written in Python."""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import signal
import sys
import threading

import cellblock_loader

# The most characters of what one call prints that are kept for the trace.
_MAX_PRINTED = 10_000
_current: contextvars.ContextVar = contextvars.ContextVar("cellblock_call", default=None)


def serve(take, give) -> None:
    """Run calls until the host has no more.

    The first call runs in the main thread, as code usually does. Those that come meanwhile run in threads, and `async def` tools
    together on one event loop.
    """
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _Output(streams[0]), _Output(streams[1])
    calls: dict = {}
    first = _Call(take(), give, calls)
    listener = threading.Thread(target=_listen, args=(take, give, calls), daemon=True)
    listener.start()
    first.run()
    while listener.is_alive():
        try:
            listener.join()
        except KeyboardInterrupt:  # it was meant for a call that has ended meanwhile
            pass
    _loop.stop()
    sys.stdout, sys.stderr = streams


def _listen(take, give, calls: dict) -> None:
    """Take what the host says: a call, or the number of a call to be stopped. Nothing at the end."""
    while (order := take()) is not None:
        if "stop" in order:
            call = calls.get(order["stop"])
            if call is not None:
                call.stop()
        else:
            threading.Thread(target=_Call(order, give, calls).run, daemon=True).start()


class _Call:
    """One call of a tool."""

    def __init__(self, order: dict, give, calls: dict) -> None:
        self._id, self._name, self._arguments = order["id"], order["name"], order["arguments"]
        self._give = give
        self._calls = calls
        self._lock = threading.Lock()
        self._thread = None
        self._future = None
        self._is_stopped = False
        self.printed = ""
        calls[self._id] = self

    def run(self) -> None:
        """Call the tool in this thread, and give its result to the host."""
        _current.set(self)
        try:
            self._thread = threading.current_thread()
            result = cellblock_loader.call(self._name, self._arguments, self._wait)
        except BaseException as error:
            result = _failure(error)
        finally:
            with self._lock:
                self._thread = None
            del self._calls[self._id]
            _current.set(None)
        try:
            self._give(id=self._id, printed=self.printed, **result)
        except BaseException as error:
            self._give(id=self._id, printed=self.printed, kind="error", data=f"the result of {self._name} cannot be sent: {error}")

    def stop(self) -> None:
        """End the call as well as Python can: a function in C that does not return goes on."""
        with self._lock:
            self._is_stopped = True
            if self._future is not None:
                self._future.cancel()
            elif self._thread is threading.main_thread():
                signal.pthread_kill(self._thread.ident, signal.SIGINT)
            elif self._thread is not None:
                interrupt = ctypes.py_object(KeyboardInterrupt)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread.ident), interrupt)

    def _wait(self, awaitable):
        """The result of an `async def` tool."""
        with self._lock:
            self._future = _loop.start(awaitable)
            if self._is_stopped:
                self._future.cancel()
        return self._future.result()


def _failure(error: BaseException) -> dict:
    name = type(error).__name__
    return {"kind": "error", "data": f"{name}: {error}" if str(error) else name}


class _Loop:
    """The event loop of `async def` tools. It is the same one for all calls, so that what one of them opened can be used by the
    next; it runs while there are calls."""

    def __init__(self) -> None:
        self._loop = None
        self._thread = None
        self._lock = threading.Lock()

    def start(self, awaitable):
        async def waited():
            return await awaitable

        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
                self._thread.start()
        return asyncio.run_coroutine_threadsafe(waited(), self._loop)

    def stop(self) -> None:
        if self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._thread = None


_loop = _Loop()


class _Output:
    """A stream that keeps what a call prints with the call."""

    def __init__(self, stream) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        call = _current.get()
        if call is None:
            return self._stream.write(text)
        call.printed += text[: _MAX_PRINTED - len(call.printed)]
        return len(text)

    def writelines(self, lines) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str):
        return getattr(self._stream, name)
