"""Serves site/ on loopback while `cellblock eval` runs with the arguments of this program.

    python3 examples/web-page/run.py --format markdown --replay examples/web-page/recordings --out out
"""

import functools
import http.server
import subprocess
import sys
import threading
from pathlib import Path

FOLDER = Path(__file__).parent
# The question names the port, and recordings know the question.
PORT = 18971


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def main() -> int:
    handler = functools.partial(QuietHandler, directory=FOLDER / "site")
    with http.server.ThreadingHTTPServer(("127.0.0.1", PORT), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        command = ["cellblock", "eval", FOLDER / "suite.toml", "--allow-net", f"localhost:{PORT}", *sys.argv[1:]]
        try:
            return subprocess.run(command).returncode
        finally:
            server.shutdown()


if __name__ == "__main__":
    sys.exit(main())
