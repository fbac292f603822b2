"""Servers that tests start."""

import re
import socket
import subprocess
import threading
import time
import urllib.parse

import pytest


def started(command, pattern):
    """Starts a server, gives its address, and ends it."""
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        said = []
        for line in process.stderr:
            said.append(line)
            if found := re.search(pattern, line):
                # What the server says later is read too, so that it never waits for a reader.
                threading.Thread(target=process.stderr.read, daemon=True).start()
                wait_for_listener(found[1], process)
                yield found[1].rstrip("/")
                break
        else:
            pytest.fail("the server did not start: " + "".join(said))
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()


def wait_for_listener(address, process):
    """Some servers tell their address before they listen."""
    place = urllib.parse.urlsplit(address)
    for _ in range(600):
        try:
            socket.create_connection((place.hostname, place.port), timeout=5).close()
        except OSError:
            assert process.poll() is None, "the server ended"
            time.sleep(0.1)
        else:
            return
