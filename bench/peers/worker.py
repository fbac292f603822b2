"""Measures one peer and prints a JSON object. Runs in the scratch environment, where the peers are installed."""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import signal
import sys
import traceback

from drivers.base import Cannot, Peer
from rows import ROWS, Row

#: A row that takes longer has a peer that hangs.
ROW_TIMEOUT_SECONDS = 300
PATIENCE_IN_DANGER = 20


def main() -> None:
    name, share, wanted = sys.argv[1], float(sys.argv[2]), sys.argv[3].split(",")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what peers print is not for the table
    peer: Peer = importlib.import_module(f"drivers.{name}").Driver()
    peer.start()
    result: dict = {"title": peer.title, "version": peer.version(), "rows": {}}
    for row in ROWS:
        if row.key in wanted:
            print(f"{peer.title}: {row.title}", file=sys.stderr, flush=True)
            found = measure(peer, row, max(1, round(row.repetitions * share)))
            result["rows"][row.key] = {**found, "note": peer.notes.get(row.key)}
    peer.stop()
    json.dump(result, answers)
    answers.close()


def measure(peer: Peer, row: Row, repetitions: int) -> dict:
    try:
        if row.is_dangerous and peer.in_process:
            return apart(peer, row, repetitions)
        signal.signal(signal.SIGALRM, give_up)
        signal.alarm(ROW_TIMEOUT_SECONDS)
        try:
            return {"value": row.measure(peer, repetitions)}
        finally:
            signal.alarm(0)
    except Cannot as reason:
        return {"cannot": str(reason)}
    except Exception as error:
        traceback.print_exc()
        return {"cannot": f"failed: {type(error).__name__}: {str(error)[:200]}"}


def give_up(*_: object) -> None:
    raise Cannot(f"did not end within {ROW_TIMEOUT_SECONDS} s")


def apart(peer: Peer, row: Row, repetitions: int) -> dict:
    """In a copy of this process, since the code shares it: what ends the code ends the program."""
    receiver, sender = multiprocessing.Pipe(duplex=False)

    def work() -> None:
        try:
            sender.send({"value": row.measure(peer, repetitions)})
        except Exception as error:
            sender.send({"cannot": f"failed: {error}"[:200]})

    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    sender.close()
    process.join(PATIENCE_IN_DANGER)
    if process.is_alive():
        process.kill()
        process.join()
        return {"cannot": "the code runs in the program's own process, which hangs"}
    if process.exitcode != 0:
        return {"cannot": "the code runs in the program's own process, which dies with it"}
    return receiver.recv()


main()
