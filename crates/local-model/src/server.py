"""Serves one GGUF file with llama.cpp, until no process uses it.

The settings come as one JSON object on standard input: weights, name, key, context, idle_seconds, and the paths state, used and
lock. The file `state` says where the server listens. The file `used` is touched by every process that uses the server. The file
`lock` is locked while the server lives.
"""

import fcntl
import json
import os
import sys
import time


def serve(settings):
    import xllamacpp

    threads = len(os.sched_getaffinity(0))
    parameters = xllamacpp.CommonParams()
    parameters.model.path = settings["weights"]
    parameters.model_alias = {settings["name"]}
    parameters.hostnames, parameters.port = ["127.0.0.1"], 0
    parameters.api_keys = [settings["key"]]
    parameters.n_ctx, parameters.n_parallel = settings["context"], 1
    parameters.use_jinja, parameters.warmup = True, False
    parameters.offline, parameters.ui = True, False
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
    # The usual 0.8 is for prose: a small model that writes code makes more mistakes with it.
    parameters.sampling.temp = 0.2
    return xllamacpp.Server(parameters)


def write_state(path, state):
    new = path + ".new"
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(state, file)
    os.rename(new, path)


def is_used(settings):
    try:
        return time.time() - os.stat(settings["used"]).st_mtime < settings["idle_seconds"]
    except FileNotFoundError:
        return False


def main():
    settings = json.load(sys.stdin)
    # The end of the terminal is not the end of the server: other processes may use it.
    os.setsid()
    lock = os.open(settings["lock"], os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    server = serve(settings)
    state = {"url": server.listening_address + "/v1", "pid": os.getpid(), "context": settings["context"]}
    write_state(settings["state"], state)
    while is_used(settings):
        time.sleep(0.5)
    os.unlink(settings["state"])
    os._exit(0)


main()
