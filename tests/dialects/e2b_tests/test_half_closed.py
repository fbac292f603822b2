"""Clients that close their sending side, in the middle of a request or while an answer is on its way.

A server cannot tell such a client from one that is gone, so it is taken as gone.
"""

import json
import os
import socket
import struct
import time

import pytest
from e2b_code_interpreter import Sandbox

JSON = "application/json"


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox.create(timeout=300) as made:
        yield made


def send(sandbox, path, port, kind, body, missing=0):
    """Sends a request that announces `missing` bytes more than come, and closes the sending side."""
    address = os.environ["E2B_API_URL"].removeprefix("http://")
    name, _, number = address.partition(":")
    connection = socket.create_connection((name, int(number)), timeout=60)
    head = [
        f"POST {path} HTTP/1.1",
        f"host: {address}",
        f"content-type: {kind}",
        f"content-length: {len(body) + missing}",
        f"e2b-sandbox-id: {sandbox.sandbox_id}",
        f"e2b-sandbox-port: {port}",
        f"x-access-token: {sandbox._envd_access_token}",
    ]
    connection.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + body)
    return connection


def rest_of(connection):
    """What the server still sends until it closes the connection too."""
    connection.shutdown(socket.SHUT_WR)
    answer = b""
    with connection:
        try:
            while piece := connection.recv(65536):
                answer += piece
        except ConnectionResetError:
            pass
    return answer


def test_a_cell_is_interrupted(sandbox):
    code = "print('begun', flush=True)\nimport time\ntime.sleep(600)"
    connection = send(sandbox, "/execute", 49999, JSON, json.dumps({"code": code}).encode())
    answer = b""
    while b"begun" not in answer:
        answer += connection.recv(65536)
    begun = time.monotonic()
    assert b"end_of_execution" not in rest_of(connection)
    assert sandbox.run_code("40 + 2").text == "42"
    assert time.monotonic() - begun < 60


def test_an_upload_that_is_cut_off_leaves_no_file(sandbox):
    connection = send(sandbox, "/files?path=half.bin", 49983, "application/octet-stream", b"x" * 1000, missing=1000)
    rest_of(connection)
    assert not sandbox.files.exists("half.bin")


@pytest.mark.parametrize("cut", [3, 5, 20])
def test_a_message_that_is_cut_off_starts_no_process(sandbox, cut):
    message = json.dumps({"process": {"cmd": "/bin/bash", "args": ["-c", "touch started"]}}).encode()
    envelope = struct.pack(">BI", 0, len(message)) + message
    connection = send(sandbox, "/process.Process/Start", 49983, "application/connect+json", envelope[:cut], missing=len(envelope) - cut)
    rest_of(connection)
    assert not sandbox.files.exists("started")
    assert sandbox.commands.run("echo on").stdout == "on\n"


def test_input_that_is_cut_off_leaves_its_process_alone(sandbox):
    command = sandbox.commands.run("cat", background=True, stdin=True)
    start = json.dumps({"start": {"process": {"pid": command.pid}}}).encode()
    body = struct.pack(">BI", 0, len(start)) + start
    connection = send(sandbox, "/process.Process/StreamInput", 49983, "application/connect+json", body, missing=50)
    rest_of(connection)
    sandbox.commands.send_stdin(command.pid, "still here\n")
    sandbox.commands.close_stdin(command.pid)
    assert command.wait().stdout == "still here\n"
