"""One module for each way to run Python code. `PEERS` names them in the order of the table; the first is what the others are
compared with."""

PEERS = ("cellblock", "package", "kernel", "e2b", "jupyter", "smolagents", "monty", "fresh")
