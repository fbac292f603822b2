"""Imports each module that is named, and says so beforehand."""

import importlib
import sys

for name in sys.argv[1:]:
    print("import", name, flush=True)
    importlib.import_module(name)
