"""The environment that the peers are installed in: made once, below the build directory, from the package index of this machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ("ipykernel", "jupyter_client", "smolagents", "pydantic-monty", "pandas", "e2b-code-interpreter")


def build_directory() -> Path:
    return Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")


def cellblock(wanted: str | None) -> str:
    """The binary that is asked for; else this tree's, built for release."""
    if wanted:
        return str(Path(wanted).resolve())
    say("building cellblock for release")
    subprocess.run(["cargo", "build", "--release", "--quiet", "-p", "cellblock-cli"], cwd=ROOT, check=True)
    return str(build_directory() / "release" / "cellblock")


def environment(binary: str, fresh: bool) -> Path:
    """The Python of an environment with all peers, on the interpreter that Cellblock uses, which gets its own packages too."""
    say("making Cellblock's default environment, unless it is there")
    subprocess.run([binary, "setup", "--quiet"], check=True)
    doctor = subprocess.run([binary, "doctor", "--json"], capture_output=True, check=False, text=True)
    interpreter = json.loads(doctor.stdout)["python"]["path"]
    place = build_directory() / "peers"
    python = place / "bin" / "python"
    mark = place / "installed"
    if fresh:
        shutil.rmtree(place, ignore_errors=True)
    if not mark.exists() or mark.read_text() != " ".join(PACKAGES):
        say(f"installing {', '.join(PACKAGES)} into {place}")
        shutil.rmtree(place, ignore_errors=True)
        install(interpreter, place, python)
        mark.write_text(" ".join(PACKAGES))
    return python


def install(interpreter: str, place: Path, python: Path) -> None:
    uv = shutil.which("uv")
    if uv:
        subprocess.run([uv, "venv", "--quiet", "--python", interpreter, str(place)], check=True)
        subprocess.run(
            [uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", str(python), *PACKAGES], check=True
        )
    else:
        subprocess.run([interpreter, "-m", "venv", str(place)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PACKAGES], check=True)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
