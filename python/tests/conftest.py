"""Every test of a session runs twice: with `Session`, and with `AsyncSession` on an event loop."""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import cellblock
from cellblock import AsyncProcess, AsyncSession, AsyncWatch, Host, Session

# The standard library alone: what is tested here does not depend on packages.
HOST = Host(packages="none")


class Awaited:
    """An object whose coroutines are awaited at once, so a test serves both flavours."""

    def __init__(self, inner: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._inner = inner
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if name == "files":
            return Awaited(value, self._loop)
        if not callable(value):
            return value

        def call(*args: Any, **kwargs: Any) -> Any:
            made = value(*args, **kwargs)
            if hasattr(made, "__anext__"):
                return iter(self._loop.run_until_complete(_collected(made)))
            if not inspect.isawaitable(made):
                return made
            result = self._loop.run_until_complete(made)
            return Awaited(result, self._loop) if isinstance(result, (AsyncSession, AsyncProcess, AsyncWatch)) else result

        return call

    def __getitem__(self, name: str) -> Any:
        if isinstance(self._inner, AsyncSession):
            return self.get(name)
        return self.read(name)

    def __setitem__(self, name: str, value: Any) -> None:
        if isinstance(self._inner, AsyncSession):
            self.seed({name: value})
        else:
            self.write(name, value)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._loop.run_until_complete(_collected(self._inner)))

    def __repr__(self) -> str:
        return repr(self._inner)


async def _collected(events: Any) -> list[Any]:
    return [event async for event in events]


class Flavour:
    """Opens sessions of one flavour, and closes them at the end of the test."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.loop = asyncio.new_event_loop()
        self._opened: list[Any] = []

    def open(self, *args: Any, **options: Any) -> Any:
        options.setdefault("host", HOST)
        if self.name == "sync":
            session: Any = Session(*args, **options)
        else:
            session = Awaited(AsyncSession(*args, **options), self.loop)
            session.open()
        self._opened.append(session)
        return session

    def wait(self, made: Any) -> Any:
        """What a method gave: with an event loop, what it gives when awaited."""
        return made if self.name == "sync" else self.loop.run_until_complete(made)

    def end(self) -> None:
        for session in self._opened:
            session.close()
        self.loop.close()


@pytest.fixture(params=["sync", "async"])
def flavour(request: pytest.FixtureRequest) -> Iterator[Flavour]:
    made = Flavour(request.param)
    yield made
    made.end()


@pytest.fixture
def session(flavour: Flavour) -> Any:
    return flavour.open()


@pytest.fixture(scope="session", autouse=True)
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A state directory of the tests' own, and nothing left behind at their end."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))
    yield
    HOST.close()


def run_script(code: str, *, timeout: float = 60, **variables: str) -> tuple[int, str, str]:
    """Runs a program of its own with this package: its status, what it printed, what it complained of."""
    import subprocess

    package = os.path.dirname(os.path.dirname(cellblock.__file__))
    environment = {**os.environ, "PYTHONPATH": package, **variables}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=timeout, env=environment, stdin=subprocess.DEVNULL
    )
    return done.returncode, done.stdout, done.stderr
