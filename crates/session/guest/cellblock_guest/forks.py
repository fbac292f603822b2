"""A copy of the head that becomes the head of another session: it has all variables, and files of its own at the same paths.

Open files still lead to the parent's and share its offsets, so each is opened again under its path. What cannot be had twice is
cut off: the other end of a pipe or a socket is the parent's.
"""

from __future__ import annotations

import os

from . import BUILTINS as __builtins__
from . import (
    checkpoints,
    child_processes,
    descriptors,
    entropy,
    mappings,
    native,
    own_copies,
    places,
    prefork_state,
    process_id_keepers,
)
from .libraries import modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Arrived(BaseException):
    """Raised in the copy: it is the head of the fork now, and serves the channel `descriptor`."""

    def __init__(self, descriptor: int, not_copied: list[str]) -> None:
        self.descriptor = descriptor
        self.not_copied = not_copied


def make(channel: int, own_memory: Any) -> None:
    """Copy this process into the fork that init has prepared. In the copy, raises `Arrived` once it has settled there.
    `own_memory` is what the head itself shares with its copies: it sees to that."""
    has_threads = native.has_other_threads()
    process = os.getpid()
    child_processes.guard()
    pools = child_processes.Pools()
    parent_state = _ParentState(channel, own_memory)
    # Without other threads, CPython itself sees to `random` in the copy.
    fresh_seeds = entropy.FreshSeeds(besides=() if has_threads else ("random",))
    pid = -1
    try:
        fresh_seeds.apply()
        parent_state.leave_to_copy()
        with checkpoints.OtherThreadsWait(has_threads):
            pid, arrived = native.copy_into_fork(channel, has_threads)
            if pid == 0:
                checkpoints.renew_ids(process, pools)
        if pid == 0:
            parent_state.apply()
            pools_lost, problems = child_processes.end()
            not_copied = parent_state.not_copied() + pools_lost + problems
            if has_threads:
                # A thread may wait at a pipe or a socket of the parent's.
                native.interrupt_threads()
            raise Arrived(arrived, not_copied)
    finally:
        if pid != 0:
            fresh_seeds.revert()
        parent_state.close()


class _ParentState:
    """The state of the parent before the fork, which makes the copy independent."""

    def __init__(self, channel: int, own_memory: Any) -> None:
        try:
            self._directory = os.getcwd()
        except OSError:  # it was removed
            self._directory = places.workspace()
        self._open = descriptors.Open.look(besides=(0, 1, 2, channel))
        self._mappings = mappings.shared(besides=own_memory)
        self._own_copies = own_copies.OwnCopies(self._open, self._mappings)
        random: Any = modules.get("random")
        self._random = random.getstate() if random is not None and entropy.is_seeded("random") else None
        self._children = checkpoints.children()
        self._locked = prefork_state.locked(self._open)
        self._not_empty = prefork_state.not_empty(self._open)
        self._has_timer = prefork_state.has_timer()

    def leave_to_copy(self) -> None:
        """Have the copy that is made next replace what a thread of it could reach before this is applied."""
        self._own_copies.remember()

    def apply(self) -> None:
        self._own_copies.settle()
        try:
            os.chdir(self._directory)
        except OSError:
            os.chdir(places.workspace())
        # Before the descriptors: a thread of a pool that finds the pipes of its workers closed takes semaphores, and those must
        # not be the parent's.
        self._part_from_shared_memory()
        self._open.renew()
        self._open.renew_watches()
        # CPython seeds `random` anew in every fork.
        if self._random is not None:
            modules["random"].setstate(self._random)

    def not_copied(self) -> list[str]:
        """In the copy: what it does not have of all this."""
        processes = [f"the process {name}: a fork has none of the processes of its parent" for name in self._children]
        waiting = [f"{name}: what waits in it" for name in self._not_empty]
        locks = [f"{path}: a lock on it" for path in self._locked]
        timers = ["a timer of `signal`: it does not run in a fork"] if self._has_timer else []
        keepers = process_id_keepers.lost(self._open.has_counters())
        return processes + self._open.lost() + waiting + locks + timers + keepers

    def _part_from_shared_memory(self) -> None:
        # A library may have unmapped some when Python told it of the fork.
        present = {mapping.place for mapping in mappings.shared()} if self._mappings else set()
        for mapping in self._mappings:
            if mapping.place in present:
                mapping.renew()

    def close(self) -> None:
        self._open.close()
