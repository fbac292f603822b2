"""Imports each named module, and prints its name before."""

import importlib
import sys

for name in sys.argv[1:]:
    print("import", name, flush=True)
    importlib.import_module(name)
