"""What both kinds of session are made from, and what they say of themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._core import Core, new_core

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, Literal

    from ._core import InputFunction
    from .approval import Policy
    from .events import Event
    from .host import Host, Remote
    from .options import Container, EnvLike, LimitsLike, NetworkLike


class SessionBase:
    """Options and properties of `Session` and `AsyncSession`."""

    _core: Core

    def __init__(
        self,
        name: str | None = None,
        *,
        host: Host | Remote | None = None,
        workspace: str | os.PathLike[str] | None = None,
        workspace_at: str | None = None,
        env: EnvLike = None,
        imports: Iterable[str] = (),
        seed: Mapping[str, Any] | None = None,
        setup: str | None = None,
        tools: Iterable[Any] = (),
        approve: Policy = None,
        input: InputFunction | None = None,
        limits: LimitsLike = None,
        network: NetworkLike = None,
        isolation: str | Mapping[str, Any] | None = None,
        atomic: bool = False,
        strategy: Literal["process", "thread", "direct"] | None = None,
        arming: Literal["strict", "lazy"] | None = None,
        replay: bool | float | str | None = None,
        container: Container | str | None = None,
        on_log: Callable[[Event], None] | None = None,
    ) -> None:
        self._core = new_core(
            name=name,
            host=host,
            workspace=workspace,
            workspace_at=workspace_at,
            env=env,
            imports=imports,
            seed=seed,
            setup=setup,
            tools=tools,
            approve=approve,
            input=input,
            limits=limits,
            network=network,
            isolation=isolation,
            atomic=atomic,
            strategy=strategy,
            arming=arming,
            replay=replay,
            container=container,
            on_log=on_log,
        )
        self._begin()

    def _begin(self) -> None:
        """What a new session does at once."""

    @property
    def name(self) -> str:
        """The session's name, which results carry."""
        return self._core.name

    @property
    def is_open(self) -> bool:
        """Whether the session was opened and has not ended, as far as is known without asking it."""
        return self._core.is_open

    @property
    def workspace(self) -> str | None:
        """The directory of yours that the session works in; `None` when it has a fresh one of its own."""
        return self._core.workspace

    def __del__(self) -> None:
        core = getattr(self, "_core", None)  # absent when an option was wrong
        if core is not None:
            core.drop()

    def __repr__(self) -> str:
        state = "open" if self.is_open else "closed" if self._core.was_opened else "not open yet"
        return f"<{type(self).__name__} {self.name or '(new)'}, {state}>"
