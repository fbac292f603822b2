"""Cellblock's own Jupyter kernel through jupyter_client: the same client, the same sockets, as for ipykernel beside it."""

from __future__ import annotations

import os
import subprocess
import tempfile

from . import jupyter
from .base import SEGFAULT, Cannot
from .jupyter import Kernel


class Driver(jupyter.Driver):
    title = "Cellblock as a kernel"
    notes: dict[str, str] = {}
    kernel_name = "cellblock"
    arguments: list[str] = []

    def start(self) -> None:
        super().start()
        self.place = tempfile.TemporaryDirectory()
        self.binary = os.environ["CELLBLOCK"]
        subprocess.run([self.binary, "jupyter", "install", "--prefix", self.place.name], check=True)
        os.environ["JUPYTER_PATH"] = f"{self.place.name}/share/jupyter"

    def stop(self) -> None:
        super().stop()
        self.place.cleanup()

    def version(self) -> str:
        return subprocess.run([self.binary, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]

    def crash(self, session: Kernel) -> None:
        reply = session.client.execute_interactive(SEGFAULT, output_hook=lambda _: None, timeout=60)
        assert reply["content"]["ename"] == "Crashed", reply

    def recover(self, session: Kernel) -> Kernel:
        return session

    def run_out_of_time(self, session: Kernel, code: str, seconds: float) -> float:
        raise Cannot("a notebook's cells have no time limit unless `cellblock jupyter install -- --timeout` sets one")
