"""Becomes a host that has secrets which any child of it would inherit: a variable, an open file, a key in its keyring.

    stage.py TEST-BINARY TEST
"""

import ctypes
import json
import os
import sys
import tempfile

ADD_KEY, KEYCTL = (248, 250) if os.uname().machine == "x86_64" else (217, 219)
JOIN_SESSION_KEYRING, SESSION_KEYRING = 1, -3
DESCRIPTOR = 57

executable, test = sys.argv[1:]
tokens = {name: os.urandom(16).hex() for name in ("variable", "descriptor", "key")}
libc = ctypes.CDLL(None, use_errno=True)

libc.syscall(KEYCTL, JOIN_SESSION_KEYRING, None)
description = b"cellblock:" + os.urandom(4).hex().encode()
payload = tokens["key"].encode()
key = libc.syscall(ADD_KEY, b"user", description, payload, len(payload), ctypes.c_int(SESSION_KEYRING))

file = tempfile.TemporaryFile()
file.write(tokens["descriptor"].encode())
file.flush()
os.dup2(file.fileno(), DESCRIPTOR, inheritable=True)

stage = {"tokens": tokens, "descriptor": DESCRIPTOR, "key": description.decode() if key > 0 else None}
environment = {**os.environ, "CELLBLOCK_CANARY": tokens["variable"], "CELLBLOCK_STAGE": json.dumps(stage)}
os.execve(executable, [executable, test, "--exact", "--nocapture"], environment)
