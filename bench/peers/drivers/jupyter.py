"""A Jupyter kernel (ipykernel) through jupyter_client, as notebooks and many agents hold one."""

from __future__ import annotations

import time
from importlib.metadata import version

from jupyter_client import KernelManager

from .base import SEGFAULT, Peer, Session, wait_until


class Driver(Peer):
    title = "Jupyter kernel"
    kernel_name = "python3"
    arguments = ["--log-level=ERROR"]
    notes = {
        "crash": "the client looks every millisecond and restarts the kernel at once",
        "time_out": "the client restarts the kernel: an interrupt is not heard in a C loop",
    }

    def start(self) -> None:
        self.kernels: list[Kernel] = []

    def stop(self) -> None:
        for kernel in list(self.kernels):
            kernel.close()

    def version(self) -> str:
        return f"ipykernel {version('ipykernel')}"

    def open(self, time_limit: float | None = None) -> Kernel:
        return Kernel(self)

    def crash(self, session: Kernel) -> None:
        session.client.execute(SEGFAULT)
        while session.manager.is_alive():
            time.sleep(0.001)

    def recover(self, session: Kernel) -> Kernel:
        session.restart()
        return session

    def run_out_of_time(self, session: Kernel, code: str, seconds: float) -> float:
        end = time.perf_counter() + seconds
        session.client.execute(code)
        # An interrupt is not heard in a loop of C; only a restart helps.
        wait_until(end)
        return end

    def processes(self) -> list[int]:
        return [kernel.manager.provisioner.process.pid for kernel in self.kernels]


class Kernel(Session):
    def __init__(self, peer: Driver) -> None:
        self.peer = peer
        self.manager = KernelManager(kernel_name=peer.kernel_name)
        self.manager.start_kernel(extra_arguments=peer.arguments)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)
        peer.kernels.append(self)

    def restart(self) -> None:
        self.manager.restart_kernel(now=True)
        self.client.wait_for_ready(timeout=60)

    def run(self, code: str) -> str:
        value, _ = self.execute(code)
        return value

    def print_through(self, code: str) -> int:
        _, printed = self.execute(code)
        return printed

    def execute(self, code: str) -> tuple[str, int]:
        value, printed = "", 0

        def take(message: dict) -> None:
            nonlocal value, printed
            kind, content = message["msg_type"], message["content"]
            if kind == "execute_result":
                value = content["data"]["text/plain"]
            elif kind == "stream":
                printed += len(content["text"])

        reply = self.client.execute_interactive(code, output_hook=take, timeout=120)
        if reply["content"]["status"] != "ok":
            raise RuntimeError(reply["content"].get("evalue"))
        return value, printed

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.peer.kernels.remove(self)
