"""What a session wrote down of itself: as a notebook, as a script, as data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from ._core import Core
from .errors import Refused, Unsupported
from .host import Host


def export(core: Core, form: Literal["notebook", "script"], path: Path) -> Path:
    """Writes the cells that were kept into a file."""
    options = ["--as", "notebook"] if form == "notebook" else []
    text = _sessions(core, "export", _journal_id(core), *options)
    path.write_text(text, encoding="utf-8")
    return path


def transcript(core: Core) -> list[dict[str, Any]]:
    """The journal of a session as data."""
    shown = json.loads(_sessions(core, "show", _journal_id(core), "--json"))
    return list(shown["cells"])


def _journal_id(core: Core) -> str:
    listed = json.loads(_sessions(core, "list", "--json"))
    for entry in listed:  # the newest first
        if entry["session"] == core.name:
            return str(entry["id"])
    raise Refused(
        f"there is no journal of the session {core.name}: nothing has happened in it yet, or its host keeps none",
        "not_found",
    )


def _sessions(core: Core, *arguments: str) -> str:
    import subprocess

    if not isinstance(core.host, Host):
        raise Unsupported("journals of sessions on a server cannot be read here", "unsupported")
    done = subprocess.run(
        [core.host.binary(), "sessions", *arguments], capture_output=True, text=True, encoding="utf-8", stdin=subprocess.DEVNULL
    )
    if done.returncode != 0:
        raise Refused(f"cellblock sessions {arguments[0]}: {done.stderr.strip()}", "journal")
    return done.stdout
